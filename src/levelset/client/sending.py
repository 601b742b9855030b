"""The way of a call from the client to its transport: hooks, retries, warnings, errors.

Hooks see one call for each verb. Below them calls are repeated where that is safe; the wire hooks below that see every
attempt. An answer of 400 or more becomes an exception at the very top, so that hooks see answers as they came.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from levelset.client.calls import Answer, Call, Hook, Send, Transport
from levelset.client.responses import read_error, warnings_of
from levelset.client.retrying import Retries, Retrying
from levelset.errors import ConfigError, Unreachable

__all__ = ["Sender", "WarningLog"]

_log: Final = logging.getLogger("levelset.client")
_MOST_REMEMBERED: Final = 1000


class _Life:
    """What all senders to one transport share: the loop that they belong to, and whether they are closed."""

    __slots__ = ("is_closed", "loop")

    def __init__(self) -> None:
        self.is_closed = False
        self.loop: asyncio.AbstractEventLoop | None = None


class Sender:
    """Sends calls on their way, and turns refusals into exceptions."""

    __slots__ = ("_life", "_on_warning", "_once", "_repeated", "_transport")

    def __init__(
        self,
        transport: Transport,
        *,
        retries: Retries,
        hooks: Sequence[Hook] = (),
        wire_hooks: Sequence[Hook] = (),
        on_warning: Callable[[Call, str], None] | None = None,
    ) -> None:
        self._life = _Life()
        self._transport = transport
        self._on_warning = WarningLog() if on_warning is None else on_warning
        attempt = _chained(wire_hooks, transport.send)
        self._once = _chained(hooks, attempt)
        self._repeated = _chained([*hooks, Retrying(retries)], attempt)

    def hooked(self, hook: Hook) -> "Sender":
        """The same way to the same transport, with one more hook before all others."""
        made = object.__new__(Sender)
        made._transport, made._on_warning, made._life = self._transport, self._on_warning, self._life
        made._once, made._repeated = _chained([hook], self._once), _chained([hook], self._repeated)
        return made

    @property
    def transport(self) -> Transport:
        """What carries the calls."""
        return self._transport

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._life.is_closed

    async def send(self, call: Call, *, is_repeated: bool = True) -> Answer:
        """The answer to a call; ApiError for 400 and more, TimedOut and Unreachable for none."""
        self._check(call)
        answer = await (self._repeated if is_repeated else self._once)(call)
        if answer.headers.find("warning") is not None:
            self._warn(call, answer)
        if answer.status >= 300:
            raise read_error(call, answer)
        return answer

    async def send_plainly(self, call: Call) -> Answer:
        """The answer to a call, whatever its status."""
        self._check(call)
        return await self._repeated(call)

    async def aclose(self) -> None:
        """Closes the transport."""
        self._check_loop("close this client")
        self._life.is_closed = True
        await self._transport.aclose()

    def _warn(self, call: Call, answer: Answer) -> None:
        for text in warnings_of(answer.headers):
            try:
                self._on_warning(call, text)
            except Exception:  # noqa: BLE001 -- what was asked is done, and its answer must not be lost
                _log.exception("on_warning failed", extra={"request": call.words})

    def _check(self, call: Call) -> None:
        """Refuses what cannot work now or later, before anybody waits and tries again."""
        life = self._life
        if life.is_closed:
            raise Unreachable(f"{call.words}: this client is closed; connect another one", is_sent=False)
        if life.loop is not asyncio.get_running_loop():
            self._check_loop(call.words)

    def _check_loop(self, words: str) -> None:
        # The connections of another loop would never answer, and not even a timeout would ring.
        loop = asyncio.get_running_loop()
        if self._life.loop is None:
            self._life.loop = loop
        elif self._life.loop is not loop:
            raise ConfigError(f"{words}: this client belongs to the event loop that used it first; connect another one")


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
        send = _through(hook, send)
    return send


def _through(hook: Hook, send: Send) -> Send:
    """The way through a hook; a plain function, so that a hook costs no coroutine but its own."""
    return lambda call: hook(call, send)
