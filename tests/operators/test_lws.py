"""LeaderWorkerSet (controller-runtime), unmodified: its Lease, its webhooks, a group of Pods for each leader."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts.operator_binaries import build, source_of

from tests.operators.operator_cluster import OperatorCluster, Refused, open_cluster, render_kustomization

NAMESPACE = "lws-system"
SAMPLE = "config/samples/leaderworkerset_v1_leaderworkerset.yaml"


@pytest.fixture(scope="module")
def source() -> Path:
    return source_of("lws")


@pytest.fixture(scope="module")
def cluster(source: Path) -> Iterator[OperatorCluster]:
    images = {"*/lws/lws:*": [str(build("lws"))], "nginxinc/*": ["/bin/sleep", "infinity"]}
    with open_cluster("lws", images) as opened:
        opened.install(render_kustomization(source / "config" / "default"))
        opened.wait_available("lws-controller-manager", NAMESPACE)
        opened.wait(lambda: are_listening(opened))
        yield opened


def are_listening(cluster: OperatorCluster) -> bool:
    """Whether the webhook servers of all its Pods listen: they say that they are ready before they do."""
    addresses = [one["status"].get("podIP") for one in cluster.find_all("pods", NAMESPACE)]
    return bool(addresses) and all(one and accepts(one) for one in addresses)


def accepts(address: str, port: int = 9443) -> bool:
    try:
        socket.create_connection((address, port), timeout=5).close()
    except OSError:
        return False
    return True


def sample(source: Path, **spec: Any) -> dict[str, Any]:
    tree = yaml.safe_load((source / SAMPLE).read_text("utf-8"))
    return {**tree, "spec": {**tree["spec"], **spec}}


def test_it_takes_its_lease(cluster: OperatorCluster) -> None:
    assert cluster.lease_holder(NAMESPACE).startswith("lws-controller-manager-")


def test_its_webhook_refuses(cluster: OperatorCluster, source: Path) -> None:
    # Of an error with causes kubectl shows these; the definition has no minimum.
    with pytest.raises(Refused, match=r"\.spec\.replicas: Invalid value: -1: should be a non-negative integer"):
        cluster.create(sample(source, replicas=-1))


def test_it_makes_a_group_of_pods_for_each_leader(cluster: OperatorCluster, source: Path) -> None:
    made = cluster.create(sample(source, replicas=2))
    name = made["metadata"]["name"]
    assert made["spec"]["startupPolicy"] == "LeaderCreated"

    def ready() -> bool:
        return cluster.status("leaderworkerset", name).get("readyReplicas") == 2

    assert cluster.wait(ready)
    pods = cluster.find_all("pods", selector=f"leaderworkerset.sigs.k8s.io/name={name}")
    assert len(pods) == 2 * 4
    leaders = [one for one in pods if one["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/worker-index"] == "0"]
    assert {one["metadata"]["name"] for one in leaders} == {f"{name}-0", f"{name}-1"}
    assert {one["metadata"]["name"] for one in cluster.find_all("statefulsets")} == {name, f"{name}-0", f"{name}-1"}
