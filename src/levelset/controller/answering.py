"""What comes after a look that failed: when the object is looked at again, and how often it has failed by now."""

import logging
from typing import Any

from levelset.cache import Store
from levelset.controller.actions import Action, Result, await_change
from levelset.controller.conflicts import Conflicts
from levelset.controller.policies import Delay, ErrorPolicy, essence, judge, least_delay
from levelset.controller.requests import Request
from levelset.errors import BadObject, Retry
from levelset.objects.identity import Ref
from levelset.schedule import TRANSIENT, Failures

__all__ = ["Answering"]

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
