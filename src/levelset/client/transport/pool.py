"""Keeps the connections to one server: the idle ones for the next call, and all of them until they are closed."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from levelset.client.transport.http1 import Connection, Exchange
from levelset.errors import ConfigError, Unreachable

__all__ = ["Pool", "PoolLimits"]

CLOSED: Final = "is not talked to any more: the client was closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """What a client allows itself and its server; times are seconds.

    `connections` calls are under way at the same time, and others wait their turn. Streams do not count: they last as
    long as they like, and many watches must not keep a single read waiting. Of the connections that are not in use,
    `idle` are kept, for `idle_within`: less than the minute after which many servers and balancers close theirs.
    `login_within` is how long credentials may take, before the timeout of a call begins: more than a plugin allows a
    person.
    """

    connections: int = 100
    idle: int = 32
    idle_within: float = 50.0
    login_within: float = 600.0
    connect_within: float = 10.0
    close_within: float = 2.0
    head_bytes: int = 256 * 1024
    body_bytes: int = 1024**3
    unread_bytes: int = 1024**2

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0 and name != "idle":
                raise ConfigError(f"PoolLimits.{name} has to be more than 0, not {getattr(self, name)!r}.")


class Pool:
    """The connections to one server. `dial` opens one more, and may raise Unreachable.

    The connection that was used last is used first, so that the others grow old and go.
    """

    def __init__(self, dial: Callable[["Pool"], Awaitable[Connection]], *, server: str, limits: PoolLimits) -> None:
        self.buffer = memoryview(bytearray(256 * 1024))
        self.head_bytes = limits.head_bytes
        self.body_bytes = limits.body_bytes
        self.limits = limits
        self.generation = 0
        self.is_closed = False
        self._dial = dial
        self._server = server
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._dialling: set[asyncio.Timeout] = set()
        self._busy = 0
        self._most_busy = limits.connections
        self._turns: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None

    @property
    def size(self) -> int:
        """How many connections are open."""
        return len(self._all)

    @property
    def idle(self) -> int:
        """How many of them wait for a call."""
        return len(self._idle)

    def exchanges(self) -> list[Exchange]:
        """What is under way and has no answer yet."""
        found = [connection.exchange for connection in self._all]
        return [exchange for exchange in found if exchange is not None and not exchange.answer.done()]

    # --- turns ----------------------------------------------------------------------------------------------------

    def take_turn(self) -> bool:
        """Whether a call may begin at once; then it has to `end_turn`, and otherwise to `wait_turn`."""
        if self._busy >= self._most_busy:
            return False
        self._busy += 1
        return True

    async def wait_turn(self) -> None:
        """Waits until a call may begin; it has to `end_turn`."""
        if self.take_turn():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.end_turn()
            raise

    def end_turn(self) -> None:
        """A call has ended: the next one may begin."""
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._busy -= 1

    # --- connections ----------------------------------------------------------------------------------------------

    def take_nowait(self) -> Connection | None:
        """An idle connection that is still alive, if there is one."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_alive():
                return connection
            connection.abort()
        return None

    async def open(self) -> Connection:
        """A new connection; Unreachable if there is none to be had, TimedOut if not in time."""
        # Whoever dials has a limit of his own; this one is there for `aclose` to pull.
        timeout = asyncio.timeout(None)
        self._dialling.add(timeout)
        try:
            async with timeout:
                connection = await self._dial(self)
            if not connection.is_open:
                raise Unreachable(f"{self._server} closes connections as soon as they are open", is_sent=False)
            self._all.add(connection)
        except TimeoutError:
            if timeout.expired() and self.is_closed:
                raise self.closed_error() from None
            raise
        finally:
            self._dialling.discard(timeout)
            self._look_whether_empty()
        if self.is_closed:
            connection.abort()
            raise self.closed_error()
        return connection

    def give(self, connection: Connection, /) -> None:
        """The connection is free for another call."""
        is_old = connection.generation != self.generation
        if self.is_closed or is_old or len(self._idle) >= self.limits.idle:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._timer is None:
            self._timer = loop.call_later(self.limits.idle_within, self._sweep, loop)

    def forget(self, connection: Connection, /) -> None:
        """The connection is closed."""
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._look_whether_empty()

    def renew(self) -> None:
        """Has every connection replaced by a new one after the call that it is busy with: who asks has changed."""
        self.generation += 1
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    async def aclose(self) -> None:
        """Closes all connections; what is under way fails with Unreachable."""
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.renew()
        self._refuse_turns()
        loop = asyncio.get_running_loop()
        for timeout in self._dialling:
            timeout.reschedule(loop.time())
        for connection in tuple(self._all):
            connection.abandon(CLOSED)
        try:
            async with asyncio.timeout(self.limits.close_within):
                await self._wait_empty()
        except TimeoutError:
            for connection in tuple(self._all):
                connection.abort()
            await self._wait_empty()

    def closed_error(self) -> Unreachable:
        """What a call gets after `aclose`."""
        return Unreachable(f"{self._server} {CLOSED}; make another one.", is_sent=False)

    def _refuse_turns(self) -> None:
        turns, self._turns = self._turns, deque()
        for turn in turns:
            if not turn.done():
                turn.set_exception(self.closed_error())

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Closes the connections that were idle for too long; looks again when the next one will have been."""
        self._timer = None
        before = loop.time() - self.limits.idle_within
        # The list is in the order of age. A timer may ring early by the resolution of the clock.
        while self._idle and self._idle[0].idle_since <= before + 0.001:
            self._idle.pop(0).close()
        if self._idle:
            self._timer = loop.call_at(self._idle[0].idle_since + self.limits.idle_within, self._sweep, loop)

    async def _wait_empty(self) -> None:
        while self._all or self._dialling:
            self._emptied = asyncio.get_running_loop().create_future()
            await self._emptied

    def _look_whether_empty(self) -> None:
        if self._emptied is not None and not self._emptied.done() and not self._all and not self._dialling:
            self._emptied.set_result(None)
