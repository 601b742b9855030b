"""What becomes of Pods when their manager is killed, when they are, and when another Pod takes their name."""

from functools import partial
from pathlib import Path
from typing import Any

from levelset import Ref
from levelset.kinds.core_v1 import Pod
from levelset.testing import Cluster
from levelset_local.node import MemoryRecords, Node, pods_controller
from systems.local.tests.node.playing import Played, condition, container, container_states, node, pod, status

WEB = Ref(Pod, "web")
READINESS: dict[str, Any] = {"readinessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 1}}


def is_ready(it: Pod) -> bool:
    return condition(it, "Ready") == "True"


async def killed(cluster: Cluster, first: Node) -> None:
    """A manager runs the Pod, and dies."""
    process = cluster.process(pods_controller(first))
    await process.start()
    await cluster.until(WEB, is_ready)
    await process.kill()


async def test_a_process_that_lives_is_taken_over_and_not_started_again(cluster: Cluster, tmp_path: Path) -> None:
    pretend, records = Played(cluster), MemoryRecords()
    pretend.program("web")
    await cluster.create(pod("web", container(**READINESS)))
    await killed(cluster, node(pretend, tmp_path, memory=records))
    async with cluster.running(pods_controller(node(pretend, tmp_path, memory=records))):
        await cluster.settled()
        await cluster.expect(WEB, is_ready)
        assert len(pretend.runs) == 1
        pretend.running[0].is_ready = False
        await cluster.until(WEB, lambda it: not is_ready(it))
        await cluster.delete(WEB)
        await cluster.until_gone(WEB)
    assert pretend.running == []


async def test_a_process_that_died_with_its_manager_has_ended_and_is_restarted(
    cluster: Cluster, tmp_path: Path
) -> None:
    pretend, records = Played(cluster), MemoryRecords()
    pretend.program("web")
    await cluster.create(pod("web", container(**READINESS)))
    await killed(cluster, node(pretend, tmp_path, memory=records))
    pretend.crash()
    async with cluster.running(pods_controller(node(pretend, tmp_path, memory=records))):
        again = await cluster.until(
            WEB, lambda it: status(it).container_statuses[0].restart_count == 1 and is_ready(it)
        )
    last = status(again).container_statuses[0].last_state.terminated
    assert last is not None
    assert (last.exit_code, last.reason) == (137, "ContainerStatusUnknown")
    assert len(pretend.running) == 1


async def test_managers_that_come_and_go_cost_a_pod_no_back_off(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web")
    await cluster.create(pod("web", container(**READINESS)))
    for restarts in range(3):
        async with cluster.running(pods_controller(node(pretend, tmp_path))):
            again = partial(has_restarted, restarts)
            await cluster.until(WEB, again, within=2)
        pretend.crash()


async def test_after_a_restart_no_two_pods_have_the_same_address(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("*")
    await cluster.create(pod("web", container(**READINESS)))
    await killed(cluster, node(pretend, tmp_path))
    pretend.crash()
    before = status(await cluster.get(WEB)).pod_ip
    async with cluster.running(pods_controller(node(pretend, tmp_path))):
        web = await cluster.until(WEB, partial(has_restarted, 1))
        await cluster.create(pod("other"))
        other = await cluster.until(Ref(Pod, "other"), is_ready)
    assert status(web).pod_ip == before
    assert status(other).pod_ip != before


def has_restarted(times: int, it: Pod) -> bool:
    return (
        bool(status(it).container_statuses) and status(it).container_statuses[0].restart_count == times and is_ready(it)
    )


async def test_without_records_the_status_says_which_process_it_was(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web")
    await cluster.create(pod("web", container(**READINESS)))
    await killed(cluster, node(pretend, tmp_path))
    async with cluster.running(pods_controller(node(pretend, tmp_path))):
        await cluster.settled()
        await cluster.expect(WEB, lambda it: container_states(it) == {"web": "running"})
    assert len(pretend.runs) == 1


async def test_a_job_that_is_done_is_not_done_again_by_the_next_manager(cluster: Cluster, tmp_path: Path) -> None:
    pretend, records = Played(cluster), MemoryRecords()
    pretend.program("web", exits=0, after=1.0)
    await cluster.create(pod("web", restartPolicy="Never"))
    async with cluster.running(pods_controller(node(pretend, tmp_path, memory=records))):
        await cluster.until(WEB, lambda it: status(it).phase == "Succeeded")
    async with cluster.running(pods_controller(node(pretend, tmp_path, memory=records))):
        await cluster.advance(60)
        await cluster.expect(WEB, lambda it: status(it).phase == "Succeeded")
    assert len(pretend.runs) == 1


async def test_a_pod_that_is_deleted_by_force_leaves_no_process(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web", ignores_term=True)
    machine = node(pretend, tmp_path)
    await cluster.create(pod("web"))
    async with cluster.running(pods_controller(machine)):
        await cluster.until(WEB, is_ready)
        await cluster.delete(WEB, grace=0)
        await cluster.create(pod("web"))
        again = await cluster.until(WEB, is_ready)
        await cluster.advance(5)
        assert len(pretend.running) == 1
        assert pretend.running[0].command.env["POD_IP"] == status(again).pod_ip
        assert [one.uid for one in machine.records.all()] == [again.metadata.uid]


async def test_a_pod_that_was_deleted_while_nobody_looked_leaves_no_process(cluster: Cluster, tmp_path: Path) -> None:
    pretend, records = Played(cluster), MemoryRecords()
    pretend.program("web")
    await cluster.create(pod("web", container(**READINESS)))
    await killed(cluster, node(pretend, tmp_path, memory=records))
    await cluster.delete(WEB, grace=0)
    async with cluster.running(pods_controller(node(pretend, tmp_path, memory=records))):
        await cluster.settled()
        await cluster.advance(2)
    assert pretend.running == []
    assert list(records.all()) == []
