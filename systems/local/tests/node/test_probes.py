"""Probes and lifecycle hooks: their checks, readiness, liveness, startup, postStart and preStop."""

import signal
from pathlib import Path
from typing import Any

import pytest

from levelset import Ref
from levelset.kinds.core_v1 import Container, Event, Pod
from levelset.testing import Cluster
from levelset_local.node.probes import BadProbe, hook_check, pace_of, probe_check, stop_signal
from levelset_machine import Command, ExecCheck, HttpCheck, ProbeSchedule, TcpCheck
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
COMMAND = Command(argv=("web",), env={"PORT": "80", "LEVELSET_MOUNT_ROOT": "/base"}, cwd="/")


def checked_container(**fields: Any) -> Container:
    ports = [{"name": "http", "containerPort": 8080}]
    mounts = [{"name": "v", "mountPath": "/etc/app"}]
    return pod("web", container(ports=ports, volumeMounts=mounts, **fields)).spec.containers[0]


def check(**probe: Any) -> object:
    it = checked_container(readinessProbe=probe)
    assert it.readiness_probe is not None
    return probe_check(it.readiness_probe, it, COMMAND, "127.9.0.1")


def test_http_checks_resolve_named_ports_hosts_and_headers() -> None:
    assert check(httpGet={"port": "http", "path": "ready"}) == HttpCheck("http://127.9.0.1:8080/ready")
    headers = [{"name": "Host", "value": "shop"}]
    other = {"port": 9, "host": "::1", "scheme": "HTTPS", "httpHeaders": headers}
    assert check(httpGet=other) == HttpCheck("https://[::1]:9/", (("Host", "shop"),))


def test_tcp_and_exec_checks() -> None:
    assert check(tcpSocket={"port": "8080"}) == TcpCheck("127.9.0.1", 8080)
    found = check(exec={"command": ["check", "$(PORT)", "/etc/app/x"]})
    assert isinstance(found, ExecCheck)
    assert (found.command.argv, found.command.cwd) == (("check", "80", "/base/etc/app/x"), "/")


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        ({"grpc": {"port": 1}}, "grpc probes are not supported here"),
        ({"httpGet": {"port": "none"}}, "couldn't find port: none"),
        ({}, "it has no handler"),
    ],
)
def test_an_unsupported_probe_is_refused_with_the_reason(probe: dict[str, Any], message: str) -> None:
    with pytest.raises(BadProbe, match=message):
        check(**probe)


def test_a_sleep_hook_needs_no_check() -> None:
    it = checked_container(lifecycle={"preStop": {"sleep": {"seconds": 3}}, "postStart": {"tcpSocket": {"port": 8080}}})
    assert it.lifecycle is not None
    assert it.lifecycle.pre_stop is not None
    assert it.lifecycle.post_start is not None
    assert hook_check(it.lifecycle.pre_stop, it, COMMAND, "127.9.0.1") is None
    assert hook_check(it.lifecycle.post_start, it, COMMAND, "127.9.0.1") == TcpCheck("127.9.0.1", 8080)


def test_the_pace_of_a_probe_has_the_defaults_of_kubernetes() -> None:
    it = checked_container(
        startupProbe={"tcpSocket": {"port": 1}}, livenessProbe={"tcpSocket": {"port": 1}, "initialDelaySeconds": 2}
    )
    assert it.startup_probe is not None
    assert it.liveness_probe is not None
    assert pace_of(it.startup_probe, until_success=True) == ProbeSchedule(until_success=True)
    assert pace_of(it.liveness_probe) == ProbeSchedule(initial_delay=2.0)


def test_the_stop_signal_can_be_configured() -> None:
    assert stop_signal(checked_container()) == signal.SIGTERM
    assert stop_signal(checked_container(lifecycle={"stopSignal": "SIGUSR1"})) == signal.SIGUSR1


def http(path: str = "/", **more: Any) -> dict[str, Any]:
    return {"httpGet": {"port": "http", "path": path}, "periodSeconds": 1, **more}


