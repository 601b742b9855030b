"""The probes and lifecycle hooks of a container: translated into checks for a prober, and run beside its process."""

import asyncio
import signal
from collections.abc import Callable
from typing import Final, Literal

from levelset import replace
from levelset.aio import timing
from levelset.errors import ConfigError
from levelset.kinds.core_v1 import Container, HTTPGetAction, LifecycleHandler, Probe
from levelset_local.node.container_run import ContainerRun
from levelset_local.node.environment import expand
from levelset_local.node.mounts import MOUNT_ROOT, mount_paths, rewrite_mount_path
from levelset_local.node.node import Node
from levelset_local.node.pod_record import (
    RecordUpdate,
    container_failing,
    event_pending,
    post_start_done,
    readiness_changed,
    startup_succeeded,
)
from levelset_machine import (
    Check,
    Command,
    ExecCheck,
    HttpCheck,
    ProbeResult,
    ProbeSchedule,
    ProbeStatus,
    TcpCheck,
    probe_periodically,
)

__all__ = ["BadProbe", "hook_check", "pace_of", "probe_check", "run_hook", "run_probes", "stop_signal"]

Report = Callable[[RecordUpdate], object]
ProbeType = Literal["Startup", "Liveness", "Readiness"]

_POST_START_TIMEOUT: Final = 600.0


class BadProbe(ValueError):
    """A probe or hook cannot be run; the message says why, and what to use instead."""


def probe_check(
    probe: Probe, container: Container, command: Command, address: str, enter: tuple[str, ...] = ()
) -> Check:
    """The check that a probe makes of a container with this command at this address; raises BadProbe.

    `enter` comes before the command of an exec probe.
    """
    if probe.grpc is not None:
        raise BadProbe("grpc probes are not supported here; use httpGet, tcpSocket or exec")
    return _check(probe, container, command, address, enter)


def hook_check(
    handler: LifecycleHandler, container: Container, command: Command, address: str, enter: tuple[str, ...] = ()
) -> Check | None:
    """The check that a lifecycle hook makes; None if the hook only sleeps."""
    return None if handler.sleep is not None else _check(handler, container, command, address, enter)


def _check(
    handler: Probe | LifecycleHandler, container: Container, command: Command, address: str, enter: tuple[str, ...]
) -> Check:
    if handler.http_get is not None:
        return _http(handler.http_get, container, address)
    if handler.tcp_socket is not None:
        return TcpCheck(handler.tcp_socket.host or address, _port(handler.tcp_socket.port, container))
    if handler.exec is not None and handler.exec.command:
        root, mounts = command.env.get(MOUNT_ROOT, ""), mount_paths(container)
        words = (rewrite_mount_path(expand(word, command.env), mounts, root) for word in handler.exec.command)
        return ExecCheck(replace(command, argv=(*enter, *words)))
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


def pace_of(probe: Probe, *, until_success: bool = False) -> ProbeSchedule:
    """The period, timeout and thresholds of a probe, with the defaults of Kubernetes."""
    return ProbeSchedule(
        initial_delay=float(probe.initial_delay_seconds or 0),
        period=float(probe.period_seconds or 10),
        timeout=float(probe.timeout_seconds or 1),
        success_threshold=probe.success_threshold or 1,
        failure_threshold=probe.failure_threshold or 3,
        until_success=until_success,
    )


def stop_signal(container: Container) -> int:
    """The signal that asks a container to terminate."""
    name = container.lifecycle.stop_signal if container.lifecycle is not None else None
    return int(getattr(signal, name or "SIGTERM", signal.SIGTERM))


async def run_hook(node: Node, run: ContainerRun, handler: LifecycleHandler, *, within: float) -> ProbeResult:
    """Runs a lifecycle hook; one that takes longer than `within` seconds has failed."""
    try:
        check = hook_check(handler, run.container, run.command, run.address, run.enter)
    except BadProbe as error:
        return ProbeResult("Failure", str(error))
    if check is not None:
        return await node.prober.probe(check, timeout=max(within, 0.001))
    seconds = float(handler.sleep.seconds if handler.sleep is not None else 0)
    await timing.sleep(min(seconds, within))
    return ProbeResult("Success", f"slept {seconds:g} s")


async def run_probes(node: Node, run: ContainerRun, report: Report) -> None:
    """Runs the postStart hook and then the probes of a container until cancelled, and reports their results."""
    if not await _post_start(node, run, report):
        return
    container = run.container
    if container.startup_probe is not None and not run.live.is_started:
        await _run_probe(node, run, report, "Startup", container.startup_probe)
    async with asyncio.TaskGroup() as group:
        if container.liveness_probe is not None:
            group.create_task(_run_probe(node, run, report, "Liveness", container.liveness_probe))
        if container.readiness_probe is not None:
            group.create_task(_run_probe(node, run, report, "Readiness", container.readiness_probe))


async def _post_start(node: Node, run: ContainerRun, report: Report) -> bool:
    """Whether the probes may start: the postStart hook has succeeded, or there is none."""
    lifecycle = run.container.lifecycle
    if run.live.is_posted or lifecycle is None or lifecycle.post_start is None:
        return True
    verdict = await run_hook(node, run, lifecycle.post_start, within=_POST_START_TIMEOUT)
    name, identity = run.container.name, run.live.identity
    if verdict.outcome == "Success":
        report(post_start_done(name, identity))
        return True
    report(event_pending("FailedPostStartHook", f"PostStartHook failed: {verdict.reason}"))
    report(container_failing(name, identity, "FailedPostStartHook"))
    return False


async def _run_probe(node: Node, run: ContainerRun, report: Report, kind: ProbeType, probe: Probe) -> None:
    """Runs one probe periodically; one that cannot be run is reported, and never succeeds."""
    on_result = _ProbeResults(run, report, kind, probe)
    try:
        check = probe_check(probe, run.container, run.command, run.address, run.enter)
        pace = pace_of(probe, until_success=kind == "Startup")
    except (BadProbe, ConfigError) as error:
        report(event_pending("Unhealthy", f"{kind} probe errored: {error}"))
        # Wait for the container's end: returning would let a failed startup probe start the other probes.
        await asyncio.Event().wait()
        return
    await probe_periodically(node.prober, check, pace, on_result)


class _ProbeResults:
    """Reports the results of one probe: each failure as an event, and changes of the container's state."""

    def __init__(self, run: ContainerRun, report: Report, kind: ProbeType, probe: Probe) -> None:
        self._run = run
        self._report = report
        self._kind = kind
        self._grace = probe.termination_grace_period_seconds
        self._is_ready: bool | None = run.live.is_ready
        self._has_failed = False

    def __call__(self, verdict: ProbeResult, tally: ProbeStatus) -> None:
        name, identity = self._run.container.name, self._run.live.identity
        if verdict.outcome == "Failure":
            self._report(event_pending("Unhealthy", f"{self._kind} probe failed: {verdict.reason}"))
        if self._kind == "Readiness":
            is_ready = tally.health == "passing"
            if tally.health != "unknown" and is_ready != self._is_ready:
                self._is_ready = is_ready
                self._report(readiness_changed(name, identity, is_ready=is_ready))
        elif tally.health == "passing" and self._kind == "Startup":
            self._report(startup_succeeded(name, identity))
        elif tally.health == "failing" and not self._has_failed:
            self._has_failed = True
            why = f"failed {self._kind.lower()} probe"
            self._report(container_failing(name, identity, why, self._grace))
