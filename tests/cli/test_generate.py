"""`levelset generate`: files that are complete and stable, and a way for CI to see that they are up to date."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from levelset.apiserver import ApiServer
from levelset.apiserver.kubeconfig_file import Contact, write_kubeconfig
from levelset.cli.commands import levelset
from levelset.cli.install import read_manifests
from tests.cli.servers import strange

MODULE = "tests.cli.operator:controllers"


def generate(*words: str) -> Result:
    return CliRunner().invoke(levelset, ["generate", *words], catch_exceptions=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_definitions_are_written_where_one_looks_for_them(folder: Path) -> None:
    told = generate("crds", MODULE)
    assert told.output == "wrote  manifests/crds/sites.doctor.dev.yaml\n"
    (found,) = read_manifests(folder / "manifests" / "crds")
    schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["spec"]["required"] == ["image"]


def test_what_is_up_to_date_is_left_alone_and_check_says_so(folder: Path) -> None:
    assert generate("crds", MODULE, "--check").exit_code == 1
    assert not (folder / "manifests").exists()
    generate("crds", MODULE)
    assert generate("crds", MODULE).output == "as it was  manifests/crds/sites.doctor.dev.yaml\n"
    assert generate("crds", MODULE, "--check").output == "1 files are up to date\n"
    (folder / "manifests/crds/sites.doctor.dev.yaml").write_text("old")
    told = generate("crds", MODULE, "--check")
    assert told.exit_code == 1
    assert told.stderr.startswith("out of date: manifests/crds/sites.doctor.dev.yaml; run the same command without")


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
def test_everything_for_a_cluster_is_written(folder: Path, words: list[str], files: list[str]) -> None:
    told = generate(*words, MODULE, "--name", "sites")
    assert told.exit_code == 0, told.output
    assert [one for one in files if not (folder / one).is_file()] == []
    assert generate(*words, MODULE, "--name", "sites", "--check").exit_code == 0


def test_classes_are_made_from_definitions(folder: Path) -> None:
    generate("crds", MODULE)
    told = generate("models", "manifests/crds")
    assert told.output == "wrote  sites_v1.py\n"
    assert "class Site(Resource[SiteSpec" in (folder / "sites_v1.py").read_text()


async def test_classes_are_made_from_a_cluster(folder: Path) -> None:
    async with ApiServer(tls=False) as server:
        await asyncio.to_thread(write_kubeconfig, folder / "k", Contact(server.url, server.token, server.ca))
        words = ["models", "--group", "coordination.k8s.io/v1", "--kubeconfig", "k"]
        told = await asyncio.to_thread(generate, *words)
        lost = await asyncio.to_thread(generate, "models", "--group", "nowhere.dev/v1", "--kubeconfig", "k")
    assert told.output == "wrote  coordination_v1.py\n"
    assert (lost.exit_code, lost.stderr[:46]) == (2, "this cluster does not serve nowhere.dev/v1; ku")


@pytest.mark.usefixtures("folder")
def test_programs_are_told_in_json_what_was_written() -> None:
    name = "manifests/crds/sites.doctor.dev.yaml"
    for words, state in (((), "wrote"), ((), "as it was"), (("--check",), "as it was")):
        told = generate("crds", "tests.cli.operator:Site", "-o", "json", *words)
        assert json.loads(told.stdout) == [{"file": name, "state": state}]


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b""])
async def test_a_server_that_is_none_is_told_of_in_a_sentence(folder: Path, body: bytes) -> None:
    async with strange(folder, {"/openapi/v3/apis/apps/v1": body}) as kubeconfig:
        told = await asyncio.to_thread(generate, "models", "--group", "apps/v1", "--kubeconfig", kubeconfig)
    assert told.exit_code == 1
    assert "the answer is no document" in told.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["crds"], "Missing argument 'MODULE...'"),
        (["crds", "no_such_module_here"], "there is no module no_such_module_here"),
        (["crds", "json"], "json holds no Controllers, no webhooks and no kinds"),
        (["crds", "tests.cli.operator:__doc__"], "is no Controller, no webhook and no kind"),
        (["crds", "levelset.kinds.core_v1:ConfigMap"], "no kind of your own is there to be defined"),
        (["rbac", MODULE], "Missing option '--name'"),
        (["helm", MODULE, "--name", "Not A Name"], "at most 53 of a-z, 0-9 and -"),
        (["models"], "say of what: files with CustomResourceDefinitions, or --group"),
        (["models", "none.yaml"], "none.yaml cannot be read: No such file or directory"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_not_understood_is_refused_with_what_would_be(words: list[str], said: str) -> None:
    told = generate(*words)
    assert told.exit_code == 2
    assert said in told.stderr
