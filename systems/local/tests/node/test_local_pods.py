"""A Pod's life on a machine that pretends, in virtual time."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from levelset import MergePatch, ObjectMeta, Ref
from levelset.kinds.core_v1 import Event, Node, NodeSpec, Pod
from levelset.testing import Cluster
from systems.local.tests.node.playing import Played, condition, container, container_states, keeper, pod, status

WEB = Ref(Pod, "web")
READINESS: dict[str, Any] = {"readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 1}}


async def test_a_pod_is_bound_started_and_ready(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web", ready_after=3.0)
    await cluster.create(pod("web", container(**READINESS)))
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        running = await cluster.until(WEB, lambda it: status(it).phase == "Running")
        assert condition(running, "Ready") == "False"
        assert condition(running, "Initialized") == condition(running, "PodScheduled") == "True"
        ready = await cluster.until(WEB, lambda it: condition(it, "Ready") == "True")
    assert ready.spec.node_name == "local"
    assert status(ready).pod_ip == "127.99.128.1"
    assert [one.command.argv for one in pretend.runs] == [("web",)]
    assert pretend.runs[0].command.env["POD_IP"] == "127.99.128.1"
    assert status(ready).qos_class == "BestEffort"


async def test_idle_means_zero_writes_and_zero_looks(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web")
    await cluster.create(pod("web", container(**READINESS)))
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        await cluster.until(WEB, lambda it: condition(it, "Ready") == "True")
        await cluster.settled()
        versions, looks = len(cluster.history(WEB)), len(cluster.looks(WEB))
        await cluster.advance(600)
        assert (len(cluster.history(WEB)), len(cluster.looks(WEB))) == (versions, looks)


async def test_a_crash_is_a_restart_at_once_and_then_a_back_off_that_doubles(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web", exits=3, after=1.0)
    await cluster.create(pod())
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        await cluster.until(WEB, lambda it: container_states(it).get("web") == "CrashLoopBackOff")
        await cluster.advance(100)
        found = await cluster.get(WEB)
    assert pretend.starts == [0, 1, 12, 33, 74]
    [web] = status(found).container_statuses
    assert web.restart_count == 4
    assert web.last_state.terminated is not None
    assert (web.last_state.terminated.exit_code, web.last_state.terminated.reason) == (3, "Error")
    assert status(found).phase == "Running"
    assert web.state.waiting is not None
    assert (web.state.waiting.message or "").startswith("back-off 1m20s restarting failed container=web pod=web_test(")


async def test_ten_minutes_of_peace_start_the_back_off_anew(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web", exits=[1, 1, 1], after=1.0)
    await cluster.create(pod())
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        await cluster.advance(50)
        pretend.program("web")
        await cluster.until(WEB, lambda it: container_states(it).get("web") == "running")
        await cluster.advance(700)
        pretend.exit(pretend.running[0], 1)
        again = await cluster.until(WEB, lambda it: status(it).container_statuses[0].restart_count > 3)
    assert container_states(again) == {"web": "running"}
    assert cluster.now() - (status(again).start_time or cluster.now()) < timedelta(seconds=800)


async def test_deleting_asks_first_and_kills_when_the_grace_is_over(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web", ignores_term=True)
    await cluster.create(pod(terminationGracePeriodSeconds=20))
    node_keeper = keeper(pretend, tmp_path)
    async with cluster.running(node_keeper.controller()):
        await cluster.until(WEB, lambda it: container_states(it) == {"web": "running"})
        begin = cluster.now()
        await cluster.delete(WEB)
        await cluster.until_gone(WEB)
        assert 19 <= (cluster.now() - begin).total_seconds() <= 21
        await cluster.advance(1)
    assert pretend.runs[0].signals == [15, 9]
    assert pretend.running == []
    assert await asyncio.to_thread(os.listdir, tmp_path / "pods") == []
    assert list(node_keeper.node.records.all()) == []


async def test_a_shorter_grace_cuts_an_end_short(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web", ignores_term=True)
    await cluster.create(pod(terminationGracePeriodSeconds=300))
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        await cluster.until(WEB, lambda it: container_states(it) == {"web": "running"})
        await cluster.delete(WEB)
        await cluster.advance(5)
        await cluster.delete(WEB, grace=1)
        await cluster.until_gone(WEB, within=10)
    assert pretend.running == []


async def test_init_containers_run_one_after_the_other_before_the_others(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("one", exits=[1, 0], after=2.0)
    pretend.program("two", exits=0, after=2.0)
    pretend.program("web")
    await cluster.create(pod("web", container(), initContainers=[container("one"), container("two")]))
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        first = await cluster.until(WEB, lambda it: container_states(it).get("one") == "running")
        assert container_states(first) == {"one": "running", "two": "PodInitializing", "web": "PodInitializing"}
        assert (status(first).phase, condition(first, "Initialized")) == ("Pending", "False")
        done = await cluster.until(WEB, lambda it: condition(it, "Ready") == "True")
    assert container_states(done) == {"one": "Completed", "two": "Completed", "web": "running"}
    assert [run.command.argv[0] for run in pretend.runs] == ["one", "one", "two", "web"]


async def test_a_sidecar_is_up_before_the_others_and_ends_after_them(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("proxy", ready_after=2.0, ports=[15])
    pretend.program("job", exits=0, after=5.0, ports=[80])
    sidecar = container("proxy", restartPolicy="Always", startupProbe={"tcpSocket": {"port": 15}, "periodSeconds": 1})
    await cluster.create(pod("web", container("job"), initContainers=[sidecar], restartPolicy="Never"))
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        up = await cluster.until(WEB, lambda it: container_states(it).get("job") == "running")
        assert container_states(up) == {"proxy": "running", "job": "running"}
        done = await cluster.until(WEB, lambda it: status(it).phase == "Succeeded" and not pretend.running)
    assert pretend.starts == [0, 2]
    assert container_states(done)["job"] == "Completed"


async def test_a_pod_that_is_not_to_run_again_ends_in_a_phase_that_stays(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("good", exits=0, after=1.0)
    pretend.program("bad", exits=2, after=1.0)
    pretend.program("again", exits=[2, 0], after=1.0)
    for name, policy in (("good", "Never"), ("bad", "Never"), ("again", "OnFailure")):
        await cluster.create(pod(name, restartPolicy=policy))
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        await cluster.until(Ref(Pod, "good"), lambda it: status(it).phase == "Succeeded")
        await cluster.advance(100)
        phases = {one.name: status(one).phase for one in await cluster.list(Pod)}
    assert phases == {"good": "Succeeded", "bad": "Failed", "again": "Succeeded"}
    assert len(pretend.runs) == 4


async def test_a_deadline_ends_a_pod(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web")
    await cluster.create(pod(activeDeadlineSeconds=10))
    begin = cluster.now()
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        failed = await cluster.until(WEB, lambda it: status(it).phase == "Failed" and not pretend.running)
    assert status(failed).reason == "DeadlineExceeded"
    ended = pretend.runs[0].ended
    assert ended is not None
    assert 10 <= (ended.at - begin).total_seconds() <= 12


async def test_pods_of_others_and_those_that_must_wait_are_left_alone(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("*")
    await cluster.create(pod("gated", schedulingGates=[{"name": "example.dev/wait"}]))
    await cluster.create(pod("elsewhere", nodeName="other"))
    await cluster.create(pod("planned", schedulerName="planner"))
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        await cluster.advance(60)
        assert pretend.runs == []
        await cluster.patch(Ref(Pod, "gated"), MergePatch({"spec": {"schedulingGates": None}}))
        await cluster.until(Ref(Pod, "gated"), lambda it: status(it).phase == "Running")


async def test_no_pod_comes_to_a_node_that_is_cordoned_until_it_is_uncordoned(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web")
    await cluster.create(Node(metadata=ObjectMeta(name="local"), spec=NodeSpec(unschedulable=True)))
    await cluster.create(pod())
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        waiting = await cluster.until(WEB, lambda it: condition(it, "PodScheduled") == "False")
        await cluster.advance(60)
        assert (status(waiting).phase, pretend.runs) == ("Pending", [])
        told = [one.message for one in await cluster.list(Event) if one.reason == "FailedScheduling"]
        assert told == ["0/1 nodes are available: 1 node(s) were unschedulable."]
        await cluster.patch(Ref(Node, "local"), MergePatch({"spec": {"unschedulable": None}}))
        await cluster.until(WEB, lambda it: condition(it, "Ready") == "True", within=1)


async def test_a_pod_that_is_gone_before_it_is_bound_is_nobodys_failure(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("*")
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        for steps in range(20):
            await cluster.create(pod(f"web-{steps}"))
            for _ in range(steps):
                await asyncio.sleep(0)
            await cluster.delete(Ref(Pod, f"web-{steps}"), grace=0)
        await cluster.settled()
        assert [str(one) for one in cluster.looks() if one.outcome.result == "failed"] == []
        assert pretend.running == []


async def test_wishes_that_mean_nothing_here_are_told_once(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web")
    await cluster.create(pod(nodeSelector={"disk": "ssd"}))
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        await cluster.until(WEB, lambda it: status(it).phase == "Running")
        await cluster.settled()
        told = [one.message for one in await cluster.list(Event) if one.reason == "SchedulingWishesIgnored"]
    assert told == ["nodeSelector: not looked at, as there is no other node than local"]


async def test_a_finalizer_of_somebody_else_keeps_the_pod_but_not_its_process(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web")
    await cluster.create(pod("web", metadata={"finalizers": ["example.dev/keep"]}))
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        await cluster.until(WEB, lambda it: status(it).phase == "Running")
        await cluster.delete(WEB)
        kept = await cluster.until(WEB, lambda it: status(it).phase == "Failed")
        await cluster.advance(60)
        assert pretend.running == []
        versions = len(cluster.history(WEB))
        await cluster.advance(600)
        assert len(cluster.history(WEB)) == versions
        await cluster.patch(kept.ref, MergePatch({"metadata": {"finalizers": None}}))
        await cluster.until_gone(WEB)
