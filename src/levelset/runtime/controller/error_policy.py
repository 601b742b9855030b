"""What comes after a look that failed: when the object is looked at again, and how often it has failed by now.

What an error means for the next look: try again, wait longer each time, read anew, or leave it.

Objects that somebody else wrote first: they are read from the server once, and tried again after a short while.

A conflict is no failure. It only says that what was read is old, and that is cured by reading anew.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from levelset.aio.backoff import Backoff
from levelset.errors import AlreadyExists, ApplyConflict, BadObject, Conflict, GiveUp, Retry, TooManyRequests
from levelset.objects.ref import Ref
from levelset.runtime.cache import Store
from levelset.runtime.controller.actions import Action, Result, await_change
from levelset.runtime.controller.request import Request
from levelset.runtime.queue import TRANSIENT, Failures

__all__ = ["BACKOFF", "Answering", "Conflicts", "Delay", "ErrorPolicy", "essence", "judge", "least_delay"]

ErrorPolicy = Callable[[Any, Exception, Request[Any]], Action | None]
"""Decides about an error of the reconciler, given the object and the request; None leaves it to the growing delay."""

Delay = Backoff | Callable[[int], float]
"""How long a failing object waits: a Backoff, or a function from the number of earlier failures to seconds."""


def judge(error: Exception) -> Result:
    """What an error is for the controller, in a word.

    `conflict` is cured by reading anew, `retry` and `gave_up` were asked for, and `failed` is everything else: also a
    name that is taken and a conflict of managers, which reading anew does not cure and somebody has to hear of.
    """
    match error:
        case Retry():
            return "retry"
        case GiveUp():
            return "gave_up"
        case Conflict() if not isinstance(error, AlreadyExists | ApplyConflict):
            return "conflict"
        case _:
            return "failed"


def least_delay(error: Exception) -> float:
    """How long a server has asked us to wait; 0 if it has not."""
    return error.retry_after or 0.0 if isinstance(error, TooManyRequests) else 0.0


def essence(error: Exception) -> Exception:
    """The error to judge: for a group (of a TaskGroup, say) that tells the same in several ways, one of them."""
    leaves = _leaves(error)
    results = {judge(one) for one in leaves}
    if results == {"retry"}:
        return min(leaves, key=_patience)
    return leaves[0] if len(results) == 1 and results != {"failed"} else error


def _leaves(error: Exception) -> list[Exception]:
    if not isinstance(error, ExceptionGroup):
        return [error]
    inner: Sequence[Exception] = cast("ExceptionGroup[Exception]", error).exceptions
    return [leaf for one in inner for leaf in _leaves(one)]


def _patience(error: Exception) -> float:
    seconds = error.seconds if isinstance(error, Retry) else None
    return float("inf") if seconds is None else seconds


BACKOFF: Final = Backoff(first=0.15, factor=1.5, cap=5.0, jitter=0.67, quiet=None)
"""The wait after a conflict: 50 to 150 milliseconds at first, at most 5 seconds, for as long as it takes."""

_MOST: Final = 10_000


class Conflicts:
    """Which objects must be read from the server, and how long a reconcile that met a conflict waits.

    An object whose write was refused is stale until the next write to it that is not refused: a success, or an error of
    another kind. A look that writes nothing leaves it as it is. At most `most` objects are remembered; one that is
    forgotten is only read from the cache again.
    """

    __slots__ = ("_backoff", "_most", "_waits", "stale")

    def __init__(self, backoff: Backoff = BACKOFF, *, most: int = _MOST) -> None:
        self._backoff = backoff
        self._most = most
        self.stale: dict[Ref[Any], None] = {}
        """The objects that must be read from the server; always the same table, for who looks at it very often."""
        self._waits: dict[Ref[Any], int] = {}

    def __contains__(self, ref: object) -> bool:
        """Whether an object must be read from the server."""
        return ref in self.stale

    def __len__(self) -> int:
        """How many objects must be read from the server."""
        return len(self.stale)

    def note(self, ref: Ref[Any]) -> None:
        """A write to this object was refused because somebody else wrote first."""
        _put(self.stale, ref, None, self._most)

    def settle(self, ref: Ref[Any]) -> None:
        """A write to this object was not refused: the cache will do again."""
        if self.stale:
            self.stale.pop(ref, None)

    def learn(self, ref: Ref[Any], error: Exception) -> None:
        """A write to this object has failed: because somebody else wrote first, or for a reason of another kind."""
        if isinstance(error, Conflict):
            self.note(ref)
        else:
            self.settle(ref)

    def delay(self, ref: Ref[Any]) -> float:
        """How long the reconcile of this object waits after one more conflict; there is no limit to their number."""
        failures = self._waits.pop(ref, 0)
        _put(self._waits, ref, failures + 1, self._most)
        return self._backoff.delay(failures)

    def calm(self, ref: Ref[Any]) -> None:
        """A reconcile of this object met no conflict: the next one waits as a first one does."""
        if self._waits:
            self._waits.pop(ref, None)

    def forget(self, ref: Ref[Any]) -> None:
        """The object is gone."""
        self.settle(ref)
        self.calm(ref)


def _put(table: dict[Ref[Any], Any], ref: Ref[Any], value: Any, most: int) -> None:
    table.pop(ref, None)
    while len(table) >= most:
        del table[next(iter(table))]
    table[ref] = value


_log = logging.getLogger(__name__)


class Answering:
    """Turns errors into actions, and remembers the failures of each object until one look succeeds.

    A conflict is no failure: it has short delays of its own, and the next look reads from the server.
    """

    def __init__(
        self,
        *,
        conflicts: Conflicts,
        store: Store[Any],
        backoff: Delay = TRANSIENT,
        on_error: ErrorPolicy | None = None,
    ) -> None:
        self.failures: Failures[Ref[Any]] = Failures(backoff)
        self.troubled: set[Ref[Any]] = set()
        """The objects whose last look did not go well; all others need not be asked about."""
        self.stale: set[Ref[Any]] = set()
        """The objects to be read from the server next time, and then no more."""
        self._conflicts = conflicts
        self._on_error = on_error
        self._store = store

    def succeed(self, ref: Ref[Any]) -> None:
        """The look was no failure: the next failure is a first one."""
        if ref in self.troubled:
            self.troubled.discard(ref)
            self.failures.forget(ref)
            self._conflicts.calm(ref)

    def forget(self, ref: Ref[Any]) -> None:
        """The object is gone."""
        self.succeed(ref)
        self.stale.discard(ref)

    def answer(self, error: Exception, request: Request[Any], *, now: float) -> tuple[Result, Action]:
        """What the error is, and when to look again because of it."""
        error, ref = essence(error), request.ref
        result = judge(error)
        self.troubled.add(ref)
        match result:
            case "gave_up":
                self.succeed(ref)
                return result, await_change()
            case "conflict":
                self.stale.add(ref)
                return result, Action(self._conflicts.delay(ref))
            case "retry":
                return result, Action(self._retry(error, ref, now))
            case _:
                return result, self._after_failure(error, request, now)

    def _retry(self, error: Exception, ref: Ref[Any], now: float) -> float:
        seconds = error.seconds if isinstance(error, Retry) else None
        if seconds is None:
            return self.failures.next_delay(ref, now)
        self.succeed(ref)
        return max(0.0, seconds)

    def _after_failure(self, error: Exception, request: Request[Any], now: float) -> Action:
        self._conflicts.calm(request.ref)
        delay = max(self.failures.next_delay(request.ref, now), least_delay(error))
        chosen = None if self._on_error is None else self._ask(self._on_error, error, request)
        return Action(delay) if chosen is None else chosen

    def _ask(self, policy: ErrorPolicy, error: Exception, request: Request[Any]) -> Action | None:
        try:
            return policy(self._peek(request.ref), error, request)
        except Exception as raised:  # noqa: BLE001 -- the policy is the user's; the growing delay stands in for it
            _log.error("%s: the error policy itself has failed: %s", request.ref, raised, exc_info=raised)
            return None

    def _peek(self, ref: Ref[Any]) -> Any:
        try:
            return self._store.get(ref)
        except BadObject:
            return None
