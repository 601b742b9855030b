"""`levelset generate`: complete and stable files, and `--check` for CI."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from levelset.apiserver import ApiServer
from levelset.apiserver.kubeconfig_file import ConnectionInfo, write_kubeconfig
from levelset.cli.commands import levelset
from levelset.cli.install import read_manifests
from tests.cli.fixtures.servers import fake_server

MODULE = "tests.cli.fixtures.operator:controllers"


def generate(*words: str) -> Result:
    return CliRunner().invoke(levelset, ["generate", *words], catch_exceptions=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_crds_are_written_into_the_default_directory(folder: Path) -> None:
    result = generate("crds", MODULE)
    assert result.output == "wrote  manifests/crds/sites.doctor.dev.yaml\n"
    (found,) = read_manifests(folder / "manifests" / "crds")
    schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["spec"]["required"] == ["image"]


def test_unchanged_files_are_not_written_and_check_passes(folder: Path) -> None:
    assert generate("crds", MODULE, "--check").exit_code == 1
    assert not (folder / "manifests").exists()
    generate("crds", MODULE)
    assert generate("crds", MODULE).output == "unchanged  manifests/crds/sites.doctor.dev.yaml\n"
    assert generate("crds", MODULE, "--check").output == "1 files are up to date\n"
    (folder / "manifests/crds/sites.doctor.dev.yaml").write_text("old")
    result = generate("crds", MODULE, "--check")
    assert result.exit_code == 1
    assert result.stderr.startswith("out of date: manifests/crds/sites.doctor.dev.yaml; run the same command without")


@pytest.mark.parametrize(
    ("words", "files"),
    [
        (["rbac"], ["manifests/rbac.yaml", "manifests/service-account.yaml"]),
        (
            ["manifests"],
            ["manifests/install.yaml", "manifests/crds/sites.doctor.dev.yaml"],
        ),
        (["manifests", "--kustomize"], ["manifests/base/kustomization.yaml", "manifests/base/deployment.yaml"]),
        (["helm"], ["chart/Chart.yaml", "chart/values.yaml", "chart/crds/sites.doctor.dev.yaml"]),
    ],
)
def test_all_manifests_are_written(folder: Path, words: list[str], files: list[str]) -> None:
    result = generate(*words, MODULE, "--name", "sites")
    assert result.exit_code == 0, result.output
    assert [one for one in files if not (folder / one).is_file()] == []
    assert generate(*words, MODULE, "--name", "sites", "--check").exit_code == 0


def test_models_are_generated_from_crds(folder: Path) -> None:
    generate("crds", MODULE)
    result = generate("models", "manifests/crds")
    assert result.output == "wrote  sites_v1.py\n"
    assert "class Site(Resource[SiteSpec" in (folder / "sites_v1.py").read_text()


async def test_models_are_generated_from_a_cluster(folder: Path) -> None:
    async with ApiServer(tls=False) as server:
        await asyncio.to_thread(write_kubeconfig, folder / "k", ConnectionInfo(server.url, server.token, server.ca))
        words = ["models", "--group", "coordination.k8s.io/v1", "--kubeconfig", "k"]
        result = await asyncio.to_thread(generate, *words)
        lost = await asyncio.to_thread(generate, "models", "--group", "nowhere.dev/v1", "--kubeconfig", "k")
    assert result.output == "wrote  coordination_v1.py\n"
    assert (lost.exit_code, lost.stderr[:46]) == (2, "this cluster does not serve nowhere.dev/v1; ku")


@pytest.mark.usefixtures("folder")
def test_json_output() -> None:
    name = "manifests/crds/sites.doctor.dev.yaml"
    for words, state in (((), "wrote"), ((), "unchanged"), (("--check",), "unchanged")):
        result = generate("crds", "tests.cli.fixtures.operator:Site", "-o", "json", *words)
        assert json.loads(result.stdout) == [{"file": name, "state": state}]


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b""])
async def test_a_server_that_is_not_an_api_server_is_reported(folder: Path, body: bytes) -> None:
    async with fake_server(folder, {"/openapi/v3/apis/apps/v1": body}) as kubeconfig:
        result = await asyncio.to_thread(generate, "models", "--group", "apps/v1", "--kubeconfig", kubeconfig)
    assert result.exit_code == 1
    assert "the response is not a JSON object" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["crds"], "Missing argument 'MODULE...'"),
        (["crds", "no_such_module_here"], "there is no module no_such_module_here"),
        (["crds", "json"], "json has no Controllers, webhooks or kinds"),
        (["crds", "tests.cli.fixtures.operator:__doc__"], "is not a Controller, a webhook or a kind"),
        (["crds", "levelset.kinds.core_v1:ConfigMap"], "there is no custom kind to generate a CRD for"),
        (["rbac", MODULE], "Missing option '--name'"),
        (["helm", MODULE, "--name", "Not A Name"], "at most 53 of a-z, 0-9 and -"),
        (["models"], "nothing to generate from: pass files with CustomResourceDefinitions, or --group"),
        (["models", "none.yaml"], "none.yaml cannot be read: No such file or directory"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_usage_error_is_refused_with_a_hint(words: list[str], message: str) -> None:
    result = generate(*words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_models_of_two_groups_that_share_a_resource_are_named_after_their_groups(folder: Path) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}
    for group in ("a.example.com", "b.example.com"):
        spec = {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        }
        tree = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
        tree["metadata"] = {"name": f"widgets.{group}"}
        (folder / f"{group}.yaml").write_text(json.dumps(tree))
    result = generate("models", "a.example.com.yaml", "b.example.com.yaml", "-d", "models")
    assert result.exit_code == 0, result.output
    names = sorted(path.name for path in (folder / "models").iterdir())
    assert names == ["widgets_a_example_com_v1.py", "widgets_b_example_com_v1.py"]
    twice = generate("models", "a.example.com.yaml", "a.example.com.yaml", "-d", "models")
    assert twice.exit_code == 2
    assert "it is given more than once" in twice.stderr
