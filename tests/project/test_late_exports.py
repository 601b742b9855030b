"""Packages with late exports offer the same names to programs, to type checkers and in `__all__`."""

import ast
import importlib
from pathlib import Path

import pytest

from tests.project.files import SOURCES, module_name, tree

LATE = [path for path in SOURCES if path.name == "__init__.py" and "late_exports(" in path.read_text("utf-8")]


def table_of(path: Path) -> dict[str, str]:
    """The exported names, each with its module and its name there."""
    calls = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
    (call,) = [node for node in calls if ast.unparse(node.func) == "late_exports"]
    modules: dict[str, str] = ast.literal_eval(call.args[1])
    texts = [(module, *text.partition(":")[::2]) for module, names in modules.items() for text in names.split()]
    return {alias or name: f"{module}.{name}" for module, name, alias in texts}


def imports_of(path: Path) -> dict[str, str]:
    """What a type checker reads: the imports below `if TYPE_CHECKING`."""
    blocks = [
        node for node in tree(path).body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    found = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {name.asname or name.name: f"{node.module}.{name.name}" for node in found for name in node.names}


def test_there_are_packages_with_late_exports() -> None:
    assert len(LATE) >= 16


@pytest.mark.parametrize("path", LATE, ids=module_name)
def test_type_checkers_see_what_a_program_gets(path: Path) -> None:
    assert table_of(path) == imports_of(path)
    assert sorted(table_of(path).keys() - set(importlib.import_module(module_name(path)).__all__)) == []


@pytest.mark.parametrize("path", LATE, ids=module_name)
def test_no_late_name_is_the_name_of_a_module_which_would_replace_it(path: Path) -> None:
    modules = {one.stem for one in path.parent.glob("*.py")} | {
        one.name for one in path.parent.iterdir() if one.is_dir()
    }
    assert sorted(table_of(path).keys() & modules) == []


def test_a_name_is_imported_once_and_an_unknown_one_is_an_error() -> None:
    http = importlib.import_module("levelset.http")
    assert http.Server is http.Server is importlib.import_module("levelset.http.server").Server
    assert "Server" in dir(http)
    with pytest.raises(AttributeError, match=r"module 'levelset.http' has no attribute 'Serve'"):
        _ = http.Serve


def test_a_module_of_the_table_is_an_attribute_without_an_import_of_its_own() -> None:
    assert importlib.import_module("levelset").errors.NotFound.__module__ == "levelset.errors"
