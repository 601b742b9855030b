"""Logs of Pods: the choice of container and run, and the errors of Kubernetes if there is none."""

from pathlib import Path

import pytest

from levelset import Ref
from levelset.apiserver import LogRequest
from levelset.errors import BadRequest
from levelset.kinds.core_v1 import Pod
from levelset.objects import to_tree
from levelset.testing import Cluster
from levelset_local.node import Node, pod_logs, pods_controller
from levelset_local.node.pod_logs import choose_container
from systems.local.tests.node.fake_node import RecordingMachine, container, container_states, node, pod, status

WEB = Ref(Pod, "web")


async def read(local_node: Node, it: Pod, **query: str) -> str:
    chunks = await pod_logs(local_node)(LogRequest(it.name, it.namespace, to_tree(it), query))
    return b"".join([chunk async for chunk in chunks]).decode()


def test_a_container_name_is_required_if_there_are_several() -> None:
    assert choose_container(pod("web"), None) == "web"
    two = pod("web", container("a"), container("b"), initContainers=[container("i")])
    assert choose_container(two, "i") == "i"
    with pytest.raises(BadRequest) as caught:
        choose_container(two, None)
    message = "a container name must be specified for pod web, choose one of: [a b] or one of the init containers: [i]"
    assert str(caught.value) == message
    with pytest.raises(BadRequest, match="container x is not valid for pod web"):
        choose_container(two, "x")


async def test_the_logs_of_the_current_and_of_the_previous_run(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web", prints=["one", "two", (30.0, "three")], exits=1, after=40.0)
    local_node = node(machine, tmp_path)
    await cluster.create(pod())
    async with cluster.running(pods_controller(local_node)):
        first = await cluster.until(WEB, lambda it: container_states(it).get("web") == "running")
        assert await read(local_node, first) == "one\ntwo\n"
        with pytest.raises(BadRequest, match='previous terminated container "web" in pod "web" not found'):
            await read(local_node, first, previous="true")
        assert await read(local_node, first, follow="true", tailLines="1") == "two\nthree\n"
        again = await cluster.until(WEB, lambda it: status(it).container_statuses[0].restart_count == 1)
        assert await read(local_node, again) == "one\ntwo\n"
        assert await read(local_node, again, previous="true", tailLines="1") == "three\n"
        assert await read(local_node, again, limitBytes="2") == "on"
        assert (await read(local_node, again, timestamps="true", tailLines="1")).endswith("Z two\n")


async def test_a_waiting_container_has_no_log_yet(cluster: Cluster, tmp_path: Path) -> None:
    local_node = node(RecordingMachine(cluster), tmp_path)
    waits = container(envFrom=[{"secretRef": {"name": "none"}}])
    made = await cluster.create(pod("web", waits))
    with pytest.raises(BadRequest, match="pod web does not have a host assigned"):
        await read(local_node, made)
    async with cluster.running(pods_controller(local_node)):
        waiting = await cluster.until(WEB, lambda it: bool(container_states(it)))
        with pytest.raises(BadRequest) as caught:
            await read(local_node, waiting)
    assert str(caught.value) == 'container "web" in pod "web" is waiting to start: CreateContainerConfigError'


async def test_logs_of_old_runs_are_removed(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web", prints=["hello"], exits=1, after=1.0)
    local_node = node(machine, tmp_path)
    made = await cluster.create(pod())
    async with cluster.running(pods_controller(local_node)):
        await cluster.advance(20)
        uid = made.metadata.uid
        assert [local_node.logs.has(f"{uid}_web_{number}") for number in range(3)] == [False, True, True]
        await cluster.delete(WEB)
        await cluster.until_gone(WEB)
        await cluster.advance(1)
    assert not any(local_node.logs.has(f"{uid}_web_{number}") for number in range(9))
