"""Turns the outcome of a reconcile into the next action: retry with backoff, requeue after a conflict, or stop.

- `GiveUp` is permanent: no retry until the object changes.
- `Retry` is retried after its `seconds`, or like a failure if it names none.
- A conflict (409) is not counted as a failure: it is retried quickly, and the next reconcile reads the object from the
  API server instead of the cache, which may still hold the version that lost.
- Every other exception is a failure: exponential backoff per object, reset by the first success. `on_error` may choose
  another action.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

from levelset.aio.backoff import Backoff
from levelset.errors import AlreadyExists, ApplyConflict, BadObject, Conflict, GiveUp, Retry, TooManyRequests
from levelset.objects.ref import Ref
from levelset.runtime.controller.actions import Action, Result, await_change
from levelset.runtime.controller.request import Request
from levelset.runtime.queue import DEFAULT_BACKOFF, FailureCounts

__all__ = [
    "CONFLICT_BACKOFF",
    "ConflictTracker",
    "Delay",
    "ErrorHandler",
    "ErrorPolicy",
    "ObjectReader",
    "classify",
    "minimum_delay",
    "unwrap_group",
]

ErrorPolicy = Callable[[Any, Exception, Request[Any]], Action | None]
"""Chooses the action after a failure, given the cached object, the error and the request; None keeps the backoff."""

Delay = Backoff | Callable[[int], float]
"""How long a failing object waits: a Backoff, or a function from the number of earlier failures to seconds."""

CONFLICT_BACKOFF: Final = Backoff(first=0.15, factor=1.5, cap=5.0, jitter=0.67, quiet=None)
"""The delay after a conflict: 50 to 150 milliseconds at first, at most 5 seconds, with no limit to their number."""

_MAX_TRACKED: Final = 10_000

_log = logging.getLogger(__name__)


class ObjectReader(Protocol):
    """A store, or several that are read as one."""

    def get(self, of: Ref[Any], /) -> Any:
        """The cached object, or None."""
        ...


class ErrorHandler:
    """Keeps the failure count of each object and decides when a failed object is reconciled again."""

    def __init__(
        self,
        *,
        conflicts: "ConflictTracker",
        store: "ObjectReader",
        backoff: Delay = DEFAULT_BACKOFF,
        on_error: ErrorPolicy | None = None,
    ) -> None:
        self.failures: FailureCounts[Ref[Any]] = FailureCounts(backoff)
        self.retrying: set[Ref[Any]] = set()
        """Objects whose last reconcile failed or met a conflict; the worker skips the bookkeeping for all others."""
        self.read_live: set[Ref[Any]] = set()
        """Objects whose reconcile met a conflict: read once from the API server, then dropped from here."""
        self._conflicts = conflicts
        self._on_error = on_error
        self._store = store

    def record_success(self, ref: Ref[Any]) -> None:
        """Resets the backoff of an object: the next failure counts as the first."""
        if ref in self.retrying:
            self.retrying.discard(ref)
            self.failures.forget(ref)
            self._conflicts.reset_delay(ref)

    def forget(self, ref: Ref[Any]) -> None:
        """Drops everything about an object that is gone."""
        self.record_success(ref)
        self.read_live.discard(ref)

    def next_action(self, error: Exception, request: Request[Any], *, now: float) -> tuple[Result, Action]:
        """The result of a reconcile that raised, and when the object is reconciled again; counts a failure."""
        error, ref = unwrap_group(error), request.ref
        result = classify(error)
        self.retrying.add(ref)
        match result:
            case "gave_up":
                self.record_success(ref)
                return result, await_change()
            case "conflict":
                self.read_live.add(ref)
                return result, Action(self._conflicts.next_delay(ref))
            case "retry":
                return result, Action(self._retry(error, ref, now))
            case _:
                return result, self._after_failure(error, request, now)

    def _retry(self, error: Exception, ref: Ref[Any], now: float) -> float:
        seconds = error.seconds if isinstance(error, Retry) else None
        if seconds is None:
            return self.failures.next_delay(ref, now)
        self.record_success(ref)
        return max(0.0, seconds)

    def _after_failure(self, error: Exception, request: Request[Any], now: float) -> Action:
        self._conflicts.reset_delay(request.ref)
        delay = max(self.failures.next_delay(request.ref, now), minimum_delay(error))
        chosen = None if self._on_error is None else self._call_policy(self._on_error, error, request)
        return Action(delay) if chosen is None else chosen

    def _call_policy(self, policy: ErrorPolicy, error: Exception, request: Request[Any]) -> Action | None:
        try:
            return policy(self._cached_object(request.ref), error, request)
        except Exception as raised:  # noqa: BLE001 -- user code must not end the worker; the backoff applies
            _log.error("%s: on_error raised, the default backoff applies: %s", request.ref, raised, exc_info=raised)
            return None

    def _cached_object(self, ref: Ref[Any]) -> Any:
        try:
            return self._store.get(ref)
        except BadObject:
            return None


class ConflictTracker:
    """The objects whose cached version lost a conflict, and the backoff of reconciles that met one.

    An object whose write met a conflict is stale until the next write to it that does not: a success, or an error of
    another kind. At most `most` objects are tracked; one that is evicted is merely read from the cache again.
    """

    __slots__ = ("_backoff", "_most", "_waits", "stale")

    def __init__(self, backoff: Backoff = CONFLICT_BACKOFF, *, most: int = _MAX_TRACKED) -> None:
        self._backoff = backoff
        self._most = most
        self.stale: dict[Ref[Any], None] = {}
        """Objects to read from the API server; always the same dict, so that hot paths may hold on to it."""
        self._waits: dict[Ref[Any], int] = {}

    def __contains__(self, ref: object) -> bool:
        """Whether an object must be read from the API server."""
        return ref in self.stale

    def __len__(self) -> int:
        """How many objects must be read from the API server."""
        return len(self.stale)

    def mark_stale(self, ref: Ref[Any]) -> None:
        """Records that a write to the object met a conflict."""
        _put(self.stale, ref, None, self._most)

    def clear_stale(self, ref: Ref[Any]) -> None:
        """Records that a write to the object met no conflict: reads may use the cache again."""
        if self.stale:
            self.stale.pop(ref, None)

    def record_failed_write(self, ref: Ref[Any], error: Exception) -> None:
        """Records a failed write: a conflict makes the object stale, any other error does not."""
        if isinstance(error, Conflict):
            self.mark_stale(ref)
        else:
            self.clear_stale(ref)

    def next_delay(self, ref: Ref[Any]) -> float:
        """The seconds until the next reconcile after one more conflict; counts it."""
        failures = self._waits.pop(ref, 0)
        _put(self._waits, ref, failures + 1, self._most)
        return self._backoff.delay(failures)

    def reset_delay(self, ref: Ref[Any]) -> None:
        """Resets the backoff after a reconcile without a conflict."""
        if self._waits:
            self._waits.pop(ref, None)

    def forget(self, ref: Ref[Any]) -> None:
        """Drops everything about an object that is gone."""
        self.clear_stale(ref)
        self.reset_delay(ref)


def classify(error: Exception) -> Result:
    """The result of a reconcile that raised this error.

    AlreadyExists and ApplyConflict are 409s too, but they are failures: reading the object again does not resolve them.
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


def minimum_delay(error: Exception) -> float:
    """The seconds that the API server requires (Retry-After of a 429); 0 if it does not."""
    return error.retry_after or 0.0 if isinstance(error, TooManyRequests) else 0.0


def unwrap_group(error: Exception) -> Exception:
    """The error to classify: one leaf of an ExceptionGroup if all its leaves have the same result, else the group."""
    leaves = _leaves(error)
    results = {classify(one) for one in leaves}
    if results == {"retry"}:
        return min(leaves, key=_retry_seconds)
    return leaves[0] if len(results) == 1 and results != {"failed"} else error


def _leaves(error: Exception) -> list[Exception]:
    if not isinstance(error, ExceptionGroup):
        return [error]
    inner: Sequence[Exception] = cast("ExceptionGroup[Exception]", error).exceptions
    return [leaf for one in inner for leaf in _leaves(one)]


def _retry_seconds(error: Exception) -> float:
    seconds = error.seconds if isinstance(error, Retry) else None
    return float("inf") if seconds is None else seconds


def _put(table: dict[Ref[Any], Any], ref: Ref[Any], value: Any, most: int) -> None:
    table.pop(ref, None)
    while len(table) >= most:
        del table[next(iter(table))]
    table[ref] = value
