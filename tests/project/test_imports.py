"""Packages import downwards only, without cycles, and importing is cheap."""

import ast
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.project.files import PACKAGE, ROOT, SOURCES, exceptions, module_name, packages, tree
from tests.project.sources import source

# Behind extras: a bare install has none of these.
EXTRAS = ["click", "cryptography", "opentelemetry", "rich", "uvloop"]
# `import levelset` itself loads next to nothing: its names are imported when they are first used.
NOT_FOR_LEVELSET = ["asyncio", "dataclasses", "inspect", "levelset.errors", "levelset.objects", "logging", "msgspec"]
# An operator without webhooks, replicas or a server of its own has no use for these.
NOT_FOR_OPERATORS = [
    "email",
    "http",
    "http.client",
    "json",
    "jwt",
    "levelset.aio.streams",
    "levelset.apiserver",
    "levelset.cel",
    "levelset.cli",
    "levelset.client.config.exec_plugin",
    "levelset.codegen.crd",
    "levelset.http.asgi",
    "levelset.http.outbound_client",
    "levelset.http.websocket",
    "levelset.patch.field_sets",
    "levelset.patch.strategic_merge",
    "levelset.runtime.controller.outcome_stream",
    "levelset.runtime.manager.command_hints",
    "levelset.runtime.manager.custom_metrics",
    "levelset.runtime.manager.leader_election",
    "levelset.runtime.manager.local_server",
    "levelset.runtime.manager.tracing",
    "levelset.runtime.manager.webhook_hosting",
    "levelset.runtime.recording.recorder",
    "levelset.runtime.webhook",
    "levelset.storage",
    "levelset.testing",
    "secrets",
    "shutil",
    "sqlite3",
    "tempfile",
    "unittest",
    "yaml",
]
# `levelset up` with the sample systems loads these with the first object that needs them, or never.
NOT_FOR_UP = [
    "difflib",
    "email",
    "http.client",
    "importlib.metadata",
    "levelset.apiserver.registry.builtin.rules.pods",
    "levelset.cel",
    "levelset.runtime.controller.outcome_stream",
    "levelset.runtime.manager.leader_election",
    "levelset.runtime.manager.sharding.member",
    "levelset.runtime.recording.entries",
    "levelset.storage.sqlite",
    "levelset.testing",
    "levelset_dcp.engines.memory",
    "levelset_machine.fake",
    "sqlite3",
    "tarfile",
    "urllib.request",
    "yaml",
]
NOT_FOR_HELP = ["asyncio", "difflib", "importlib.metadata", "levelset.cli.output", "levelset.errors", "msgspec", "rich"]

PROBE = """
import sys, time
before = time.process_time()
import levelset
found = {"cpu": time.process_time() - before, "modules": sorted(sys.modules)}
import json
print(json.dumps(found))
"""
OPERATOR_PROBE = """
import sys
from levelset import Context, Controller, Resource, Spec, Status, run
print(*sys.modules)
"""
HELP_PROBE = """
import sys
from levelset.cli.commands import levelset
levelset(["--help"], standalone_mode=False)
print("modules:", *sys.modules)
"""
UP_PROBE = """
import sys
from pathlib import Path
from levelset.cli.targets import load_targets
from levelset.cli.up import read_project
import levelset.apiserver.data_directory, levelset.apiserver.kubeconfig_file, levelset.apiserver.server
import levelset.dashboard
load_targets(read_project(Path("pyproject.toml")).targets)
print(*sys.modules)
"""

# The cost of one built-in kind without development packages: msgspec imports typing_extensions if it is
# installed, which imports `inspect` and more.
KIND_PROBE = """
import sys
sys.modules["typing_extensions"] = None
from levelset.kinds.apps_v1 import Deployment
print(*(name for name, module in sys.modules.items() if module is not None))
"""
PLUGIN_PROBE = """
import sys
import levelset.testing.explore.explore_plugin
import levelset.testing.pytest_plugin
print(*sys.modules)
"""
# Each of these takes as long to load as all kinds of a group.
NOT_FOR_KINDS = ["ast", "asyncio", "dataclasses", "dis", "email", "fractions", "inspect", "json", "logging", "yaml"]


@cache
def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT).stdout


@cache
def probes() -> list[dict[str, Any]]:
    """Five imports in fresh processes; the first also warms the byte code."""
    return [json.loads(python(PROBE)) for _ in range(5)]


def test_the_import_contracts_are_kept() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    outcome = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_no_module_of_levelset_imports_from_the_top_level_package() -> None:
    fine = {*(name.split(".")[0] for name in packages()), "errors", "runtime"}
    found: list[str] = []
    for path in SOURCES:
        if not path.is_relative_to(PACKAGE):
            continue
        for statement in source(path).imports:
            if "levelset" not in statement.modules:
                continue
            if statement.plain or (path != PACKAGE / "__init__.py" and statement.names - fine):
                found.append(f"{module_name(path)}:{statement.line}")
    assert found == []


def imported_at_load(path: Path) -> set[str]:
    """The modules of levelset that a module loads at once: not for type checkers, not inside functions."""
    found: set[str] = set()
    for module, imported in source(path).loaded:
        if module.startswith("levelset"):
            names = {f"{module}.{name}" for name in imported}
            found |= (names & MODULES.keys()) or {module}
    return found


MODULES = {module_name(path): path for path in SOURCES if path.is_relative_to(PACKAGE)}


