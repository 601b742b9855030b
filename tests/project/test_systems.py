"""The systems on top use public packages of levelset only, and never each other."""

import importlib
import re
from pathlib import Path

from tests.project.files import PACKAGE, SOURCES, module_name, packages, relative
from tests.project.sources import source
from tests.project.test_exports import order

SYSTEMS = [path for path in SOURCES if not path.is_relative_to(PACKAGE)]
MODULES = {
    "levelset",
    "levelset.command_parser",
    "levelset.errors",
    "levelset.late_exports",
    "levelset.testing.explore",
}
PUBLIC = MODULES | {f"levelset.{name}" for name in packages()}
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


def test_a_system_uses_public_names_only() -> None:
    for path in SYSTEMS:
        ours = {name for name in used(path) if name.split(".")[0] == "levelset"}
        private = {name for name in ours if name not in PUBLIC and not name.startswith("levelset.kinds.")}
        assert private == set(), relative(path)


def test_systems_import_only_systems_below_them() -> None:
    for path in SYSTEMS:
        own = module_name(path).split(".")[0]
        others = {name.split(".")[0] for name in used(path) if name.startswith("levelset_")} - {own}
        assert others <= MAY_USE[own], relative(path)


def test_a_module_of_a_system_begins_with_a_sentence() -> None:
    first = {relative(path): source(path).summary for path in SYSTEMS}
    assert {name: text for name, text in first.items() if not re.fullmatch(r"[A-Za-z`].{11,}\.", text)} == {}


def test_a_module_of_a_system_has_an_all() -> None:
    for path in SYSTEMS:
        if path.name == "__main__.py":
            continue
        module = importlib.import_module(module_name(path))
        names: list[str] = list(module.__all__)
        assert names == sorted(names, key=order), relative(path)
        assert sorted(name for name in names if not hasattr(module, name)) == [], relative(path)
        assert sorted(source(path).offered - set(names)) == [], relative(path)
