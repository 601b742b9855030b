"""Probes and hooks: who is ready, who is killed, and what happens around the start and the end."""

from pathlib import Path
from typing import Any

from levelset import Ref
from levelset.kinds.core_v1 import Event, Pod
from levelset.testing import Cluster
from systems.local.tests.node.playing import Played, condition, container, container_states, keeper, pod, status

WEB = Ref(Pod, "web")


def http(path: str = "/", **more: Any) -> dict[str, Any]:
    return {"httpGet": {"port": "http", "path": path}, "periodSeconds": 1, **more}


def served(**more: Any) -> dict[str, Any]:
    return container(ports=[{"name": "http", "containerPort": 8080}], **more)


def is_ready(it: Pod) -> bool:
    return condition(it, "Ready") == "True"


async def test_a_pod_is_ready_while_its_probe_says_so(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web")
    await cluster.create(pod("web", served(readinessProbe=http("/ready", failureThreshold=2))))
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        await cluster.until(WEB, is_ready)
        pretend.running[0].is_ready = False
        unready = await cluster.until(WEB, lambda it: not is_ready(it))
        [ready] = [one for one in status(unready).conditions if one.type == "Ready"]
        assert (ready.reason, ready.message) == ("ContainersNotReady", "containers with unready status: [web]")
        pretend.running[0].is_ready = True
        await cluster.until(WEB, is_ready)
    assert len(pretend.runs) == 1


async def test_a_failing_liveness_probe_ends_and_restarts_a_container(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web")
    await cluster.create(pod("web", served(livenessProbe=http())))
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        await cluster.until(WEB, is_ready)
        pretend.running[0].is_ready = False
        again = await cluster.until(WEB, lambda it: status(it).container_statuses[0].restart_count == 1)
        assert container_states(again) == {"web": "running"}
        await cluster.settled()
        reasons = {one.reason for one in await cluster.list(Event)}
    assert pretend.runs[0].signals == [15]
    assert {"Unhealthy", "Killing", "Started", "Scheduled"} <= reasons


async def test_nothing_else_is_asked_before_the_start_is_through(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web", ready_after=20.0)
    probes = {"startupProbe": http(failureThreshold=30), "livenessProbe": http(), "readinessProbe": http()}
    await cluster.create(pod("web", served(**probes)))
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        started = await cluster.until(WEB, lambda it: any(one.started for one in status(it).container_statuses))
        assert status(started).container_statuses[0].restart_count == 0
        await cluster.until(WEB, is_ready)
    assert len(pretend.runs) == 1


async def test_a_grpc_probe_says_that_it_is_not_supported(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web")
    await cluster.create(pod("web", served(readinessProbe={"grpc": {"port": 8080}})))
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        found = await cluster.until(WEB, lambda it: status(it).phase == "Running")
        await cluster.settled()
        messages = [one.message or "" for one in await cluster.list(Event)]
    assert not is_ready(found)
    assert any("grpc probes are not supported here" in one for one in messages)


async def test_a_probe_that_makes_no_sense_is_told_and_kills_nobody(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web")
    await cluster.create(pod("web", served(livenessProbe={"tcpSocket": {"port": "none"}})))
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        await cluster.until(WEB, is_ready)
        await cluster.advance(120)
        messages = [one.message or "" for one in await cluster.list(Event)]
    assert len(pretend.runs) == 1
    assert any("Liveness probe errored: couldn't find port: none" in one for one in messages)


async def test_hooks_run_after_the_start_and_before_the_end(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web", stop_code=0)
    pretend.program("warm", exits=0, after=5.0)
    hooks = {"postStart": {"exec": {"command": ["warm"]}}, "preStop": {"sleep": {"seconds": 4}}}
    await cluster.create(pod("web", served(lifecycle=hooks)))
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        begin = cluster.now()
        await cluster.until(WEB, is_ready)
        assert (cluster.now() - begin).total_seconds() == 5
        begin = cluster.now()
        await cluster.delete(WEB)
        await cluster.until_gone(WEB)
        assert 4 <= (cluster.now() - begin).total_seconds() < 5
    assert pretend.runs[0].signals == [15]


async def test_a_failing_hook_after_the_start_ends_the_container(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web")
    pretend.program("warm", exits=[1, 0])
    hooks = {"postStart": {"exec": {"command": ["warm"]}}}
    await cluster.create(pod("web", served(lifecycle=hooks)))
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        await cluster.until(WEB, is_ready)
    assert [run.signals for run in pretend.runs] == [[15], []]
