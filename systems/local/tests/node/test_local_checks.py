"""Probes and hooks as checks: ports by name, hosts, headers, commands; and what cannot be asked."""

import signal
from typing import Any

import pytest

from levelset.kinds.core_v1 import Container
from levelset_local.node.checks import BadProbe, hook_check, pace_of, probe_check, stop_signal
from levelset_machine import Command, ExecCheck, HttpCheck, Pace, TcpCheck
from systems.local.tests.node.playing import container, pod

COMMAND = Command(argv=("web",), env={"PORT": "80", "LEVELSET_MOUNT_ROOT": "/base"}, cwd="/")


def made(**fields: Any) -> Container:
    ports = [{"name": "http", "containerPort": 8080}]
    mounts = [{"name": "v", "mountPath": "/etc/app"}]
    return pod("web", container(ports=ports, volumeMounts=mounts, **fields)).spec.containers[0]


def check(**probe: Any) -> object:
    it = made(readinessProbe=probe)
    assert it.readiness_probe is not None
    return probe_check(it.readiness_probe, it, COMMAND, "127.9.0.1")


def test_http_ports_may_be_named_and_hosts_and_headers_given() -> None:
    assert check(httpGet={"port": "http", "path": "ready"}) == HttpCheck("http://127.9.0.1:8080/ready")
    headers = [{"name": "Host", "value": "shop"}]
    other = {"port": 9, "host": "::1", "scheme": "HTTPS", "httpHeaders": headers}
    assert check(httpGet=other) == HttpCheck("https://[::1]:9/", (("Host", "shop"),))


def test_connections_and_commands() -> None:
    assert check(tcpSocket={"port": "8080"}) == TcpCheck("127.9.0.1", 8080)
    found = check(exec={"command": ["ask", "$(PORT)", "/etc/app/x"]})
    assert isinstance(found, ExecCheck)
    assert (found.command.argv, found.command.cwd) == (("ask", "80", "/base/etc/app/x"), "/")


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        ({"grpc": {"port": 1}}, "grpc probes are not supported here"),
        ({"httpGet": {"port": "none"}}, "couldn't find port: none"),
        ({}, "it has no handler"),
    ],
)
def test_what_cannot_be_asked_says_why(probe: dict[str, Any], words: str) -> None:
    with pytest.raises(BadProbe, match=words):
        check(**probe)


def test_a_hook_that_sleeps_is_no_check() -> None:
    it = made(lifecycle={"preStop": {"sleep": {"seconds": 3}}, "postStart": {"tcpSocket": {"port": 8080}}})
    assert it.lifecycle is not None
    assert it.lifecycle.pre_stop is not None
    assert it.lifecycle.post_start is not None
    assert hook_check(it.lifecycle.pre_stop, it, COMMAND, "127.9.0.1") is None
    assert hook_check(it.lifecycle.post_start, it, COMMAND, "127.9.0.1") == TcpCheck("127.9.0.1", 8080)


def test_the_pace_has_the_defaults_of_kubernetes() -> None:
    it = made(
        startupProbe={"tcpSocket": {"port": 1}}, livenessProbe={"tcpSocket": {"port": 1}, "initialDelaySeconds": 2}
    )
    assert it.startup_probe is not None
    assert it.liveness_probe is not None
    assert pace_of(it.startup_probe, until_success=True) == Pace(until_success=True)
    assert pace_of(it.liveness_probe) == Pace(initial_delay=2.0)


def test_the_signal_that_ends_a_container_may_be_chosen() -> None:
    assert stop_signal(made()) == signal.SIGTERM
    assert stop_signal(made(lifecycle={"stopSignal": "SIGUSR1"})) == signal.SIGUSR1
