"""The modules of built-in kinds equal the output of the generator, and are loaded on first use."""

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from scripts.generate_kinds import TARGET, main, read_data, render
from scripts.kinds_tables import ENUMS

import levelset.kinds
from levelset.errors import ConfigError
from levelset.kinds import MODULES
from levelset.objects import Object, Scheme, definition_of
from tests.kinds.builtin import KINDS, MODULE_NAMES, kind_class

ROOT = Path(__file__).parents[2]
BASE = {"levelset.kinds", "levelset.kinds.enums"}


def loaded(statement: str) -> set[str]:
    """The modules of kinds that a statement loads in a fresh process."""
    code = f"{statement}\nimport json, sys; print(json.dumps([*sys.modules]))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    modules = set(json.loads(found.stdout))
    assert not modules & {"asyncio", "levelset.apiserver", "levelset.client", "levelset.codegen", "yaml"}
    return {one for one in modules if one.startswith("levelset.kinds")}


def test_generating_again_gives_the_same_bytes():
    files = render(read_data())
    assert {name for name in files if (TARGET / name).read_text(encoding="utf-8") != files[name]} == set()
    assert {path.name for path in TARGET.glob("*.py")} == {*files, "meta_v1.py"}


def test_the_script_writes_all_files_into_the_folder_that_it_is_given(tmp_path, capsys):
    assert main([str(tmp_path)]) == 0
    assert "files" in capsys.readouterr().out
    assert (tmp_path / "batch_v1.py").read_bytes() == (TARGET / "batch_v1.py").read_bytes()


@pytest.mark.parametrize(
    ("statement", "modules"),
    [
        ("import levelset.kinds", {"levelset.kinds"}),
        ("from levelset.kinds.rbac_v1 import Role", {*BASE, "levelset.kinds.rbac_v1", "levelset.kinds.meta_v1"}),
        (
            "from levelset.kinds.core_v1 import Secret",
            {*BASE, "levelset.kinds.core_v1", *(f"levelset.kinds.core_v1_{one}" for one in ("config", "references"))},
        ),
        (
            "from levelset.kinds.apps_v1 import Deployment",
            {
                *(*BASE, "levelset.kinds.apps_v1", "levelset.kinds.apps_v1_deployments", "levelset.kinds.meta_v1"),
                *("levelset.kinds.core_v1_references", "levelset.kinds.core_v1_templates"),
            },
        ),
    ],
)
def test_an_import_loads_only_the_modules_that_it_needs(statement, modules):
    assert loaded(statement) == modules


def test_the_package_exports_the_classes_of_its_modules():
    names = [name for name in levelset.kinds.__all__ if name != "MODULES"]
    assert {"Deployment", "DeploymentSpec", "Pod", "Container", "Secret", "LabelSelector"} <= set(names)
    for name in names:
        found = getattr(levelset.kinds, name)
        assert getattr(import_module(found.__module__), name) is found
    assert set(names) <= set(dir(levelset.kinds))


def test_the_package_exports_the_newest_version_of_a_kind():
    assert definition_of(levelset.kinds.HorizontalPodAutoscaler).gvk.version == "v2"


@pytest.mark.parametrize("module", ["levelset.kinds", "levelset.kinds.core_v1"])
def test_an_unknown_name_is_an_attribute_error(module):
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'Deploymint'"):
        _ = import_module(module).Deploymint


@pytest.mark.parametrize("module", MODULE_NAMES)
def test_every_exported_name_of_a_module_exists(module):
    found = import_module(module)
    assert [name for name in found.__all__ if not hasattr(found, name)] == []


def test_all_kinds_have_a_class_and_fit_into_one_scheme():
    classes = [kind_class(version, kind) for version, kind in KINDS]
    assert all(issubclass(one, Object) for one in classes)
    scheme = Scheme(*classes)
    assert all(scheme.find(definition_of(one).gvk) is one for one in classes)


def test_values_are_checked_by_type_checkers_and_not_while_running():
    tree = ast.parse((TARGET / "enums.py").read_text(encoding="utf-8"))
    (guarded,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {node.targets[0].id: ast.unparse(node.value) for node in guarded.body}
    assert set(seen) == set(ENUMS)
    assert seen["PullPolicy"] == "Literal['Always', 'IfNotPresent', 'Never']"
    running = import_module("levelset.kinds.enums")
    assert {getattr(running, name) for name in ENUMS} == {str}


def test_no_kind_is_in_two_modules_of_one_version():
    assert len(set(MODULES.values())) == len(MODULES)
    with pytest.raises(ConfigError):
        definition_of(levelset.kinds.Container)
