"""The way of a call from the client to its transport: hooks, retries, warnings, errors.

Hooks see one call for each verb. Below them calls are repeated where that is safe; the wire hooks below that see every
attempt. An answer of 400 or more becomes an exception at the very top, so that hooks see answers as they came.

Where nobody but guards, and behind them tallies, stands in between, a call goes to the transport directly: the guards
are asked before, and what came of it is added to the tallies. It is the same, in one coroutine.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final

from levelset.aio.timing import clock_of
from levelset.client.responses import read_error, warnings_of
from levelset.client.transport.interface import Answer, Call, Guard, Hook, Send, Tally, Transport
from levelset.client.transport.retry import TROUBLE, Retries, Retrying
from levelset.errors import ConfigError, Unreachable

__all__ = ["Sender", "WarningLog"]

_log: Final = logging.getLogger("levelset.client")
_MOST_REMEMBERED: Final = 1000


class _Life:
    """What all senders to one transport share: the loop that they belong to, its clock, and whether they are closed."""

    __slots__ = ("is_closed", "loop", "now")

    def __init__(self) -> None:
        self.is_closed = False
        self.loop: asyncio.AbstractEventLoop | None = None
        self.now: Callable[[], float] = _no_time


class Sender:
    """Sends calls on their way, and turns refusals into exceptions."""

    __slots__ = (
        "_attempt",
        "_checks",
        "_direct",
        "_hooks",
        "_life",
        "_on_warning",
        "_once",
        "_repeated",
        "_retrying",
        "_tallies",
        "_transport",
        "_wire_hooks",
    )

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
        self._retrying = Retrying(retries)
        self._wire_hooks = tuple(wire_hooks)
        self._attempt = _chained(wire_hooks, transport.send)
        self._lay(tuple(hooks), transport.send)

    def hooked(self, hook: Hook) -> "Sender":
        """The same way to the same transport, with one more hook before all others."""
        made = object.__new__(Sender)
        made._transport, made._on_warning, made._life = self._transport, self._on_warning, self._life
        made._retrying, made._wire_hooks, made._attempt = self._retrying, self._wire_hooks, self._attempt
        made._lay((hook, *self._hooks), self._direct)
        return made

    def _lay(self, hooks: tuple[Hook, ...], direct: Send | None) -> None:
        """Lays the ways through the hooks, and past them if they allow it: guards, and inside of them tallies only."""
        self._hooks = hooks
        self._once = _chained(hooks, self._attempt)
        self._repeated = _chained([*hooks, self._retrying], self._attempt)
        guards = list(takewhile(lambda one: isinstance(one, Guard), hooks))
        inner = (*hooks[len(guards) :], *self._wire_hooks)
        self._checks = tuple(one.check for one in guards if isinstance(one, Guard))
        self._tallies = _tallies(inner)
        self._direct = direct if len(self._tallies) == len(inner) else None

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
        life, direct = self._life, self._direct
        if life.is_closed or life.loop is not asyncio.get_running_loop():
            self._check(call)
        if direct is None or not is_repeated:
            return self._judged(call, await (self._repeated if is_repeated else self._once)(call))
        for check in self._checks:
            check(call)
        deadline = life.now() + call.timeout
        outcome: Answer | Unreachable
        try:
            outcome = answer = await direct(call)
        except Unreachable as error:
            outcome = error
        except BaseException:
            _count(self._tallies, call, None)
            raise
        else:
            status = answer.status
            if status < TROUBLE:  # as nearly always
                for tally in self._tallies:
                    tally.counts[status, call.method, tally.label] += 1  # as `add`, without a call
                is_plain = status < 300 and answer.headers.find("warning") is None
                return answer if is_plain else self._judged(call, answer)
        return self._judged(call, await self._go_on(call, outcome, deadline))

    async def send_plainly(self, call: Call) -> Answer:
        """The answer to a call, whatever its status."""
        self._check(call)
        return await self._repeated(call)

    async def aclose(self) -> None:
        """Closes the transport."""
        self._check_loop("close this client")
        self._life.is_closed = True
        await self._transport.aclose()

    async def _go_on(self, call: Call, outcome: Answer | Unreachable, deadline: float) -> Answer:
        """What comes of a call that went directly and led to this: wire hooks see each attempt, the others the end."""
        _count(_tallies(self._wire_hooks), call, None if isinstance(outcome, Unreachable) else outcome.status)
        status: int | None = None
        try:
            answer = await self._retrying.go_on(call, self._attempt, outcome, deadline)
            status = answer.status
            return answer
        finally:
            _count(_tallies(self._hooks), call, status)

    def _judged(self, call: Call, answer: Answer) -> Answer:
        """The answer, once its warnings are told; ApiError if it is a refusal."""
        if answer.headers.find("warning") is not None:
            self._warn(call, answer)
        if answer.status >= 300:
            raise read_error(call, answer)
        return answer

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
            self._life.loop, self._life.now = loop, clock_of(loop)
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


def _no_time() -> float:
    raise ConfigError("no loop has been seen yet, whose clock could be asked")


def _tallies(hooks: Sequence[Hook]) -> tuple[Tally, ...]:
    return tuple(one for one in hooks if isinstance(one, Tally))


def _count(tallies: Sequence[Tally], call: Call, status: int | None) -> None:
    for tally in tallies:
        tally.add(call, status)


def _chained(hooks: Sequence[Hook], send: Send) -> Send:
    for hook in reversed(hooks):
        send = _through(hook, send)
    return send


def _through(hook: Hook, send: Send) -> Send:
    """The way through a hook; a plain function, so that a hook costs no coroutine but its own."""
    return lambda call: hook(call, send)
