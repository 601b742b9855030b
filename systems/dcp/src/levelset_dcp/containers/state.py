"""The state of a container, its transitions, and the next step of the reconciler; pure."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from levelset import replace
from levelset.objects import MicroTime
from levelset_dcp.engines.models import ContainerInfo, ContainerStatusName, EngineHealth, HealthName, PortBinding
from levelset_dcp.kinds import Container, ContainerSpec, ContainerState, EnvVar, HealthProbeResult
from levelset_dcp.names import KEY, uid_of
from levelset_dcp.workloads.health_probes import with_result
from levelset_dcp.workloads.modes import container_policy

__all__ = [
    "FINAL",
    "RUNTIME_PROBE",
    "Adoption",
    "Change",
    "ObservedContainer",
    "Step",
    "decide_adoption",
    "failed",
    "inspected",
    "lease_of",
    "name_of",
    "not_found",
    "plan",
    "probed",
    "removed",
    "removed_externally",
    "retry_later",
    "stop_failed",
    "unhealthy",
]

FINAL: Final[tuple[ContainerState, ...]] = ("FailedToStart", "Unknown")
"""Terminal states; an Exited container may still be restarted by its engine."""
RUNTIME_PROBE: Final = "__runtime"
"""The name of the probe result that stands for the health check of the image."""
_UNRESOLVED: Final[tuple[ContainerState, ...]] = ("", "Pending", "RuntimeUnhealthy", "NotFound", "Building", "Starting")
_STATES: Final[Mapping[ContainerStatusName, ContainerState]] = {
    "running": "Running",
    "restarting": "Running",
    "paused": "Paused",
    "removing": "Stopping",
    "exited": "Exited",
    "dead": "Exited",
}
_OUTCOMES: Final[Mapping[HealthName, str]] = {"healthy": "Success", "unhealthy": "Failure", "starting": "Unknown"}
Step = Literal["none", "find", "start", "stop", "fail"]
"""Do nothing; look up an existing container; start; stop; fail because it was stopped before the start."""
Adoption = Literal["adopt", "replace", "create", "wait", "foreign"]
"""Adopt it; remove it and create another; create one; wait for one; it belongs to another object."""


class ObservedContainer(Struct, frozen=True, kw_only=True):
    """The observed state of one container."""

    uid: str
    state: ContainerState = "Pending"
    message: str = ""
    container_id: str = ""
    container_name: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    env: tuple[EnvVar, ...] = ()
    args: tuple[str, ...] = ()
    key: str = ""
    ports: tuple[PortBinding, ...] = ()
    attached: tuple[str, ...] = ()
    """The names and IDs of its networks; some engines report only one of the two."""
    results: tuple[HealthProbeResult, ...] = ()
    files: tuple[str, str] = ("", "")
    """The files of its startup logs, stdout and stderr."""
    terminal: str = ""
    """The socket of its terminal."""
    is_resolved: bool = False
    """Whether an existing container was looked up in the engine."""
    is_inspected: bool = False
    """Whether it was inspected since the controller started; before that its ports and networks are unknown."""
    is_stopping: bool = False
    """Whether a stop was requested; never reset."""
    is_removed: bool = False
    """Whether the container was removed on request."""
    retry_at: float = 0.0
    """The loop time of the next attempt."""

    @property
    def is_unresolved(self) -> bool:
        """Whether the engine may have a container that was not inspected yet, e.g. after a controller restart."""
        return not self.is_over and (not self.is_inspected or self.state in _UNRESOLVED)

    @property
    def is_over(self) -> bool:
        """Whether it has exited, or never started."""
        return self.state in (*FINAL, "Exited")


Change = Callable[[ObservedContainer], ObservedContainer | None]
"""A change of the observed state; None if there is nothing to change."""


def inspected(info: ContainerInfo, now: datetime) -> Change:
    """Applies the result of an inspection."""

    def change(observed: ObservedContainer) -> ObservedContainer | None:
        if observed.state in FINAL:
            return None
        state = _STATES.get(info.status, observed.state)
        if observed.finished_at and info.started_at and state != "Exited" and info.started_at < observed.finished_at:
            return None  # a stale result: it was inspected before the exit that is already observed
        if observed.is_stopping and state in ("Running", "Paused"):
            state = "Stopping"
        is_over = state == "Exited"
        return replace(
            observed,
            state=state,
            message="" if state != observed.state else observed.message,
            container_id=info.id,
            container_name=info.name,
            started_at=info.started_at or observed.started_at,
            finished_at=(info.finished_at or observed.finished_at or now) if is_over else None,
            exit_code=info.exit_code if is_over else None,
            ports=info.ports,
            attached=tuple(sorted({key for one in info.networks for key in (one.network, one.network_id) if key})),
            results=_with_native(observed.results, info.health, now),
            is_resolved=True,
            is_inspected=True,
            retry_at=0.0,
        )

    return change


def removed_externally(now: datetime) -> Change:
    """The container was removed by another client of the engine."""

    def change(observed: ObservedContainer) -> ObservedContainer | None:
        if observed.state in FINAL:
            return None
        message = "the container was removed by another client"
        finished = observed.finished_at or now
        return replace(observed, state="Unknown", message=message, finished_at=finished, ports=(), attached=())

    return change


def failed(message: str, now: datetime) -> Change:
    """The start has failed."""

    def change(observed: ObservedContainer) -> ObservedContainer | None:
        if observed.state in FINAL:
            return None
        started = observed.started_at or now
        return replace(observed, state="FailedToStart", message=message, started_at=started, finished_at=now)

    return change


def unhealthy(message: str, retry_at: float) -> Change:
    """The engine is not healthy; a container that was not created yet is resolved again later."""

    def change(observed: ObservedContainer) -> ObservedContainer:
        if observed.container_id:
            return replace(observed, message=message, retry_at=retry_at)
        return replace(observed, state="RuntimeUnhealthy", message=message, retry_at=retry_at, is_resolved=False)

    return change


def not_found(message: str, retry_at: float) -> Change:
    """There is no container of this name, and the mode does not create one."""
    return lambda observed: replace(observed, state="NotFound", message=message, retry_at=retry_at)


def retry_later(message: str, retry_at: float) -> Change:
    """Nothing can be done before `retry_at`."""
    return lambda observed: replace(observed, message=message, retry_at=retry_at)


def stop_failed(message: str, now: datetime) -> Change:
    """The stop has failed, and the container may still run."""

    def change(observed: ObservedContainer) -> ObservedContainer | None:
        if observed.state in FINAL:
            return None
        return replace(observed, state="Unknown", message=message, finished_at=observed.finished_at or now)

    return change


def removed() -> Change:
    """The container was removed on request."""
    return lambda observed: replace(observed, is_removed=True, message="", retry_at=0.0)


def probed(result: HealthProbeResult) -> Change:
    """Applies the result of a probe."""

    def change(observed: ObservedContainer) -> ObservedContainer | None:
        results = with_result(observed.results, result)
        return None if results is None else replace(observed, results=results)

    return change


def _with_native(
    results: tuple[HealthProbeResult, ...], health: EngineHealth | None, now: datetime
) -> tuple[HealthProbeResult, ...]:
    """The results, with that of the image's own health check."""
    if health is None:
        return tuple(one for one in results if one.probe_name != RUNTIME_PROBE)
    outcome = _OUTCOMES[health.status]
    at = MicroTime.of(health.at or now)
    reason = health.output or f"the health check of the image reports {health.status}"
    result = HealthProbeResult(probe_name=RUNTIME_PROBE, outcome=outcome, timestamp=at, reason=reason)  # type: ignore[arg-type]  # one of the three
    return with_result(results, result) or results


