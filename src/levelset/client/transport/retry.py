"""Retries calls that failed for a passing reason, where a second attempt is safe.

| outcome | retried |
|---|---|
| 429, 503 | every call: the server did nothing |
| the request cannot have arrived (`Unreachable.is_sent` is False) | every call |
| 502, 504, a connection that broke before the response | reads only: a write may have happened |
| anything else, also a timeout | never |

Retry-After is obeyed. An eviction that is refused with 429 is not retried: a PodDisruptionBudget refused it, and it is
the caller who decides to wait. Watches have their own backoff and are never retried here.
"""

from typing import Final

import msgspec

from levelset.aio import timing
from levelset.aio.backoff import Backoff
from levelset.client.responses import seconds_of
from levelset.client.transport.interface import Call, Response, Send
from levelset.errors import TimedOut, Unreachable

__all__ = ["FIRST_RETRYABLE", "Retries", "RetryHook", "is_retryable"]

_NOT_PROCESSED: Final = frozenset({429, 503})
_MAYBE_PROCESSED: Final = frozenset({502, 504})
_READS: Final = frozenset({"get", "list"})
FIRST_RETRYABLE: Final = min(_NOT_PROCESSED | _MAYBE_PROCESSED)
"""No status below this one is ever retried."""


class Retries(msgspec.Struct, frozen=True, kw_only=True):
    """The retry policy of a client: at most `attempts` attempts, with `backoff`; `Retries(attempts=1)` never retries.

    All attempts together take no longer than the timeout of the call: if the next wait does not fit, the outcome of the
    last attempt is final.
    """

    attempts: int = 5
    """The number of attempts, the first one included."""
    backoff: Backoff = Backoff(first=0.2, cap=10.0)
    """The delays between them, each at least as long as the Retry-After of the server."""

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"Retries(attempts={self.attempts}): attempts must be at least 1")


class RetryHook:
    """The hook that retries calls."""

    __slots__ = ("_retries",)

    def __init__(self, retries: Retries) -> None:
        self._retries = retries

    async def __call__(self, call: Call, send: Send) -> Response:
        """The first response that is not to be retried, or the outcome of the last attempt."""
        deadline = timing.now() + call.timeout
        outcome: Response | Unreachable
        try:
            outcome = await send(call)
        except Unreachable as error:
            outcome = error
        else:
            if outcome.status < FIRST_RETRYABLE:  # the usual case
                return outcome
        return await self.resume(call, send, outcome, deadline)

    async def resume(self, call: Call, send: Send, outcome: Response | Unreachable, deadline: float) -> Response:
        """Retries after a first attempt with this outcome; starts no attempt beyond the deadline."""
        if not is_retryable(call, outcome):
            return _result_of(outcome)
        delays = self._retries.backoff.delays()
        for _ in range(self._retries.attempts - 1):
            wait = max(next(delays), _retry_after(outcome))
            left = deadline - timing.now() - wait
            if left <= 0:
                break
            await timing.sleep(wait)
            outcome = await _try(msgspec.structs.replace(call, timeout=left), send)
            if not is_retryable(call, outcome):
                break
        return _result_of(outcome)


async def _try(call: Call, send: Send) -> Response | Unreachable:
    try:
        return await send(call)
    except Unreachable as error:
        return error


def _retry_after(outcome: Response | Unreachable) -> float:
    """The seconds of the Retry-After header, 0 without one."""
    return 0.0 if isinstance(outcome, Unreachable) else seconds_of(outcome.headers) or 0.0


def _result_of(outcome: Response | Unreachable) -> Response:
    if isinstance(outcome, Unreachable):
        raise outcome
    return outcome


def is_retryable(call: Call, outcome: Response | Unreachable) -> bool:
    """Whether a call with this outcome can be sent again without taking effect twice."""
    is_read = call.verb in _READS
    if isinstance(outcome, Unreachable):
        return not outcome.is_sent or (is_read and not isinstance(outcome, TimedOut))
    if outcome.status == 429 and call.path.endswith("/eviction"):
        return False
    return outcome.status in _NOT_PROCESSED or (is_read and outcome.status in _MAYBE_PROCESSED)
