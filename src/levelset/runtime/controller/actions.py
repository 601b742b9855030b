"""What a reconciler answers, when to look again; and what came of a look, for those who watch."""

import math
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from levelset.objects.ref import Ref
from levelset.runtime.controller.request import Reason

__all__ = ["Action", "Outcome", "Result", "await_change", "requeue"]

K_co = TypeVar("K_co", covariant=True)

Result = Literal["done", "requeued", "failed", "conflict", "gave_up", "timed_out", "gone", "retry"]
"""How a look ended; see `Outcome`."""

_MINUTE: Final = 60.0
_HOUR: Final = 3600.0


class Action(msgspec.Struct, frozen=True, gc=False):
    """When to look again: `after` so many seconds, or when something changes (None).

    `priority` is that of the next look; None keeps the one that this look had.
    """

    after: float | None = None
    priority: int | None = None

    def __str__(self) -> str:
        return "await a change" if self.after is None else f"look again after {self.after:g} s"


_AWAIT_CHANGE: Final = Action()


def requeue(seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0, priority: int | None = None) -> Action:
    """Look again after this time, or sooner if something changes.

    A plain delay: it is no failure, and the next failure waits as long as a first one. `requeue()` is at once.
    """
    after = seconds + minutes * _MINUTE + hours * _HOUR
    if not 0 <= after < math.inf:
        raise ValueError(f"requeue after {after} s: give a finite time, 0 or more")
    return Action(after, priority)


def await_change() -> Action:
    """Look again when something changes; the same as returning None."""
    return _AWAIT_CHANGE


class Outcome(msgspec.Struct, Generic[K_co], frozen=True):
    """What came of one look at an object.

    `result` is in a word what happened: `done`, `requeued` (the reconciler wants to look again), `retry` (it raised
    Retry), `failed`, `timed_out`, `conflict` (somebody else wrote first: no failure), `gave_up` (it raised GiveUp), or
    `gone` (there is no such object). `action` says when the object is looked at again, whoever decided so, and `error`
    is what was raised. `waited` is how long the request was due before it was taken up.
    """

    # No gc=False here: an error holds the frames that it came through, and these may hold the outcome.

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
        said: Any = self.error or self.action
        return f"{self.ref}: {self.result}, {said}"
