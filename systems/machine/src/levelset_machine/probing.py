"""Checks that are repeated: how often, and how many verdicts in a row it takes to believe them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from levelset.aio import timing
from levelset.errors import ConfigError
from levelset_machine.probes import Check, Outcome, Prober, Verdict

__all__ = ["Pace", "Standing", "Tally", "keep_probing"]

Standing = Literal["passing", "failing", "unknown"]
"""What is believed of a program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often a check is made, and what it takes to believe it; the defaults are those of Kubernetes.

    The first check comes after `initial_delay`, and then one begins every `period` seconds; one that took longer than
    that is followed by the next at once. With `until_success` the first time that the program passes is the last.
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
            raise ConfigError(f"Pace({field}={getattr(self, field)!r}): {field} must be {rule}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The verdicts so far: what is believed, and how many equal verdicts in a row there are.

    Belief changes when there are as many as the threshold in a row. A verdict that is Unknown says nothing: it neither
    counts nor interrupts a row. What is believed before the first check is for the caller to say.
    """

    standing: Standing = "unknown"
    row: int = 0
    last: Outcome | None = None

    def after(self, verdict: Verdict, pace: Pace) -> "Tally":
        """The tally with one more verdict."""
        if verdict.outcome == "Unknown":
            return self
        row = self.row + 1 if verdict.outcome == self.last else 1
        counted = replace(self, row=row, last=verdict.outcome)
        if verdict.outcome == "Success":
            return replace(counted, standing="passing") if row >= pace.success_threshold else counted
        return replace(counted, standing="failing") if row >= pace.failure_threshold else counted


async def keep_probing(
    prober: Prober,
    check: Check,
    pace: Pace,
    tell: Callable[[Verdict, Tally], None],
    *,
    start: Tally | None = None,
) -> None:
    """Makes a check again and again, and tells each verdict and what is believed after it.

    It ends by being cancelled, or with `until_success`. `start` is what is believed before the first check.
    """
    tally = Tally() if start is None else start
    due = timing.now() + pace.initial_delay
    while True:
        await timing.sleep_until(due)
        due = timing.now() + pace.period
        verdict = await prober.probe(check, timeout=pace.timeout)
        tally = tally.after(verdict, pace)
        tell(verdict, tally)
        if pace.until_success and tally.standing == "passing":
            return