def test_no_modules_import_each_other_in_a_cycle() -> None:
    plain = {name: path for name, path in MODULES.items() if path.name != "__init__.py"}
    edges = {name: imported_at_load(path) & plain.keys() for name, path in plain.items()}
    while free := {name for name, targets in edges.items() if not targets}:
        edges = {name: targets - free for name, targets in edges.items() if name not in free}
    assert edges == {}


def test_imports_inside_functions_have_a_reason() -> None:
    found = {
        f"{module_name(path)}: {name}"
        for path in SOURCES
        for statement in source(path).imports
        if statement.in_function
        for name in statement.modules
    }
    assert sorted(found) == sorted(exceptions()["import_in_function"])


def test_importing_levelset_loads_only_the_table_of_its_names() -> None:
    loaded = set(probes()[0]["modules"])
    assert sorted(loaded & {*EXTRAS, *NOT_FOR_LEVELSET, *NOT_FOR_OPERATORS}) == []
    assert sorted(name for name in loaded if name.startswith("levelset")) == ["levelset", "levelset.late_exports"]


def test_importing_levelset_takes_little_time() -> None:
    # The best of five: a busy machine makes a run slower, never faster.
    assert min(probe["cpu"] for probe in probes()) <= 0.030


def test_an_operator_loads_only_what_it_uses() -> None:
    loaded = python(OPERATOR_PROBE).split()
    assert sorted({*loaded} & {*EXTRAS, *NOT_FOR_OPERATORS}) == []
    # Counted rather than timed: each module of levelset takes about 0.4 ms.
    assert len([name for name in loaded if name.startswith("levelset")]) <= 152
    assert len(loaded) <= 340


def dataclasses_of(loaded: list[str]) -> list[str]:
    """The dataclasses of these modules; each takes as long to define as ten structs."""
    paths = {module_name(path): path for path in SOURCES}
    texts = [paths[name].read_text(encoding="utf-8") for name in loaded if name in paths]
    return sorted(name for text in texts for name in re.findall(r"^@dataclass\b.*\nclass (\w+)", text, re.MULTILINE))


# Those that a struct cannot be: fields that are no parameters, or a constructor of their own.
DATACLASSES_OF_OPERATORS = ["Controller", "Requirement"]
DATACLASSES_OF_UP = ["Directives", "JsonPath", "Node", "Permission", "ServerState", "User", "Version"]


def test_operators_have_few_dataclasses_which_take_longer_to_define_than_structs() -> None:
    assert dataclasses_of(python(OPERATOR_PROBE).split()) == DATACLASSES_OF_OPERATORS
    assert dataclasses_of(python(UP_PROBE).split()) == sorted([*DATACLASSES_OF_OPERATORS, *DATACLASSES_OF_UP])


def test_an_operator_compiles_no_regular_expression_when_it_is_imported() -> None:
    assert compiled_at_import(python(OPERATOR_PROBE).split()) == []


def test_the_help_of_the_command_loads_only_click() -> None:
    loaded = python(HELP_PROBE).partition("modules:")[2].split()
    assert sorted({*loaded} & {*NOT_FOR_HELP}) == []
    assert len([name for name in loaded if name.startswith("levelset")]) <= 6


def test_the_sample_systems_load_only_what_a_start_needs() -> None:
    loaded = python(UP_PROBE).split()
    assert sorted({*loaded} & {*NOT_FOR_UP}) == []
    # Counted rather than timed: each takes about 0.4 ms, which is most of the start.
    assert len([name for name in loaded if name.startswith("levelset")]) <= 658
    assert len(loaded) <= 893


def test_the_plugins_of_pytest_load_neither_the_runtime_nor_the_server() -> None:
    loaded = [name for name in python(PLUGIN_PROBE).split() if name.startswith("levelset")]
    assert {".".join(name.split(".")[:2]) for name in loaded} == {
        "levelset",
        "levelset.errors",
        "levelset.late_exports",
        "levelset.testing",
    }
    assert len(loaded) <= 12


def test_a_kind_is_cheap_to_import() -> None:
    loaded = python(KIND_PROBE).split()
    assert [name for name in NOT_FOR_KINDS if name in loaded] == []
    # Counted rather than timed, for a busy machine: 29 of levelset, and what msgspec and typing bring along.
    assert len([name for name in loaded if name.startswith("levelset")]) <= 32
    assert len(loaded) <= 140


def compiled_at_import(loaded: list[str]) -> list[str]:
    """Where these modules compile regular expressions outside of functions; `lazy_pattern` does so on first use."""
    paths = {module_name(path): path for path in SOURCES}
    found: list[str] = []
    for name in loaded:
        if name not in paths:
            continue
        outside = [node for node in tree(paths[name]).body if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
        calls = [one for node in outside for one in ast.walk(node) if isinstance(one, ast.Attribute)]
        found += [f"{name}:{one.lineno}" for one in calls if ast.unparse(one) == "re.compile"]
    return found


def test_importing_a_kind_compiles_no_regular_expression() -> None:
    assert compiled_at_import(python(KIND_PROBE).split()) == []


@pytest.mark.parametrize("package", [*packages(), "errors", "runtime"])
def test_a_package_can_be_imported_alone_and_without_any_extra(package: str) -> None:
    hidden = dict.fromkeys(EXTRAS)
    assert python(f"import sys; sys.modules.update({hidden!r}); import levelset.{package}; print('ok')") == "ok\n"
