"""The systems on top use public packages of levelset only, and never each other."""

import importlib
import re
from pathlib import Path

import pytest

from tests.project.files import PACKAGE, SOURCES, module_name, packages, relative
from tests.project.sources import source
from tests.project.test_exports import order

SYSTEMS = [path for path in SOURCES if not path.is_relative_to(PACKAGE)]
PUBLIC = {"levelset", "levelset.errors", "levelset.testing.explore", *(f"levelset.{name}" for name in packages())}
MAY_USE = {
    "levelset_machine": set[str](),
    "levelset_local": {"levelset_machine"},
    "levelset_omnia": set[str](),
    "levelset_dcp": {"levelset_machine"},
}


def used(path: Path) -> set[str]:
    """The modules that a file imports."""
    return {name for statement in source(path).imports for name in statement.modules}


def test_there_are_systems() -> None:
    assert {module_name(path).split(".")[0] for path in SYSTEMS} == set(MAY_USE)


@pytest.mark.parametrize("path", SYSTEMS, ids=relative)
def test_a_system_uses_public_names_only(path: Path) -> None:
    ours = {name for name in used(path) if name.split(".")[0] == "levelset"}
    assert {name for name in ours if name not in PUBLIC and not name.startswith("levelset.kinds.")} == set()


@pytest.mark.parametrize("path", SYSTEMS, ids=relative)
def test_systems_import_only_systems_below_them(path: Path) -> None:
    own = module_name(path).split(".")[0]
    others = {name.split(".")[0] for name in used(path) if name.startswith("levelset_")} - {own}
    assert others <= MAY_USE[own]


@pytest.mark.parametrize("path", SYSTEMS, ids=relative)
def test_a_module_of_a_system_has_a_docstring_and_an_all(path: Path) -> None:
    first = source(path).summary
    assert re.fullmatch(r"[A-Za-z`].{11,}\.", first), first
    if path.name == "__main__.py":
        return
    module = importlib.import_module(module_name(path))
    names: list[str] = list(module.__all__)
    assert names == sorted(names, key=order)
    assert sorted(name for name in names if not hasattr(module, name)) == []
    assert sorted(source(path).offered - set(names)) == []
