"""The life cycle of Pods on a fake machine, in virtual time."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from levelset import MergePatch, ObjectMeta, Ref
from levelset.kinds.core_v1 import Event, Node, NodeSpec, Pod
from levelset.testing import Cluster
from systems.local.tests.node.fake_node import (
    RecordingMachine,
    condition,
    container,
    container_states,
    pod,
    pod_reconciler,
    status,
)

WEB = Ref(Pod, "web")
READINESS: dict[str, Any] = {"readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 1}}


async def test_a_pod_is_bound_started_and_ready(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web", ready_after=3.0)
    await cluster.create(pod("web", container(**READINESS)))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        running = await cluster.until(WEB, lambda it: status(it).phase == "Running")
        assert condition(running, "Ready") == "False"
        assert condition(running, "Initialized") == condition(running, "PodScheduled") == "True"
        ready = await cluster.until(WEB, lambda it: condition(it, "Ready") == "True")
    assert ready.spec.node_name == "local"
    assert status(ready).pod_ip == "127.99.128.1"
    assert [one.command.argv for one in machine.runs] == [("web",)]
    assert machine.runs[0].command.env["POD_IP"] == "127.99.128.1"
    assert status(ready).qos_class == "BestEffort"


async def test_an_idle_pod_causes_no_writes_and_no_reconciles(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web")
    await cluster.create(pod("web", container(**READINESS)))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.until(WEB, lambda it: condition(it, "Ready") == "True")
        await cluster.settled()
        versions, reconciles = len(cluster.history(WEB)), len(cluster.reconciles(WEB))
        await cluster.advance(600)
        assert (len(cluster.history(WEB)), len(cluster.reconciles(WEB))) == (versions, reconciles)


async def test_the_first_crash_restarts_at_once_and_then_the_back_off_doubles(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web", exits=3, after=1.0)
    await cluster.create(pod())
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.until(WEB, lambda it: container_states(it).get("web") == "CrashLoopBackOff")
        await cluster.advance(100)
        found = await cluster.get(WEB)
    assert machine.starts == [0, 1, 12, 33, 74]
    [web] = status(found).container_statuses
    assert web.restart_count == 4
    assert web.last_state.terminated is not None
    assert (web.last_state.terminated.exit_code, web.last_state.terminated.reason) == (3, "Error")
    assert status(found).phase == "Running"
    assert web.state.waiting is not None
    assert (web.state.waiting.message or "").startswith("back-off 1m20s restarting failed container=web pod=web_test(")


async def test_a_run_of_ten_minutes_resets_the_back_off(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web", exits=[1, 1, 1], after=1.0)
    await cluster.create(pod())
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.advance(50)
        machine.program("web")
        await cluster.until(WEB, lambda it: container_states(it).get("web") == "running")
        await cluster.advance(700)
        machine.exit(machine.running[0], 1)
        again = await cluster.until(WEB, lambda it: status(it).container_statuses[0].restart_count > 3)
    assert container_states(again) == {"web": "running"}
    assert cluster.now() - (status(again).start_time or cluster.now()) < timedelta(seconds=800)


async def test_deletion_terminates_and_kills_after_the_grace_period(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web", ignores_term=True)
    await cluster.create(pod(terminationGracePeriodSeconds=20))
    reconciler = pod_reconciler(machine, tmp_path)
    async with cluster.running(reconciler.controller()):
        await cluster.until(WEB, lambda it: container_states(it) == {"web": "running"})
        begin = cluster.now()
        await cluster.delete(WEB)
        await cluster.until_gone(WEB)
        assert 19 <= (cluster.now() - begin).total_seconds() <= 21
        await cluster.advance(1)
    assert machine.runs[0].signals == [15, 9]
    assert machine.running == []
    assert await asyncio.to_thread(os.listdir, tmp_path / "pods") == []
    assert list(reconciler.node.records.all()) == []


async def test_a_shorter_grace_period_shortens_a_stop_in_progress(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web", ignores_term=True)
    await cluster.create(pod(terminationGracePeriodSeconds=300))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.until(WEB, lambda it: container_states(it) == {"web": "running"})
        await cluster.delete(WEB)
        await cluster.advance(5)
        await cluster.delete(WEB, grace=1)
        await cluster.until_gone(WEB, within=10)
    assert machine.running == []


async def test_init_containers_run_one_after_the_other_before_the_others(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("one", exits=[1, 0], after=2.0)
    machine.program("two", exits=0, after=2.0)
    machine.program("web")
    await cluster.create(pod("web", container(), initContainers=[container("one"), container("two")]))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        first = await cluster.until(WEB, lambda it: container_states(it).get("one") == "running")
        assert container_states(first) == {"one": "running", "two": "PodInitializing", "web": "PodInitializing"}
        assert (status(first).phase, condition(first, "Initialized")) == ("Pending", "False")
        done = await cluster.until(WEB, lambda it: condition(it, "Ready") == "True")
    assert container_states(done) == {"one": "Completed", "two": "Completed", "web": "running"}
    assert [run.command.argv[0] for run in machine.runs] == ["one", "one", "two", "web"]


async def test_a_sidecar_starts_before_the_others_and_stops_after_them(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("proxy", ready_after=2.0, ports=[15])
    machine.program("job", exits=0, after=5.0, ports=[80])
    sidecar = container("proxy", restartPolicy="Always", startupProbe={"tcpSocket": {"port": 15}, "periodSeconds": 1})
    await cluster.create(pod("web", container("job"), initContainers=[sidecar], restartPolicy="Never"))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        up = await cluster.until(WEB, lambda it: container_states(it).get("job") == "running")
        assert container_states(up) == {"proxy": "running", "job": "running"}
        done = await cluster.until(WEB, lambda it: status(it).phase == "Succeeded" and not machine.running)
    assert machine.starts == [0, 2]
    assert container_states(done)["job"] == "Completed"


async def test_a_pod_that_is_not_restarted_ends_in_a_terminal_phase(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("good", exits=0, after=1.0)
    machine.program("bad", exits=2, after=1.0)
    machine.program("again", exits=[2, 0], after=1.0)
    for name, policy in (("good", "Never"), ("bad", "Never"), ("again", "OnFailure")):
        await cluster.create(pod(name, restartPolicy=policy))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.until(Ref(Pod, "good"), lambda it: status(it).phase == "Succeeded")
        await cluster.advance(100)
        phases = {one.name: status(one).phase for one in await cluster.list(Pod)}
    assert phases == {"good": "Succeeded", "bad": "Failed", "again": "Succeeded"}
    assert len(machine.runs) == 4


async def test_a_deadline_ends_a_pod(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web")
    await cluster.create(pod(activeDeadlineSeconds=10))
    begin = cluster.now()
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        failed = await cluster.until(WEB, lambda it: status(it).phase == "Failed" and not machine.running)
    assert status(failed).reason == "DeadlineExceeded"
    ended = machine.runs[0].ended
    assert ended is not None
    assert 10 <= (ended.at - begin).total_seconds() <= 12


async def test_pods_of_other_nodes_and_schedulers_and_gated_pods_are_ignored(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("*")
    await cluster.create(pod("gated", schedulingGates=[{"name": "example.dev/wait"}]))
    await cluster.create(pod("elsewhere", nodeName="other"))
    await cluster.create(pod("planned", schedulerName="planner"))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.advance(60)
        assert machine.runs == []
        await cluster.patch(Ref(Pod, "gated"), MergePatch({"spec": {"schedulingGates": None}}))
        await cluster.until(Ref(Pod, "gated"), lambda it: status(it).phase == "Running")


async def test_a_cordoned_node_gets_no_pods_until_it_is_uncordoned(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web")
    await cluster.create(Node(metadata=ObjectMeta(name="local"), spec=NodeSpec(unschedulable=True)))
    await cluster.create(pod())
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        waiting = await cluster.until(WEB, lambda it: condition(it, "PodScheduled") == "False")
        await cluster.advance(60)
        assert (status(waiting).phase, machine.runs) == ("Pending", [])
        messages = [one.message for one in await cluster.list(Event) if one.reason == "FailedScheduling"]
        assert messages == ["0/1 nodes are available: 1 node(s) were unschedulable."]
        await cluster.patch(Ref(Node, "local"), MergePatch({"spec": {"unschedulable": None}}))
        await cluster.until(WEB, lambda it: condition(it, "Ready") == "True", within=1)


async def test_deleting_a_pod_before_it_is_bound_is_not_an_error(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("*")
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        for steps in range(20):
            await cluster.create(pod(f"web-{steps}"))
            for _ in range(steps):
                await asyncio.sleep(0)
            await cluster.delete(Ref(Pod, f"web-{steps}"), grace=0)
        await cluster.settled()
        assert [str(one) for one in cluster.reconciles() if one.outcome.result == "failed"] == []
        assert machine.running == []


async def test_ignored_scheduling_fields_are_reported_once(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web")
    await cluster.create(pod(nodeSelector={"disk": "ssd"}))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.until(WEB, lambda it: status(it).phase == "Running")
        await cluster.settled()
        messages = [one.message for one in await cluster.list(Event) if one.reason == "SchedulingWishesIgnored"]
    assert messages == ["nodeSelector: ignored, as local is the only node"]


async def test_a_foreign_finalizer_keeps_the_pod_but_not_its_process(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web")
    await cluster.create(pod("web", metadata={"finalizers": ["example.dev/keep"]}))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.until(WEB, lambda it: status(it).phase == "Running")
        await cluster.delete(WEB)
        failed = await cluster.until(WEB, lambda it: status(it).phase == "Failed")
        await cluster.advance(60)
        assert machine.running == []
        versions = len(cluster.history(WEB))
        await cluster.advance(600)
        assert len(cluster.history(WEB)) == versions
        await cluster.patch(failed.ref, MergePatch({"metadata": {"finalizers": None}}))
        await cluster.until_gone(WEB)
