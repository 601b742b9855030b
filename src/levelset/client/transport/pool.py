"""The connection pool of one server: idle connections for the next call, and permits that bound concurrent calls."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from levelset.client.transport.http1 import Connection, Exchange
from levelset.errors import ConfigError, Unreachable

__all__ = ["Pool", "PoolLimits"]

CLOSED: Final = "cannot be called any more: the client was closed"


class PoolLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a client's connections; times are seconds.

    At most `connections` calls are in flight; others wait. Streams do not count: they have no end, and many watches
    must not block a single read. Of the unused connections `idle` are pooled, for `idle_within`: less than the minute
    after which many servers and load balancers close theirs. `login_within` bounds how long credentials may take before
    the timeout of a call starts: longer than an exec plugin waits for a user.
    """

    connections: int = 100
    """Calls in flight; further ones wait. Streams do not count."""
    idle: int = 32
    """Unused connections that are pooled."""
    idle_within: float = 50.0
    """How long an unused connection is pooled."""
    login_within: float = 600.0
    """How long credentials may take, before the timeout of a call starts."""
    connect_within: float = 10.0
    """How long a connection with its TLS handshake may take."""
    close_within: float = 2.0
    """How long the closing of a connection may take."""
    head_bytes: int = 256 * 1024
    """The headers of a response; more is an error."""
    body_bytes: int = 1024**3
    """The body of a response that is no stream; more is an error."""
    unread_bytes: int = 1024**2
    """The part of a stream that was received and not read yet; beyond it the client stops reading from the socket."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not getattr(self, name) > 0 and name != "idle":
                raise ConfigError(f"PoolLimits.{name} must be more than 0, not {getattr(self, name)!r}.")


class Pool:
    """The connections to one server. `dial` opens a new one, and may raise Unreachable.

    The most recently used connection is used first, so that surplus ones reach `idle_within` and are closed.
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
        self._max_busy = limits.connections
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None

    @property
    def size(self) -> int:
        """How many connections are open."""
        return len(self._all)

    @property
    def idle(self) -> int:
        """How many of them are idle."""
        return len(self._idle)

    def exchanges(self) -> list[Exchange]:
        """The exchanges in flight that have no response yet."""
        found = [connection.exchange for connection in self._all]
        return [exchange for exchange in found if exchange is not None and not exchange.response.done()]

    # --- permits --------------------------------------------------------------------------------------------------

    def acquire_nowait(self) -> bool:
        """Takes a permit for a call if one is free, to be given back with `release`."""
        if self._busy >= self._max_busy:
            return False
        self._busy += 1
        return True

    async def acquire(self) -> None:
        """Waits for a permit for a call, to be given back with `release`; first come, first served."""
        if self.acquire_nowait():
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.release()
            raise

    def release(self) -> None:
        """Gives a permit back, to the call that has waited longest."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
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
        """A new connection; Unreachable if it cannot be opened, TimedOut if not in time."""
        # The dialer has its own limit; this timeout is what `aclose` triggers.
        timeout = asyncio.timeout(None)
        self._dialling.add(timeout)
        try:
            async with timeout:
                connection = await self._dial(self)
            if not connection.is_open:
                raise Unreachable(f"{self._server} closes connections as soon as they are opened", is_sent=False)
            self._all.add(connection)
        except TimeoutError:
            if timeout.expired() and self.is_closed:
                raise self.closed_error() from None
            raise
        finally:
            self._dialling.discard(timeout)
            self._notify_if_empty()
        if self.is_closed:
            connection.abort()
            raise self.closed_error()
        return connection

    def put_back(self, connection: Connection, /) -> None:
        """Takes back a connection that is free for another call."""
        is_old = connection.generation != self.generation
        if self.is_closed or is_old or len(self._idle) >= self.limits.idle:
            connection.close()
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._timer is None:
            self._timer = loop.call_later(self.limits.idle_within, self._sweep, loop)

    def remove(self, connection: Connection, /) -> None:
        """Removes a connection that is closed."""
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._notify_if_empty()

    def renew(self) -> None:
        """Replaces every connection after the call it is busy with: the client certificate has changed."""
        self.generation += 1
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    async def aclose(self) -> None:
        """Closes all connections; calls in flight fail with Unreachable."""
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.renew()
        self._reject_waiters()
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
        """The error of calls after `aclose`."""
        return Unreachable(f"{self._server} {CLOSED}; connect another one.", is_sent=False)

    def _reject_waiters(self) -> None:
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(self.closed_error())

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Closes the connections that were idle for too long, and runs again when the next one will have been."""
        self._timer = None
        before = loop.time() - self.limits.idle_within
        # Sorted by age. A timer may fire early by the resolution of the clock.
        while self._idle and self._idle[0].idle_since <= before + 0.001:
            self._idle.pop(0).close()
        if self._idle:
            self._timer = loop.call_at(self._idle[0].idle_since + self.limits.idle_within, self._sweep, loop)

    async def _wait_empty(self) -> None:
        while self._all or self._dialling:
            self._emptied = asyncio.get_running_loop().create_future()
            await self._emptied

    def _notify_if_empty(self) -> None:
        if self._emptied is not None and not self._emptied.done() and not self._all and not self._dialling:
            self._emptied.set_result(None)
