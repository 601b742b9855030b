"""What a reconcile function returns (`Action`), and the recorded result of a reconcile (`Outcome`)."""

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from levelset.objects.ref import Ref
from levelset.runtime.controller.request import Reason

__all__ = ["Action", "Outcome", "Result", "await_change", "requeue"]

K_co = TypeVar("K_co", covariant=True)

Result = Literal["done", "requeued", "failed", "conflict", "gave_up", "timed_out", "gone", "retry"]
"""How a reconcile ended; see `Outcome`."""

_MINUTE: Final = 60.0
_HOUR: Final = 3600.0


class Action(msgspec.Struct, frozen=True, gc=False):
    """When to reconcile again: `after` so many seconds, or when something changes (None).

    `priority` is that of the next request; None keeps the priority of this one.
    """

    after: float | None = None
    priority: int | None = None

    def __str__(self) -> str:
        if self.after is None:
            return "await a change"
        return f"requeue after {round(self.after, 1 if self.after >= 1 else 3):.10g} s"


_AWAIT_CHANGE: Final = Action()


def requeue(
    seconds: float | None = None,
    *,
    minutes: float | None = None,
    hours: float | None = None,
    priority: int | None = None,
) -> Action:
    """Reconcile again after this time, or sooner if something changes; `requeue(0)` is immediately.

    It counts as a success: it resets the backoff of the object. TypeError without a time, or if it is not a number.
    """
    given = {"seconds": seconds, "minutes": minutes, "hours": hours}
    _check_times(given)
    after = (seconds or 0.0) + (minutes or 0.0) * _MINUTE + (hours or 0.0) * _HOUR
    if not 0 <= after < math.inf:
        raise ValueError(f"requeue after {after} s: give a finite time, 0 or more")
    return Action(after, priority)


def _check_times(given: Mapping[str, object]) -> None:
    """Raises TypeError, with what to write instead, unless there is a time and all times are numbers."""
    if all(value is None for value in given.values()):
        raise TypeError(
            "requeue() needs a time: write requeue(30), requeue(minutes=5), or requeue(0) for immediately; "
            "return await_change() to wait for a change, or raise Retry() to try again with backoff"
        )
    for name, value in given.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            shown = repr(value) if name == "seconds" else f"{name}={value!r}"
            way = f"requeue({value.total_seconds():g})" if isinstance(value, timedelta) else "requeue(minutes=5)"
            raise TypeError(f"requeue({shown}): a time is a number of seconds, minutes= or hours=: write {way}")


def await_change() -> Action:
    """Reconcile again when something changes; the same as returning None."""
    return _AWAIT_CHANGE


class Outcome(msgspec.Struct, Generic[K_co], frozen=True):
    """The outcome of one reconcile.

    `result` is one of `done`, `requeued` (it returned `requeue(...)`), `retry` (it raised Retry), `failed`,
    `timed_out`, `conflict` (another writer was first: not a failure), `gave_up` (it raised GiveUp), and `gone` (the
    object does not exist). `action` is when the object is reconciled again, and `error` what was raised. `seconds` is
    how long the reconcile took, `waited` how long the request had been due before a worker took it. `at` is when it
    ended, on the loop's clock.
    """

    # No gc=False here: an error holds the frames it was raised through, and these may hold the outcome.

    ref: Ref[K_co]
    result: Result
    action: Action
    error: Exception | None
    seconds: float
    reasons: tuple[Reason, ...]
    attempt: int = 0
    waited: float = 0.0
    at: float = 0.0

    @property
    def is_error(self) -> bool:
        """Whether it counts as a failure."""
        return self.result in {"failed", "timed_out", "gave_up"}

    def __str__(self) -> str:
        detail: Any = self.error or self.action
        return f"{self.ref}: {self.result}, {detail}"
