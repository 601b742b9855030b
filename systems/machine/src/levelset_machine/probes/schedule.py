"""Periodic probing: the schedule, and the health that follows from the thresholds."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from levelset import replace
from levelset.aio import timing
from levelset.errors import ConfigError
from levelset_machine.probes.prober import Check, Outcome, Prober, ProbeResult

__all__ = ["Health", "ProbeSchedule", "ProbeStatus", "probe_periodically"]

Health = Literal["passing", "failing", "unknown"]
"""The health of a program."""


class ProbeSchedule(Struct, frozen=True, kw_only=True):
    """How often a check runs, and the thresholds for its results; times in seconds, with the defaults of Kubernetes.

    The first check runs after `initial_delay`, and then one starts every `period` seconds; one that took longer than
    that is followed by the next at once. With `until_success`, probing ends when the program first passes.
    """

    initial_delay: float = 0.0
    period: float = 10.0
    timeout: float = 1.0
    success_threshold: int = 1
    failure_threshold: int = 3
    until_success: bool = False

    def __post_init__(self) -> None:
        self._require(self.initial_delay >= 0, "initial_delay", "0 seconds or more")
        self._require(self.period > 0, "period", "more than 0 seconds")
        self._require(self.timeout > 0, "timeout", "more than 0 seconds")
        self._require(self.success_threshold >= 1, "success_threshold", "1 or more")
        self._require(self.failure_threshold >= 1, "failure_threshold", "1 or more")

    def _require(self, holds: bool, field: str, rule: str) -> None:
        if not holds:
            raise ConfigError(f"ProbeSchedule({field}={getattr(self, field)!r}): {field} must be {rule}")


class ProbeStatus(Struct, frozen=True, kw_only=True):
    """The state of a probe: the health of the program, and the number of consecutive equal outcomes.

    The health changes when a threshold is reached. An Unknown outcome neither counts nor resets the number.
    """

    health: Health = "unknown"
    consecutive: int = 0
    last: Outcome | None = None

    def after(self, result: ProbeResult, schedule: ProbeSchedule) -> "ProbeStatus":
        """The status after one more result."""
        if result.outcome == "Unknown":
            return self
        consecutive = self.consecutive + 1 if result.outcome == self.last else 1
        counted = replace(self, consecutive=consecutive, last=result.outcome)
        if result.outcome == "Success":
            return replace(counted, health="passing") if consecutive >= schedule.success_threshold else counted
        return replace(counted, health="failing") if consecutive >= schedule.failure_threshold else counted


async def probe_periodically(
    prober: Prober,
    check: Check,
    schedule: ProbeSchedule,
    on_result: Callable[[ProbeResult, ProbeStatus], None],
    *,
    start: ProbeStatus | None = None,
) -> None:
    """Runs a check on schedule, and calls `on_result` with each result and the status after it.

    Runs until it is cancelled, or until success with `until_success`. `start` is the status before the first check.
    """
    status = ProbeStatus() if start is None else start
    due = timing.now() + schedule.initial_delay
    while True:
        await timing.sleep_until(due)
        due = timing.now() + schedule.period
        result = await prober.probe(check, timeout=schedule.timeout)
        status = status.after(result, schedule)
        on_result(result, status)
        if schedule.until_success and status.health == "passing":
            return
