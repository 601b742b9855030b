"""Rooms only look down, and importing is cheap."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.house.files import PACKAGE, ROOT, SOURCES, exceptions, functions, module_name, rooms, tree

# Behind extras: a bare install has none of these.
EXTRAS = ["click", "cryptography", "opentelemetry", "rich", "uvloop"]
# Paid for by whoever uses them, not by whoever imports levelset.
LATE = ["http.client", "levelset.apiserver", "levelset.cli", "levelset.testing", "sqlite3", "ssl", "unittest", "yaml"]

PROBE = """
import json, sys, time
before = time.process_time()
import levelset
print(json.dumps({"cpu": time.process_time() - before, "modules": sorted(sys.modules)}))
"""


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT).stdout


@cache
def probes() -> list[dict[str, Any]]:
    """Five imports in fresh processes; the first also warms the byte code."""
    return [json.loads(python(PROBE)) for _ in range(5)]


def imports(node: ast.AST, path: Path) -> Iterator[str]:
    """The dotted names of what one import statement asks for, relative ones resolved."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        package = module_name(path).split(".")
        package = package if path.name == "__init__.py" else package[:-1]
        base = package[: len(package) - node.level + 1] if node.level else []
        yield ".".join([*base, *([node.module] if node.module else [])])


def test_the_import_contracts_are_kept() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    outcome = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_nothing_inside_the_house_imports_from_its_own_front_door() -> None:
    fine = {*rooms(), "errors"}
    found: list[str] = []
    for path in SOURCES:
        if not path.is_relative_to(PACKAGE):
            continue
        for node in ast.walk(tree(path)):
            if "levelset" not in imports(node, path):
                continue
            names = {alias.name for alias in getattr(node, "names", [])}
            if isinstance(node, ast.Import) or (path != PACKAGE / "__init__.py" and names - fine):
                found.append(f"{module_name(path)}:{getattr(node, 'lineno', 0)}")
    assert found == []


def test_imports_inside_functions_have_a_reason() -> None:
    found = {
        f"{module_name(path)}: {name}"
        for path in SOURCES
        for _, function in functions(path)
        for node in ast.walk(function)
        for name in imports(node, path)
    }
    assert sorted(found) == sorted(exceptions()["import_in_function"])


def test_importing_levelset_loads_few_modules() -> None:
    assert min(len(probe["modules"]) for probe in probes()) <= 300


def test_importing_levelset_loads_nothing_that_only_some_need() -> None:
    loaded = set(probes()[0]["modules"])
    assert sorted(loaded & {*EXTRAS, *LATE}) == []


def test_importing_levelset_takes_little_time() -> None:
    # The best of five: a busy machine makes a run slower, never faster.
    assert min(probe["cpu"] for probe in probes()) <= 0.150


@pytest.mark.parametrize("room", [*rooms(), "errors"])
def test_a_room_can_be_imported_alone_and_without_any_extra(room: str) -> None:
    hidden = dict.fromkeys(EXTRAS)
    assert python(f"import sys; sys.modules.update({hidden!r}); import levelset.{room}; print('ok')") == "ok\n"
