"""The way of a call from the client to its transport: hooks, retries, warnings, errors.

Hooks see one call for each verb. Below them calls are repeated where that is safe; the wire hooks below that see every
attempt. An answer of 400 or more becomes an exception at the very top, so that hooks see answers as they came.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from levelset.client.calls import Answer, Call, Hook, Send, Transport
from levelset.client.responses import read_error, warnings_of
from levelset.client.retrying import Retries, Retrying

__all__ = ["Sender", "WarningLog"]

_log: Final = logging.getLogger("levelset.client")
_MOST_REMEMBERED: Final = 1000


class Sender:
    """Sends calls on their way, and turns refusals into exceptions."""

    __slots__ = ("_on_warning", "_once", "_repeated", "_transport")

    def __init__(
        self,
        transport: Transport,
        *,
        retries: Retries,
        hooks: Sequence[Hook] = (),
        wire_hooks: Sequence[Hook] = (),
        on_warning: Callable[[Call, str], None] | None = None,
    ) -> None:
        self._transport = transport
        self._on_warning = WarningLog() if on_warning is None else on_warning
        attempt = _chained(wire_hooks, transport.send)
        self._once = _chained(hooks, attempt)
        self._repeated = _chained([*hooks, Retrying(retries)], attempt)

    async def send(self, call: Call, *, is_repeated: bool = True) -> Answer:
        """The answer to a call; ApiError for 400 and more, TimedOut and Unreachable for none."""
        answer = await (self._repeated if is_repeated else self._once)(call)
        if "warning" in answer.headers:
            for text in warnings_of(answer.headers):
                self._on_warning(call, text)
        if answer.status >= 300:
            raise read_error(call, answer)
        return answer

    async def send_plainly(self, call: Call) -> Answer:
        """The answer to a call, whatever its status."""
        return await self._repeated(call)

    async def aclose(self) -> None:
        """Closes the transport."""
        await self._transport.aclose()


class WarningLog:
    """Logs each distinct warning of a server once."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __call__(self, call: Call, text: str) -> None:
        """Logs the warning unless it was logged before."""
        if text in self._seen:
            return
        if len(self._seen) >= _MOST_REMEMBERED:
            self._seen.clear()
        self._seen.add(text)
        _log.warning("the server warns", extra={"request": call.words, "warning": text})


def _chained(hooks: Sequence[Hook], send: Send) -> Send:
    for hook in reversed(hooks):
        send = partial(_through, hook, send)
    return send


async def _through(hook: Hook, send: Send, call: Call) -> Answer:
    return await hook(call, send)