def served(**more: Any) -> dict[str, Any]:
    return container(ports=[{"name": "http", "containerPort": 8080}], **more)


def is_ready(it: Pod) -> bool:
    return condition(it, "Ready") == "True"


async def test_a_pod_is_ready_while_its_readiness_probe_succeeds(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web")
    await cluster.create(pod("web", served(readinessProbe=http("/ready", failureThreshold=2))))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.until(WEB, is_ready)
        machine.running[0].is_ready = False
        unready = await cluster.until(WEB, lambda it: not is_ready(it))
        [ready] = [one for one in status(unready).conditions if one.type == "Ready"]
        assert (ready.reason, ready.message) == ("ContainersNotReady", "containers with unready status: [web]")
        machine.running[0].is_ready = True
        await cluster.until(WEB, is_ready)
    assert len(machine.runs) == 1


async def test_a_failing_liveness_probe_ends_and_restarts_a_container(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web")
    await cluster.create(pod("web", served(livenessProbe=http())))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.until(WEB, is_ready)
        machine.running[0].is_ready = False
        again = await cluster.until(WEB, lambda it: status(it).container_statuses[0].restart_count == 1)
        assert container_states(again) == {"web": "running"}
        await cluster.settled()
        reasons = {one.reason for one in await cluster.list(Event)}
    assert machine.runs[0].signals == [15]
    assert {"Unhealthy", "Killing", "Started", "Scheduled"} <= reasons


async def test_other_probes_wait_for_the_startup_probe(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web", ready_after=20.0)
    probes = {"startupProbe": http(failureThreshold=30), "livenessProbe": http(), "readinessProbe": http()}
    await cluster.create(pod("web", served(**probes)))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        started = await cluster.until(WEB, lambda it: any(one.started for one in status(it).container_statuses))
        assert status(started).container_statuses[0].restart_count == 0
        await cluster.until(WEB, is_ready)
    assert len(machine.runs) == 1


async def test_a_grpc_probe_is_reported_as_not_supported(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web")
    await cluster.create(pod("web", served(readinessProbe={"grpc": {"port": 8080}})))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        found = await cluster.until(WEB, lambda it: status(it).phase == "Running")
        await cluster.settled()
        messages = [one.message or "" for one in await cluster.list(Event)]
    assert not is_ready(found)
    assert any("grpc probes are not supported here" in one for one in messages)


async def test_an_invalid_probe_is_reported_and_stops_no_container(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web")
    await cluster.create(pod("web", served(livenessProbe={"tcpSocket": {"port": "none"}})))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.until(WEB, is_ready)
        await cluster.advance(120)
        messages = [one.message or "" for one in await cluster.list(Event)]
    assert len(machine.runs) == 1
    assert any("Liveness probe errored: couldn't find port: none" in one for one in messages)


async def test_hooks_run_after_the_start_and_before_the_stop(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web", stop_code=0)
    machine.program("warm", exits=0, after=5.0)
    hooks = {"postStart": {"exec": {"command": ["warm"]}}, "preStop": {"sleep": {"seconds": 4}}}
    await cluster.create(pod("web", served(lifecycle=hooks)))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        begin = cluster.now()
        await cluster.until(WEB, is_ready)
        assert (cluster.now() - begin).total_seconds() == 5
        begin = cluster.now()
        await cluster.delete(WEB)
        await cluster.until_gone(WEB)
        assert 4 <= (cluster.now() - begin).total_seconds() < 5
    assert machine.runs[0].signals == [15]


async def test_a_failing_post_start_hook_stops_the_container(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web")
    machine.program("warm", exits=[1, 0])
    hooks = {"postStart": {"exec": {"command": ["warm"]}}}
    await cluster.create(pod("web", served(lifecycle=hooks)))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.until(WEB, is_ready)
    assert [run.signals for run in machine.runs] == [[15], []]