def name_of(container: Container) -> str:
    """The deterministic name of the container in the engine."""
    return container.spec.container_name or f"{container.name[:200]}-{container.metadata.uid[:8]}"


def plan(container: Container, observed: ObservedContainer) -> Step:
    """The next step of a container that is not being deleted."""
    spec = container.spec
    if observed.is_over:
        return "none"
    if observed.state in ("Running", "Paused", "Stopping"):
        return "stop" if spec.stop else "none"
    if not observed.is_resolved:
        return "find" if _needs_lookup(spec) else "none"
    if spec.stop:
        return "fail"
    return "start" if spec.start else "none"


def _needs_lookup(spec: ContainerSpec) -> bool:
    """Whether a lookup is needed: not for one that only waits for `start: true`."""
    return spec.start or spec.stop or container_policy(spec).adopts


def decide_adoption(container: Container, found: ContainerInfo | None, key: str | None) -> Adoption:
    """What to do with the existing container of a name, or without one; `key` None matches any; pure."""
    policy = container_policy(container.spec)
    if found is None:
        return "create" if policy.creates else "wait"
    if not policy.adopts:
        return "adopt" if uid_of(found.labels) == container.metadata.uid else "foreign"
    is_ours, is_same = bool(uid_of(found.labels)), key is None or found.labels.get(KEY) == key
    if uid_of(found.labels) == container.metadata.uid:
        return "adopt"
    if policy.creates and container.spec.start and is_ours and not (is_same and found.is_running):
        return "replace" if not container.spec.stop else "adopt"
    return "adopt"


def lease_of(container: Container) -> str:
    """The key of the lease of a container that outlives the session."""
    return f"containers/{name_of(container)}"
