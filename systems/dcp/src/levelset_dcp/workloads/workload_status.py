"""What the status of Containers, Executables and the like have in common: health, conditions, times and Events."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

from levelset import Condition, Context, Object, set_condition
from levelset.objects import MicroTime
from levelset_dcp.kinds import Container, Executable, HealthProbe, HealthProbeResult, HealthStatus
from levelset_dcp.workloads.health_probes import probes_health
from levelset_dcp.workloads.templates import template_conditions

__all__ = ["StateStatus", "health_of", "micro_time", "state_line", "workload_conditions", "write_state"]

_ENDED: Final = ("Exited", "Finished")


class StateStatus(Protocol):
    """The status of an object that has a state."""

    @property
    def state(self) -> str:
        """status.state; empty before the first reconcile."""
        ...


def health_of(
    state: str, exit_code: int | None, probes: Sequence[HealthProbe], results: Sequence[HealthProbeResult]
) -> HealthStatus:
    """The health of a Container or an Executable, from its state and its probe results."""
    if state == "Running":
        return probes_health([one.name for one in probes], results)
    if state == "FailedToStart" or (state in _ENDED and exit_code):
        return "Unhealthy"
    return "Caution"


def workload_conditions(
    workload: Container | Executable,
    conditions: Iterable[Condition],
    health: HealthStatus,
    *,
    state: str,
    message: str,
    now: datetime,
) -> tuple[Condition, ...]:
    """The conditions with Ready, and with the problems of templates."""
    ready = set_condition(
        conditions,
        "Ready",
        state == "Running" and health == "Healthy",
        now=now,
        reason=state,
        message=message,
        observed_generation=workload.metadata.generation,
    )
    return template_conditions(ready, workload, now)


def micro_time(when: datetime | None) -> MicroTime | None:
    """A time as the status has it."""
    return None if when is None else MicroTime.of(when)


def state_line(name: str, state: str, *, running_as: str, exit_code: int | None, message: str) -> bytes:
    """The line about a new state in the system log of a workload."""
    more = f", {running_as}" if running_as else ""
    more += f", exit code {exit_code}" if exit_code is not None else ""
    more += f": {message}" if message else ""
    return f"{name} is {state}{more}\n".encode()


async def write_state(
    ctx: Context, obj: Object, status: StateStatus, message: str, *, is_warning: bool, first: str = "Pending"
) -> bool:
    """Writes a status; returns whether its state is new, which an Event reports. `first` stands for an empty state."""
    before: Any = getattr(obj, "status", None)
    await ctx.set_status(obj, status)
    if status.state == ("" if before is None else before.state):
        return False
    ctx.record(obj, status.state or first, message, warning=is_warning)
    return True
