"""Logs of Pods: which container, which run; and Kubernetes' words if there is none."""

from pathlib import Path

import pytest

from levelset import BadRequest, Ref
from levelset.apiserver import Asked
from levelset.kinds.core_v1 import Pod
from levelset.objects import to_tree
from levelset.testing import Cluster
from levelset_local.node import Node, pod_logs, pods_controller
from levelset_local.node.pod_logs import choose_container
from systems.local.tests.node.playing import Played, container, container_states, node, pod, status

WEB = Ref(Pod, "web")


async def read(machine: Node, it: Pod, **query: str) -> str:
    chunks = await pod_logs(machine)(Asked(it.name, it.namespace, to_tree(it), query))
    return b"".join([chunk async for chunk in chunks]).decode()


def test_one_container_needs_no_name_and_several_do() -> None:
    assert choose_container(pod("web"), None) == "web"
    two = pod("web", container("a"), container("b"), initContainers=[container("i")])
    assert choose_container(two, "i") == "i"
    with pytest.raises(BadRequest) as caught:
        choose_container(two, None)
    words = "a container name must be specified for pod web, choose one of: [a b] or one of the init containers: [i]"
    assert str(caught.value) == words
    with pytest.raises(BadRequest, match="container x is not valid for pod web"):
        choose_container(two, "x")


async def test_the_log_of_this_run_and_of_the_one_before(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web", prints=["one", "two", (30.0, "three")], exits=1, after=40.0)
    machine = node(pretend, tmp_path)
    await cluster.create(pod())
    async with cluster.running(pods_controller(machine)):
        first = await cluster.until(WEB, lambda it: container_states(it).get("web") == "running")
        assert await read(machine, first) == "one\ntwo\n"
        with pytest.raises(BadRequest, match='previous terminated container "web" in pod "web" not found'):
            await read(machine, first, previous="true")
        assert await read(machine, first, follow="true", tailLines="1") == "two\nthree\n"
        again = await cluster.until(WEB, lambda it: status(it).container_statuses[0].restart_count == 1)
        assert await read(machine, again) == "one\ntwo\n"
        assert await read(machine, again, previous="true", tailLines="1") == "three\n"
        assert await read(machine, again, limitBytes="2") == "on"
        assert (await read(machine, again, timestamps="true", tailLines="1")).endswith("Z two\n")


async def test_a_container_that_waits_has_no_log_yet(cluster: Cluster, tmp_path: Path) -> None:
    machine = node(Played(cluster), tmp_path)
    waits = container(envFrom=[{"secretRef": {"name": "none"}}])
    made = await cluster.create(pod("web", waits))
    with pytest.raises(BadRequest, match="pod web does not have a host assigned"):
        await read(machine, made)
    async with cluster.running(pods_controller(machine)):
        waiting = await cluster.until(WEB, lambda it: bool(container_states(it)))
        with pytest.raises(BadRequest) as caught:
            await read(machine, waiting)
    assert str(caught.value) == 'container "web" in pod "web" is waiting to start: CreateContainerConfigError'


async def test_logs_of_old_runs_are_removed(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web", prints=["hello"], exits=1, after=1.0)
    machine = node(pretend, tmp_path)
    made = await cluster.create(pod())
    async with cluster.running(pods_controller(machine)):
        await cluster.advance(20)
        uid = made.metadata.uid
        assert [machine.logs.has(f"{uid}_web_{number}") for number in range(3)] == [False, True, True]
        await cluster.delete(WEB)
        await cluster.until_gone(WEB)
        await cluster.advance(1)
    assert not any(machine.logs.has(f"{uid}_web_{number}") for number in range(9))
