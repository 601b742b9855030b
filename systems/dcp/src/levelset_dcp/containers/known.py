"""What is known of a container, and how news changes it; all pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from levelset.objects import MicroTime
from levelset_dcp.engines.models import ContainerInfo, ContainerStatusName, EngineHealth, HealthName, PortBinding
from levelset_dcp.executables.known import is_news
from levelset_dcp.kinds import ContainerState, EnvVar, HealthProbeResult

__all__ = [
    "FINAL",
    "RUNTIME_PROBE",
    "Change",
    "ContainerKnown",
    "failed",
    "gone",
    "inspected",
    "not_found",
    "probed",
    "stop_failed",
    "unhealthy",
    "vanished",
    "waits",
]

FINAL: Final[tuple[ContainerState, ...]] = ("FailedToStart", "Unknown")
"""States that nothing follows; from Exited a container may come back."""
RUNTIME_PROBE: Final = "__runtime"
"""The probe that is the health check of the image itself."""

_LIMBO: Final[tuple[ContainerState, ...]] = ("", "Pending", "RuntimeUnhealthy", "NotFound", "Building", "Starting")
_STATES: Final[Mapping[ContainerStatusName, ContainerState]] = {
    "running": "Running",
    "restarting": "Running",
    "paused": "Paused",
    "removing": "Stopping",
    "exited": "Exited",
    "dead": "Exited",
}
_OUTCOMES: Final[Mapping[HealthName, str]] = {"healthy": "Success", "unhealthy": "Failure", "starting": "Unknown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerKnown:
    """One container, as far as it is known."""

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
    """The names and IDs of the networks that it is in; some engines tell only one of them."""
    results: tuple[HealthProbeResult, ...] = ()
    files: tuple[str, str] = ("", "")
    """Where the engine's words about its start are written to."""
    is_resolved: bool = False
    """Whether the engine has been asked what is there."""
    is_seen: bool = False
    """Whether the engine has been asked how it is: until then its ports and networks are not known."""
    is_stopping: bool = False
    """Whether somebody has begun to stop it; once set, it stays."""
    is_gone: bool = False
    """Whether the engine has it no more, as it was told."""
    again_at: float = 0.0
    """Not before that time of the loop's clock is it tried again."""

    @property
    def is_in_limbo(self) -> bool:
        """Whether nobody knows yet what there is: a controller that was started anew may have left something."""
        return not self.is_over and (not self.is_seen or self.state in _LIMBO)

    @property
    def is_over(self) -> bool:
        """Whether it runs no more, or never did."""
        return self.state in (*FINAL, "Exited")


Change = Callable[[ContainerKnown], ContainerKnown | None]
"""News about a container; None if it says nothing."""


def inspected(info: ContainerInfo, now: datetime) -> Change:
    """This is how the engine has it."""

    def change(known: ContainerKnown) -> ContainerKnown | None:
        if known.state in FINAL:
            return None
        state = _STATES.get(info.status, known.state)
        if known.finished_at and info.started_at and state != "Exited" and info.started_at < known.finished_at:
            return None  # it was looked at before it ended, and the answer came late
        if known.is_stopping and state in ("Running", "Paused"):
            state = "Stopping"
        is_over = state == "Exited"
        return replace(
            known,
            state=state,
            message="" if state != known.state else known.message,
            container_id=info.id,
            container_name=info.name,
            started_at=info.started_at or known.started_at,
            finished_at=(info.finished_at or known.finished_at or now) if is_over else None,
            exit_code=info.exit_code if is_over else None,
            ports=info.ports,
            attached=tuple(sorted({word for one in info.networks for word in (one.network, one.network_id) if word})),
            results=_with_native(known.results, info.health, now),
            is_resolved=True,
            is_seen=True,
            again_at=0.0,
        )

    return change


def vanished(now: datetime) -> Change:
    """The engine has it no more, and nobody here has asked for that."""

    def change(known: ContainerKnown) -> ContainerKnown | None:
        if known.state in FINAL:
            return None
        words = "somebody else has removed the container"
        finished = known.finished_at or now
        return replace(known, state="Unknown", message=words, finished_at=finished, ports=(), attached=())

    return change


def failed(words: str, now: datetime) -> Change:
    """It cannot be started."""

    def change(known: ContainerKnown) -> ContainerKnown | None:
        if known.state in FINAL:
            return None
        started = known.started_at or now
        return replace(known, state="FailedToStart", message=words, started_at=started, finished_at=now)

    return change


def unhealthy(words: str, again_at: float) -> Change:
    """The engine does not answer: everything begins anew when it does."""

    def change(known: ContainerKnown) -> ContainerKnown:
        if known.container_id:
            return replace(known, message=words, again_at=again_at)
        return replace(known, state="RuntimeUnhealthy", message=words, again_at=again_at, is_resolved=False)

    return change


def not_found(words: str, again_at: float) -> Change:
    """There is none of this name, and none is to be made."""
    return lambda known: replace(known, state="NotFound", message=words, again_at=again_at)


def waits(words: str, again_at: float) -> Change:
    """Nothing can be done for now."""
    return lambda known: replace(known, message=words, again_at=again_at)


def stop_failed(words: str, now: datetime) -> Change:
    """It was tried to stop it, and it may still run."""

    def change(known: ContainerKnown) -> ContainerKnown | None:
        if known.state in FINAL:
            return None
        return replace(known, state="Unknown", message=words, finished_at=known.finished_at or now)

    return change


def gone() -> Change:
    """The engine has it no more, as it was told."""
    return lambda known: replace(known, is_gone=True, message="", again_at=0.0)


def probed(result: HealthProbeResult) -> Change:
    """A probe has found something out."""

    def change(known: ContainerKnown) -> ContainerKnown | None:
        return replace(known, results=_with(known.results, result)) if is_news(known.results, result) else None

    return change


def _with(results: tuple[HealthProbeResult, ...], result: HealthProbeResult) -> tuple[HealthProbeResult, ...]:
    others = [one for one in results if one.probe_name != result.probe_name]
    return tuple(sorted([*others, result], key=lambda one: one.probe_name))


def _with_native(
    results: tuple[HealthProbeResult, ...], health: EngineHealth | None, now: datetime
) -> tuple[HealthProbeResult, ...]:
    """The results with that of the image's own health check."""
    if health is None:
        return tuple(one for one in results if one.probe_name != RUNTIME_PROBE)
    outcome = _OUTCOMES[health.status]
    at = MicroTime.of(health.at or now)
    reason = health.output or f"the health check of the image says {health.status}"
    result = HealthProbeResult(probe_name=RUNTIME_PROBE, outcome=outcome, timestamp=at, reason=reason)  # type: ignore[arg-type]  # one of the three
    return _with(results, result) if is_news(results, result) else results
