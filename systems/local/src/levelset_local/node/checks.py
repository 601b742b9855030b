"""Probes and hooks of a container as checks that a prober can carry out: ports by name, addresses, commands."""

import signal
from dataclasses import replace

from levelset.kinds.core_v1 import Container, HTTPGetAction, LifecycleHandler, Probe
from levelset_local.node.expanding import expand
from levelset_local.node.paths import MOUNT_ROOT, mount_paths, rewritten
from levelset_machine import Check, Command, ExecCheck, HttpCheck, Pace, TcpCheck

__all__ = ["BadProbe", "hook_check", "pace_of", "probe_check", "stop_signal"]


class BadProbe(ValueError):
    """A probe or hook cannot be carried out; the message says why, and what to use."""


def probe_check(probe: Probe, container: Container, command: Command, address: str) -> Check:
    """What a probe asks of a container that runs this command at this address; BadProbe if that cannot be asked."""
    if probe.grpc is not None:
        raise BadProbe("grpc probes are not supported here; use httpGet, tcpSocket or exec")
    return _check(probe, container, command, address)


def hook_check(handler: LifecycleHandler, container: Container, command: Command, address: str) -> Check | None:
    """What a hook does that is no sleep; None if it is one."""
    return None if handler.sleep is not None else _check(handler, container, command, address)


def _check(handler: Probe | LifecycleHandler, container: Container, command: Command, address: str) -> Check:
    if handler.http_get is not None:
        return _http(handler.http_get, container, address)
    if handler.tcp_socket is not None:
        return TcpCheck(handler.tcp_socket.host or address, _port(handler.tcp_socket.port, container))
    if handler.exec is not None and handler.exec.command:
        root, mounts = command.env.get(MOUNT_ROOT, ""), mount_paths(container)
        words = (rewritten(expand(word, command.env), mounts, root) for word in handler.exec.command)
        return ExecCheck(replace(command, argv=tuple(words)))
    raise BadProbe("it has no handler; give it an httpGet, a tcpSocket or an exec with a command")


def _http(http: HTTPGetAction, container: Container, address: str) -> HttpCheck:
    scheme = (http.scheme or "HTTP").lower()
    path = http.path or "/"
    path = path if path.startswith("/") else f"/{path}"
    headers = tuple((one.name, one.value) for one in http.http_headers)
    host = http.host or address
    host = f"[{host}]" if ":" in host else host
    return HttpCheck(f"{scheme}://{host}:{_port(http.port, container)}{path}", headers)


def _port(port: int | str, container: Container) -> int:
    text = str(port)
    if text.isascii() and text.isdigit():
        return int(text)
    for one in container.ports:
        if one.name == text:
            return one.container_port
    raise BadProbe(f"couldn't find port: {text} in the ports of container {container.name}")


def pace_of(probe: Probe, *, until_success: bool = False) -> Pace:
    """How often a probe is made, and how many verdicts in a row count."""
    return Pace(
        initial_delay=float(probe.initial_delay_seconds or 0),
        period=float(probe.period_seconds or 10),
        timeout=float(probe.timeout_seconds or 1),
        success_threshold=probe.success_threshold or 1,
        failure_threshold=probe.failure_threshold or 3,
        until_success=until_success,
    )


def stop_signal(container: Container) -> int:
    """The signal that asks a container to end."""
    name = container.lifecycle.stop_signal if container.lifecycle is not None else None
    return int(getattr(signal, name or "SIGTERM", signal.SIGTERM))
