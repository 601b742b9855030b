"""The Node of this machine: registered, registered again after a deletion, and not written otherwise."""

from pathlib import Path

from levelset import Ref
from levelset.kinds import core_v1
from levelset.testing import Cluster
from levelset_local.node import inherited_environment, node_controller
from systems.local.tests.node.fake_node import RecordingMachine, node

LOCAL = Ref(core_v1.Node, "local")


def has_conditions(it: core_v1.Node) -> bool:
    return it.status is not None and bool(it.status.conditions)


async def test_a_node_is_registered_and_ready(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.running(node_controller(node(RecordingMachine(cluster), tmp_path))):
        found = await cluster.until(LOCAL, has_conditions)
        assert found.status is not None
        ready = [one for one in found.status.conditions if one.type == "Ready"]
        assert ready[0].status == "True"
        assert found.status.capacity["cpu"] == found.status.allocatable["cpu"]
        assert {one.type: one.address for one in found.status.addresses} == {
            "InternalIP": "127.0.0.1",
            "Hostname": "local",
        }
        assert found.metadata.labels["kubernetes.io/hostname"] == "local"


async def test_a_ready_node_loses_the_taint_of_a_new_one_and_keeps_others(cluster: Cluster, tmp_path: Path) -> None:
    tree = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "local"}}
    await cluster.create({**tree, "spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]}})
    async with cluster.running(node_controller(node(RecordingMachine(cluster), tmp_path))):
        await cluster.until(LOCAL, has_conditions)
        await cluster.settled()
        await cluster.expect(LOCAL, lambda it: [one.key for one in it.spec.taints] == ["mine"])


async def test_a_deleted_node_is_registered_again_and_an_unchanged_one_is_not_written(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with cluster.running(node_controller(node(RecordingMachine(cluster), tmp_path))):
        first = await cluster.until(LOCAL, has_conditions)
        await cluster.delete(LOCAL)
        await cluster.until(LOCAL, lambda it: it.metadata.uid != first.metadata.uid and has_conditions(it))
        await cluster.settled()
        before = len(cluster.history(LOCAL))
        await cluster.advance(3600)
        assert len(cluster.history(LOCAL)) == before


def test_containers_inherit_no_secrets_from_the_environment() -> None:
    assert inherited_environment({"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "x"}) == {"PATH": "/bin"}
