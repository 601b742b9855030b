"""Every module has an `__all__` that is complete, sorted and correct.

The order is the one that ruff (RUF022) writes: CONSTANTS, then Classes, then everything else, each in the natural
order, so that `make format` repairs what this test finds.
"""

import importlib
import re
from pathlib import Path
from types import ModuleType

from tests.project.files import PACKAGE, SOURCES, module_name
from tests.project.sources import source

MODULES = [path for path in SOURCES if path.is_relative_to(PACKAGE)]


def imported(path: Path) -> ModuleType:
    return importlib.import_module(module_name(path))


def order(name: str) -> tuple[int, list[tuple[int, int, str]]]:
    constant = len(name) > 1 and name.isupper()
    group = 0 if constant else 1 if name[:1].isupper() else 2
    parts = [part for part in re.split(r"(\d+)", name) if part]
    return group, [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]


def test_every_module_has_a_sorted_all() -> None:
    for path in MODULES:
        names: list[str] | None = getattr(imported(path), "__all__", None)
        assert names is not None, f"{module_name(path)} has no __all__"
        assert list(names) == sorted(set(names), key=order), module_name(path)


def test_all_names_exist_and_no_public_name_is_missing() -> None:
    for path in MODULES:
        module = imported(path)
        listed = set(module.__all__)
        assert sorted(name for name in listed if not hasattr(module, name)) == [], module_name(path)
        assert sorted(source(path).offered - listed) == [], module_name(path)


def test_every_module_begins_with_a_sentence() -> None:
    first = {module_name(path): source(path).summary for path in MODULES}
    assert {name: text for name, text in first.items() if not re.fullmatch(r"[A-Za-z`].{11,}\.", text)} == {}


def test_every_folder_is_a_package() -> None:
    folders = {path.parent for path in MODULES}
    assert sorted(folder.name for folder in folders if not (folder / "__init__.py").exists()) == []


def test_the_order_is_the_one_that_ruff_writes() -> None:
    names = ["zebra", "Apple", "MAX", "apply", "A", "Pod10", "Pod9"]
    assert sorted(names, key=order) == ["MAX", "A", "Apple", "Pod9", "Pod10", "apply", "zebra"]
