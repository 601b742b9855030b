"""What a reconcile function returns (`Action`), and the recorded result of a reconcile (`Outcome`)."""

import math
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
        return "await a change" if self.after is None else f"requeue after {self.after:g} s"


_AWAIT_CHANGE: Final = Action()


def requeue(seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0, priority: int | None = None) -> Action:
    """Reconcile again after this time, or sooner if something changes; `requeue()` is immediately.

    It counts as a success: it resets the backoff of the object.
    """
    after = seconds + minutes * _MINUTE + hours * _HOUR
    if not 0 <= after < math.inf:
        raise ValueError(f"requeue after {after} s: give a finite time, 0 or more")
    return Action(after, priority)


def await_change() -> Action:
    """Reconcile again when something changes; the same as returning None."""
    return _AWAIT_CHANGE


class Outcome(msgspec.Struct, Generic[K_co], frozen=True):
    """The outcome of one reconcile.

    `result` is one of `done`, `requeued` (it returned `requeue(...)`), `retry` (it raised Retry), `failed`,
    `timed_out`, `conflict` (another writer was first: not a failure), `gave_up` (it raised GiveUp), and `gone` (the
    object does not exist). `action` is when the object is reconciled again, and `error` what was raised. `seconds` is
    how long the reconcile took, `waited` how long the request had been due before a worker took it.
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

    @property
    def is_error(self) -> bool:
        """Whether it counts as a failure."""
        return self.result in {"failed", "timed_out", "gave_up"}

    def __str__(self) -> str:
        detail: Any = self.error or self.action
        return f"{self.ref}: {self.result}, {detail}"
