"""Pods across restarts of the manager: adopted and lost processes, force deletion, and Pods of the same name."""

from functools import partial
from pathlib import Path
from typing import Any

from levelset import Ref
from levelset.kinds.core_v1 import Pod
from levelset.testing import Cluster
from levelset_local.node import MemoryRecordStore, Node, pods_controller
from systems.local.tests.node.fake_node import (
    RecordingMachine,
    condition,
    container,
    container_states,
    node,
    pod,
    status,
)

WEB = Ref(Pod, "web")
READINESS: dict[str, Any] = {"readinessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 1}}


def is_ready(it: Pod) -> bool:
    return condition(it, "Ready") == "True"


async def killed(cluster: Cluster, first: Node) -> None:
    """Runs the Pod with a manager, and kills the manager."""
    process = cluster.process(pods_controller(first))
    await process.start()
    await cluster.until(WEB, is_ready)
    await process.kill()


async def test_a_running_process_is_adopted_and_not_restarted(cluster: Cluster, tmp_path: Path) -> None:
    machine, records = RecordingMachine(cluster), MemoryRecordStore()
    machine.program("web")
    await cluster.create(pod("web", container(**READINESS)))
    await killed(cluster, node(machine, tmp_path, record_store=records))
    async with cluster.running(pods_controller(node(machine, tmp_path, record_store=records))):
        await cluster.settled()
        await cluster.expect(WEB, is_ready)
        assert len(machine.runs) == 1
        machine.running[0].is_ready = False
        await cluster.until(WEB, lambda it: not is_ready(it))
        await cluster.delete(WEB)
        await cluster.until_gone(WEB)
    assert machine.running == []


async def test_a_process_that_died_with_its_manager_is_restarted(cluster: Cluster, tmp_path: Path) -> None:
    machine, records = RecordingMachine(cluster), MemoryRecordStore()
    machine.program("web")
    await cluster.create(pod("web", container(**READINESS)))
    await killed(cluster, node(machine, tmp_path, record_store=records))
    machine.crash()
    async with cluster.running(pods_controller(node(machine, tmp_path, record_store=records))):
        again = await cluster.until(
            WEB, lambda it: status(it).container_statuses[0].restart_count == 1 and is_ready(it)
        )
    last = status(again).container_statuses[0].last_state.terminated
    assert last is not None
    assert (last.exit_code, last.reason) == (137, "ContainerStatusUnknown")
    assert len(machine.running) == 1


async def test_manager_restarts_cause_no_back_off(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web")
    await cluster.create(pod("web", container(**READINESS)))
    for restarts in range(3):
        async with cluster.running(pods_controller(node(machine, tmp_path))):
            again = partial(has_restarted, restarts)
            await cluster.until(WEB, again, within=2)
        machine.crash()


async def test_no_two_pods_have_the_same_address_after_a_manager_restart(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("*")
    await cluster.create(pod("web", container(**READINESS)))
    await killed(cluster, node(machine, tmp_path))
    machine.crash()
    before = status(await cluster.get(WEB)).pod_ip
    async with cluster.running(pods_controller(node(machine, tmp_path))):
        web = await cluster.until(WEB, partial(has_restarted, 1))
        await cluster.create(pod("other"))
        other = await cluster.until(Ref(Pod, "other"), is_ready)
    assert status(web).pod_ip == before
    assert status(other).pod_ip != before


def has_restarted(times: int, it: Pod) -> bool:
    return (
        bool(status(it).container_statuses) and status(it).container_statuses[0].restart_count == times and is_ready(it)
    )


async def test_without_records_the_process_is_identified_by_the_status(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web")
    await cluster.create(pod("web", container(**READINESS)))
    await killed(cluster, node(machine, tmp_path))
    async with cluster.running(pods_controller(node(machine, tmp_path))):
        await cluster.settled()
        await cluster.expect(WEB, lambda it: container_states(it) == {"web": "running"})
    assert len(machine.runs) == 1


async def test_a_finished_pod_is_not_run_again_by_the_next_manager(cluster: Cluster, tmp_path: Path) -> None:
    machine, records = RecordingMachine(cluster), MemoryRecordStore()
    machine.program("web", exits=0, after=1.0)
    await cluster.create(pod("web", restartPolicy="Never"))
    async with cluster.running(pods_controller(node(machine, tmp_path, record_store=records))):
        await cluster.until(WEB, lambda it: status(it).phase == "Succeeded")
    async with cluster.running(pods_controller(node(machine, tmp_path, record_store=records))):
        await cluster.advance(60)
        await cluster.expect(WEB, lambda it: status(it).phase == "Succeeded")
    assert len(machine.runs) == 1


async def test_a_force_deleted_pod_leaves_no_process(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web", ignores_term=True)
    local_node = node(machine, tmp_path)
    await cluster.create(pod("web"))
    async with cluster.running(pods_controller(local_node)):
        await cluster.until(WEB, is_ready)
        await cluster.delete(WEB, grace=0)
        await cluster.create(pod("web"))
        again = await cluster.until(WEB, is_ready)
        await cluster.advance(5)
        assert len(machine.running) == 1
        assert machine.running[0].command.env["POD_IP"] == status(again).pod_ip
        assert [one.uid for one in local_node.records.all()] == [again.metadata.uid]


async def test_a_pod_that_was_deleted_while_no_manager_ran_leaves_no_process(cluster: Cluster, tmp_path: Path) -> None:
    machine, records = RecordingMachine(cluster), MemoryRecordStore()
    machine.program("web")
    await cluster.create(pod("web", container(**READINESS)))
    await killed(cluster, node(machine, tmp_path, record_store=records))
    await cluster.delete(WEB, grace=0)
    async with cluster.running(pods_controller(node(machine, tmp_path, record_store=records))):
        await cluster.settled()
        await cluster.advance(2)
    assert machine.running == []
    assert list(records.all()) == []
