"""CloudNativePG, unmodified: its Lease, webhooks with an authority of its own, and all that a database cluster needs.

The database itself would need its image: the test ends where its first Job is created.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts.operator_binaries import OPERATORS, build, source_of

from tests.operators.operator_cluster import OperatorCluster, Refused, open_cluster

NAMESPACE = "cnpg-system"


@pytest.fixture(scope="module")
def source() -> Path:
    return source_of("cloudnative-pg")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The program in a folder as that of its image, where it looks for itself by its architecture."""
    folder = tmp_path_factory.mktemp("cloudnative-pg")
    (folder / "operator").mkdir()
    for architecture in ("amd64", "arm64"):
        (folder / "operator" / f"manager_{architecture}").symlink_to(build("cloudnative-pg"))
    return ["/bin/sh", "-c", f'cd {folder} && exec {build("cloudnative-pg")} "$@"', "manager"]


@pytest.fixture(scope="module")
def cluster(source: Path, program: list[str]) -> Iterator[OperatorCluster]:
    version = OPERATORS["cloudnative-pg"].version.removeprefix("v")
    manifests = (source / "releases" / f"cnpg-{version}.yaml").read_text("utf-8")
    with open_cluster("cloudnative-pg", {f"*/cloudnative-pg:{version}": program}) as opened:
        opened.install([one for one in yaml.safe_load_all(manifests) if one])
        opened.wait_available("cnpg-controller-manager", NAMESPACE)
        yield opened


def sample(source: Path, **spec: Any) -> dict[str, Any]:
    tree = yaml.safe_load((source / "docs/src/samples/cluster-example.yaml").read_text("utf-8"))
    return {**tree, "spec": {**tree["spec"], **spec}}


def test_it_takes_its_lease(cluster: OperatorCluster) -> None:
    assert cluster.lease_holder(NAMESPACE).startswith("cnpg-controller-manager-")


def test_its_webhook_refuses(cluster: OperatorCluster, source: Path) -> None:
    with pytest.raises(Refused, match="minSyncReplicas cannot be greater than maxSyncReplicas"):
        cluster.create(sample(source, minSyncReplicas=5))


def test_it_makes_what_a_database_cluster_needs(cluster: OperatorCluster, source: Path) -> None:
    made = cluster.create(sample(source))
    assert made["spec"]["postgresql"]["parameters"]["wal_level"] == "logical"  # by its webhook
    cluster.wait(lambda: cluster.get("job", "cluster-example-1-initdb"))
    services = {
        one["metadata"]["name"] for one in cluster.find_all("services", selector="cnpg.io/cluster=cluster-example")
    }
    assert services == {"cluster-example-rw", "cluster-example-r", "cluster-example-ro"}
    for kind, name in (
        *(("secret", f"cluster-example-{one}") for one in ("ca", "server", "replication", "app")),
        ("serviceaccount", "cluster-example"),
        ("role", "cluster-example"),
        ("rolebinding", "cluster-example"),
        ("poddisruptionbudget", "cluster-example-primary"),
        ("persistentvolumeclaim", "cluster-example-1"),
    ):
        found = cluster.get(kind, name)
        assert found is not None, (kind, name)
        assert found["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
