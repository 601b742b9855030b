"""Asks again what a server could not answer just now, and only what is safe to ask twice.

| what happened | asked again |
|---|---|
| 429, 503 | every call: the server says that it did nothing |
| the request cannot have arrived (`Unreachable.is_sent` is False) | every call |
| 502, 504, a connection that broke before the answer | reads only: a write may have happened |
| anything else, and an answer that did not come in time | never |

A Retry-After is obeyed. An eviction that is refused (429) is refused by a disruption budget, which is the caller's to
wait for; a watch has a backoff of its own and is never asked again here.
"""

from typing import Final

import msgspec

from levelset.aio import timing
from levelset.aio.backoff import Backoff
from levelset.client.responses import seconds_of
from levelset.client.transport.interface import Answer, Call, Send
from levelset.errors import TimedOut, Unreachable

__all__ = ["TROUBLE", "Retries", "Retrying", "may_repeat"]

_DID_NOTHING: Final = frozenset({429, 503})
_UNCLEAR: Final = frozenset({502, 504})
_READS: Final = frozenset({"get", "list"})
TROUBLE: Final = min(_DID_NOTHING | _UNCLEAR)
"""No status below this one is ever a reason to ask again."""


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """How often a call is made at most, and how long to wait between: `Retries(attempts=1)` never repeats.

    All attempts together take no longer than the call's own timeout: a wait that does not fit is not begun, and what
    the last attempt led to is the outcome.
    """

    attempts: int = 5
    backoff: Backoff = Backoff(first=0.2, cap=10.0)

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"Retries(attempts={self.attempts}): a call is made at least once")


class Retrying:
    """The hook that repeats calls."""

    __slots__ = ("_retries",)

    def __init__(self, retries: Retries) -> None:
        self._retries = retries

    async def __call__(self, call: Call, send: Send) -> Answer:
        """The first answer that is one, or what the last attempt led to."""
        deadline = timing.now() + call.timeout
        outcome: Answer | Unreachable
        try:
            outcome = await send(call)
        except Unreachable as error:
            outcome = error
        else:
            if outcome.status < TROUBLE:  # as nearly always
                return outcome
        return await self.go_on(call, send, outcome, deadline)

    async def go_on(self, call: Call, send: Send, outcome: Answer | Unreachable, deadline: float) -> Answer:
        """The same after a first attempt that led to this; no attempt is begun that would go beyond the deadline."""
        if not may_repeat(call, outcome):
            return _told(outcome)
        delays = self._retries.backoff.delays()
        for _ in range(self._retries.attempts - 1):
            wait = max(next(delays), _wanted(outcome))
            left = deadline - timing.now() - wait
            if left <= 0:
                break
            await timing.sleep(wait)
            outcome = await _try(msgspec.structs.replace(call, timeout=left), send)
            if not may_repeat(call, outcome):
                break
        return _told(outcome)


async def _try(call: Call, send: Send) -> Answer | Unreachable:
    try:
        return await send(call)
    except Unreachable as error:
        return error


def _wanted(outcome: Answer | Unreachable) -> float:
    """The seconds that the server wants to be left alone."""
    return 0.0 if isinstance(outcome, Unreachable) else seconds_of(outcome.headers) or 0.0


def _told(outcome: Answer | Unreachable) -> Answer:
    if isinstance(outcome, Unreachable):
        raise outcome
    return outcome


def may_repeat(call: Call, outcome: Answer | Unreachable) -> bool:
    """Whether a call that ended like this can be made again without doing anything twice."""
    is_read = call.verb in _READS
    if isinstance(outcome, Unreachable):
        return not outcome.is_sent or (is_read and not isinstance(outcome, TimedOut))
    if outcome.status == 429 and call.path.endswith("/eviction"):
        return False
    return outcome.status in _DID_NOTHING or (is_read and outcome.status in _UNCLEAR)
