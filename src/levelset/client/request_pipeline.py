"""The request pipeline of a client: hooks, retries, wire hooks, transport; then warnings and errors.

Hooks see one call per verb. Below them calls are retried where that is safe (`transport/retry.py`), and the wire hooks
below that see every attempt. A `Guard` checks every attempt: what was allowed a moment ago may be refused now. A status
of 300 or more becomes an exception at the top, so hooks see plain responses.

Fast path: if there are only `Guard`s, followed by `CallCounter`s, a call goes directly to the transport. The checks run
before and the counters after it, which has the same effect in a single coroutine.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import takewhile
from typing import Final

from levelset.aio.timing import clock_of
from levelset.client.responses import read_error, warnings_of
from levelset.client.transport.interface import Call, CallCounter, CallTap, Guard, Hook, Response, Send, Transport
from levelset.client.transport.retry import FIRST_RETRYABLE, Retries, RetryHook
from levelset.errors import ConfigError, Unreachable

__all__ = ["RequestPipeline", "WarningLog"]

_log: Final = logging.getLogger("levelset.client")
_MAX_REMEMBERED: Final = 1000


class _SharedState:
    """The state that all pipelines to one transport share: loop, clock, whether they are closed, and their taps."""

    __slots__ = ("is_closed", "loop", "now", "tap", "taps")

    def __init__(self) -> None:
        self.is_closed = False
        self.taps: list[CallTap] = []
        self.tap: CallTap | None = None  # the only one of `taps`, or all of them as one
        self.loop: asyncio.AbstractEventLoop | None = None
        self.now: Callable[[], float] = _no_time


class RequestPipeline:
    """Sends calls through hooks and retries to a transport, and raises ApiError for error responses."""

    __slots__ = (
        "_attempt",
        "_checks",
        "_counters",
        "_direct",
        "_guarded",
        "_hooks",
        "_on_warning",
        "_once",
        "_repeated",
        "_retrying",
        "_state",
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
        self._state = _SharedState()
        self._transport = transport
        self._on_warning = WarningLog() if on_warning is None else on_warning
        self._retrying = RetryHook(retries)
        self._wire_hooks = tuple(wire_hooks)
        self._attempt = _chained(wire_hooks, transport.send)
        self._build_chains(tuple(hooks), transport.send)

    def with_hook(self, hook: Hook) -> "RequestPipeline":
        """The same pipeline to the same transport with one more hook, before all others."""
        derived = object.__new__(RequestPipeline)
        derived._transport, derived._on_warning, derived._state = self._transport, self._on_warning, self._state
        derived._retrying, derived._wire_hooks, derived._attempt = self._retrying, self._wire_hooks, self._attempt
        derived._build_chains((hook, *self._hooks), self._direct)
        return derived

    def _build_chains(self, hooks: tuple[Hook, ...], direct: Send | None) -> None:
        """Builds the chains through the hooks, and the direct path if there are only guards, then counters."""
        self._hooks = hooks
        self._once = _chained(hooks, self._attempt)
        self._guarded = _chained([one for one in hooks if isinstance(one, Guard)], self._attempt)
        self._repeated = _chained([*hooks, self._retrying], self._guarded)
        guards = list(takewhile(lambda one: isinstance(one, Guard), hooks))
        inner = (*hooks[len(guards) :], *self._wire_hooks)
        self._checks = tuple(one.check for one in guards if isinstance(one, Guard))
        self._counters = _counters(inner)
        self._direct = direct if len(self._counters) == len(inner) else None

    @property
    def transport(self) -> Transport:
        """The transport that sends the calls."""
        return self._transport

    @property
    def is_closed(self) -> bool:
        """Whether the transport is closed."""
        return self._state.is_closed

    def attach(self, tap: CallTap) -> CallTap | None:
        """Has this tap, too, see each call of all pipelines to the same transport; returns all taps as one."""
        return self._set_taps([*self._state.taps, tap])

    def detach(self, tap: CallTap) -> CallTap | None:
        """Has this tap see no further call; returns the remaining taps as one, None if there is none."""
        return self._set_taps([one for one in self._state.taps if one is not tap])

    def _set_taps(self, taps: list[CallTap]) -> CallTap | None:
        # A call that is under way ends at the taps at which it has begun: `send` holds on to them.
        self._state.taps = taps
        self._state.tap = _Taps(taps) if len(taps) > 1 else taps[0] if taps else None
        return self._state.tap

    async def send(self, call: Call, *, is_repeated: bool = True) -> Response:
        """Sends a call and returns its response; ApiError for 300 and more, Unreachable or TimedOut for none."""
        state, direct = self._state, self._direct
        if state.is_closed or state.loop is not asyncio.get_running_loop():
            self._check(call)
        tap = state.tap
        begun = None if tap is None else tap.begin_call(call)
        try:
            if direct is None or not is_repeated:
                response = await (self._repeated if is_repeated else self._once)(call)
            else:
                for check in self._checks:
                    check(call)
                deadline = state.now() + call.timeout
                outcome: Response | Unreachable
                try:
                    outcome = await direct(call)
                except Unreachable as error:
                    outcome = error
                except BaseException:
                    _count(self._counters, call, None)
                    raise
                if isinstance(outcome, Response) and (status := outcome.status) < FIRST_RETRYABLE:  # the usual case
                    response = outcome
                    for counter in self._counters:
                        counter.counts[status, call.method, counter.label] += 1  # `add`, inlined
                else:
                    response = await self._continue(call, outcome, deadline)
        except BaseException as error:
            if begun is not None and tap is not None:
                tap.end_call(begun, error)
            raise
        is_plain = response.status < 300 and response.headers.find("warning") is None
        if begun is not None and tap is not None:
            tap.end_call(begun, response, is_plain)
        return response if is_plain else self._checked(call, response)

    async def send_raw(self, call: Call, *, is_repeated: bool = True) -> Response:
        """Sends a call and returns its response, whatever its status."""
        self._check(call)
        tap, send = self._state.tap, self._repeated if is_repeated else self._once
        begun = None if tap is None else tap.begin_call(call)
        if tap is None or begun is None:
            return await send(call)
        try:
            response = await send(call)
        except BaseException as error:
            tap.end_call(begun, error)
            raise
        tap.end_call(begun, response)
        return response

    async def aclose(self) -> None:
        """Closes the transport."""
        self._check_loop("close this client")
        self._state.is_closed = True
        await self._transport.aclose()

    async def _continue(self, call: Call, outcome: Response | Unreachable, deadline: float) -> Response:
        """Continues a direct call after this outcome: wire counters count each attempt, the others the result."""
        _count(_counters(self._wire_hooks), call, None if isinstance(outcome, Unreachable) else outcome.status)
        status: int | None = None
        try:
            response = await self._retrying.resume(call, self._guarded, outcome, deadline)
            status = response.status
            return response
        finally:
            _count(_counters(self._hooks), call, status)

    def _checked(self, call: Call, response: Response) -> Response:
        """Reports the warnings of a response and returns it; ApiError if it is an error."""
        if response.headers.find("warning") is not None:
            self._warn(call, response)
        if response.status >= 300:
            raise read_error(call, response)
        return response

    def _warn(self, call: Call, response: Response) -> None:
        for text in warnings_of(response.headers):
            try:
                self._on_warning(call, text)
            except Exception:  # noqa: BLE001 -- the request has succeeded, and its response must not be lost
                _log.exception("on_warning failed", extra={"request": call.words})

    def _check(self, call: Call) -> None:
        """Fails early what no retry can make work: a closed client, or another event loop."""
        state = self._state
        if state.is_closed:
            raise Unreachable(f"{call.words}: this client is closed; connect another one", is_sent=False)
        if state.loop is not asyncio.get_running_loop():
            self._check_loop(call.words)

    def _check_loop(self, words: str) -> None:
        # Connections of another loop would never respond, and not even a timeout would fire.
        loop = asyncio.get_running_loop()
        if self._state.loop is None:
            self._state.loop, self._state.now = loop, clock_of(loop)
        elif self._state.loop is not loop:
            raise ConfigError(f"{words}: this client belongs to the event loop that used it first; connect another one")


class _Taps:
    """Several taps as one."""

    __slots__ = ("_taps",)

    def __init__(self, taps: Sequence[CallTap]) -> None:
        self._taps = tuple(taps)

    def begin_call(self, call: Call) -> tuple[object | None, ...] | None:
        """The values of all taps; None if no tap is interested in the call."""
        begun = tuple([tap.begin_call(call) for tap in self._taps])
        return None if all(one is None for one in begun) else begun

    def end_call(
        self, begun: tuple[object | None, ...], outcome: Response | BaseException, is_plain: bool = False
    ) -> None:
        """Ends the call at the taps that were interested in it."""
        for tap, one in zip(self._taps, begun, strict=True):
            if one is not None:
                tap.end_call(one, outcome, is_plain)

    def discover(self, read: Callable[[], Awaitable[None]]) -> Awaitable[None]:
        """Awaits `read` inside of all taps."""
        for tap in self._taps:
            read = partial(tap.discover, read)
        return read()


class WarningLog:
    """Logs each distinct warning of the server once, except those that are expected."""

    __slots__ = ("_expected", "_seen")

    def __init__(self, expected: Iterable[str] = ()) -> None:
        self._expected = frozenset(expected)
        self._seen: set[str] = set()

    def __call__(self, call: Call, text: str) -> None:
        """Logs the warning unless it is expected or was logged before."""
        if text in self._seen or text in self._expected:
            return
        if len(self._seen) >= _MAX_REMEMBERED:
            self._seen.clear()
        self._seen.add(text)
        _log.warning("warning from the API server", extra={"request": call.words, "warning": text})


def _no_time() -> float:
    raise ConfigError("the client has not been used in an event loop yet")


def _counters(hooks: Sequence[Hook]) -> tuple[CallCounter, ...]:
    return tuple(one for one in hooks if isinstance(one, CallCounter))


def _count(counters: Sequence[CallCounter], call: Call, status: int | None) -> None:
    for counter in counters:
        counter.add(call, status)


def _chained(hooks: Sequence[Hook], send: Send) -> Send:
    for hook in reversed(hooks):
        send = _through(hook, send)
    return send


def _through(hook: Hook, send: Send) -> Send:
    """Sends through a hook. A plain function, so that a hook costs no coroutine but its own."""
    return lambda call: hook(call, send)
