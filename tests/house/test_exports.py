"""What a module offers is written in its `__all__`: complete, sorted, and there.

The order is the one that ruff (RUF022) writes: CONSTANTS, then Classes, then everything else, each in the natural
order, so that `make format` repairs what this test finds.
"""

import ast
import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.house.files import PACKAGE, SOURCES, module_name, rooms, tree

MODULES = [path for path in SOURCES if path.is_relative_to(PACKAGE)]
WINDOWS = [path for path in MODULES if path.name == "__init__.py"]


def imported(path: Path) -> ModuleType:
    return importlib.import_module(module_name(path))


def order(name: str) -> tuple[int, list[tuple[int, int, str]]]:
    constant = len(name) > 1 and name.isupper()
    group = 0 if constant else 1 if name[:1].isupper() else 2
    parts = [part for part in re.split(r"(\d+)", name) if part]
    return group, [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]


def public(names: list[str]) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def offered(path: Path) -> set[str]:
    """What a reader takes for public: what a window imports, what any module defines."""
    body = tree(path).body
    names = [node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
    if path.name == "__init__.py":
        # Only what comes from the house: a window may also need, say, a typing name for itself.
        ours = [
            node
            for node in body
            if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("levelset"))
        ]
        names += [alias.asname or alias.name for node in ours for alias in node.names]
    return public(names)


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_every_module_says_what_it_offers_in_order(path: Path) -> None:
    names: list[str] | None = getattr(imported(path), "__all__", None)
    assert names is not None, f"{module_name(path)} has no __all__"
    assert list(names) == sorted(names, key=order)
    assert len(names) == len(set(names))


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_everything_offered_exists_and_nothing_public_is_left_out(path: Path) -> None:
    module = imported(path)
    listed = set(module.__all__)
    assert sorted(name for name in listed if not hasattr(module, name)) == []
    assert sorted(offered(path) - listed) == []


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_every_module_begins_with_a_sentence(path: Path) -> None:
    first = (ast.get_docstring(tree(path)) or "").split("\n", 1)[0]
    assert re.fullmatch(r"[A-Za-z`].{11,}\.", first), f"{module_name(path)} begins with {first!r}"


def test_every_room_has_a_window() -> None:
    folders = {path.parent for path in MODULES} - {PACKAGE}
    assert sorted(folder.name for folder in folders if folder.parent == PACKAGE) == rooms()
    assert len(WINDOWS) == len(folders) + 1


def test_the_order_is_the_one_that_ruff_writes() -> None:
    names = ["zebra", "Apple", "MAX", "apply", "A", "Pod10", "Pod9"]
    assert sorted(names, key=order) == ["MAX", "A", "Apple", "Pod9", "Pod10", "apply", "zebra"]
