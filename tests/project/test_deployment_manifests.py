"""The manifests and the chart that run the API server in a cluster are valid, and say what the command accepts."""

import re
from pathlib import Path
from typing import Any

import pytest

from levelset.cli.serve import serve
from levelset.objects.yaml_codec import read_yaml
from tests.apiserver.support.in_process_server import open_server

ROOT = Path(__file__).parents[2]
CHART = ROOT / "packaging/chart"
PATHS = {
    "ServiceAccount": "/api/v1/namespaces/levelset/serviceaccounts",
    "Service": "/api/v1/namespaces/levelset/services",
    "Deployment": "/apis/apps/v1/namespaces/levelset/deployments",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/levelset/poddisruptionbudgets",
}


@pytest.fixture(scope="module")
def manifests() -> list[Any]:
    return [tree for tree in read_yaml((ROOT / "packaging/kubernetes/levelset.yaml").read_bytes()) if tree]


async def test_a_server_accepts_the_manifests_without_unknown_fields(manifests: list[Any]):
    assert sorted(tree["kind"] for tree in manifests) == sorted(PATHS)
    async with open_server() as api:
        await api.create("/api/v1/namespaces", {"metadata": {"name": "levelset"}})
        for tree in manifests:
            status, made = await api.request("POST", PATHS[tree["kind"]], tree, fieldValidation="Strict")
            assert status == 201, made


def container_of(manifests: list[Any]) -> Any:
    (deployment,) = [tree for tree in manifests if tree["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return container


def test_the_command_accepts_the_arguments(manifests: list[Any]):
    container = container_of(manifests)
    assert container["command"] == ["levelset", "serve"]
    given = serve.make_context("serve", list(container["args"])).params
    assert (given["host"], given["port"], given["rbac"]) == ("0.0.0.0", 6443, True)
    assert given["etcd"].startswith("https://")
    assert "levelset.levelset.svc" in given["names"]


def test_every_file_that_the_arguments_name_is_in_a_volume_of_the_pod(manifests: list[Any]):
    container = container_of(manifests)
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    files = [one.partition("=")[2] for one in container["args"] if "=/etc/" in one or "=/run/" in one]
    assert files
    assert [file for file in files if not any(file.startswith(f"{mount}/") for mount in mounts)] == []


def test_the_selectors_select_the_pods(manifests: list[Any]):
    by_kind = {tree["kind"]: tree for tree in manifests}
    labels = by_kind["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert by_kind["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert by_kind["Service"]["spec"]["selector"] == labels
    assert by_kind["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels


def test_the_pods_are_not_privileged(manifests: list[Any]):
    security = container_of(manifests)["securityContext"]
    assert security["readOnlyRootFilesystem"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert not security["allowPrivilegeEscalation"]


def test_the_chart_uses_exactly_the_values_that_it_has():
    (values,) = read_yaml((CHART / "values.yaml").read_bytes())
    templates = "".join(path.read_text() for path in sorted((CHART / "templates").iterdir()))
    used = {name.split(".")[0] for name in re.findall(r"\.Values\.([\w.]+)", templates)}
    assert used == set(values)
    (chart,) = read_yaml((CHART / "Chart.yaml").read_bytes())
    version = re.search(r'^version = "([^"]+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert chart["appVersion"] == version[1]


def test_the_image_has_what_storage_in_etcd_needs_in_the_locked_versions():
    lock, extra = [(ROOT / f"requirements/{name}.txt").read_text() for name in ("dev", "etcd")]
    assert re.findall(r"^([\w-]+)==", extra, re.MULTILINE) == ["hpack", "protobuf"]
    assert all(line in lock.splitlines() for line in extra.splitlines())
    assert "--requirement etcd.txt" in (ROOT / "packaging/Dockerfile").read_text()
    assert "!requirements/etcd.txt" in (ROOT / "packaging/Dockerfile.dockerignore").read_text()
