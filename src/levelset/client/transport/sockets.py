"""Carries calls to a server over HTTP/1.1: connections that are kept, TLS, credentials, and an end to every wait."""

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import AbstractContextManager
from typing import Final, TypeVar

from levelset.client.config.config import Config
from levelset.client.config.credentials import TokenFile, lasting_headers
from levelset.client.transport.deadlines import Deadline, Deadlines
from levelset.client.transport.dialer import Dialer
from levelset.client.transport.http1 import Connection, Exchange, RequestWriter
from levelset.client.transport.interface import Answer, Call
from levelset.client.transport.pool import Pool, PoolLimits
from levelset.client.transport.proxy import authority
from levelset.errors import TimedOut, Unreachable

__all__ = ["SocketTransport"]

_T = TypeVar("_T")

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class SocketTransport:
    """A transport to the server of a `Config`; belongs to the event loop that it is first used in.

    A call is repeated here in two cases only. A connection that was kept may turn out to be closed: what only reads, or
    surely was not read by the server, goes out again on a new one. And after a 401 the credentials are asked for
    something better, once.

    The timeout of a call begins when its credentials are there, and does not run while others are got for it. They have
    limits of their own: a program that asks a person to log in takes its time.
    """

    def __init__(self, config: Config, *, limits: PoolLimits | None = None) -> None:
        self.server = config.server
        self._credentials = config.credentials
        self._known = lasting_headers(config.credentials)
        self._file = config.credentials if type(config.credentials) is TokenFile else None
        self._is_secure = config.is_secure
        self._limits = limits or PoolLimits()
        self._room = self._limits.unread_bytes
        dialer = Dialer(config, aside=self._aside)
        self._pool = Pool(dialer.dial, server=config.server, limits=self._limits)
        self._deadlines = Deadlines(self._pool.exchanges)
        self._writer = _writer(config)

    async def send(self, call: Call, /) -> Answer:
        """The server's answer, whatever its status; Unreachable (or TimedOut) if there is none."""
        pool, headers = self._pool, self._known
        if pool.is_closed:
            raise pool.closed_error()
        # Before the turn, too: nobody needs one who does not know yet who he is.
        if headers is None:
            headers = (self._file and self._file.fresh_headers()) or await self._log_in(call)
        loop = asyncio.get_running_loop()
        when = loop.time() + call.timeout
        is_counted = not call.is_stream
        if is_counted and not pool.take_turn():
            await self._wait(call, self._deadlines.start(when), pool.wait_turn())
        try:
            request, connection = self._writer.write(call, headers), pool.take_nowait()
            is_sent = is_again = False
            while True:
                if connection is None:
                    connection, when = await self._open(call, when, is_sent=is_sent)
                coming: asyncio.Future[Answer] = asyncio.Future(loop=loop)
                exchange = Exchange(call, coming, connection, self.server, self._room, connection.served > 0, when)
                connection.ask(request, exchange)
                if when < self._deadlines.rings:
                    self._deadlines.look_at(when)
                is_sent = True
                try:
                    answer = await coming
                except (asyncio.CancelledError, Unreachable) as error:
                    if not self._is_repeatable(exchange, error):
                        del coming, exchange  # they know the error, and it knows them
                        raise
                    connection = None
                    continue
                if answer.status != 401 or is_again or not self._credentials.reject(headers):
                    return answer
                is_again = True
                headers, when = await self._log_in_again(call, when)
                request, connection = self._writer.write(call, headers), pool.take_nowait()
        finally:
            if is_counted:
                pool.end_turn()

    async def aclose(self) -> None:
        """Closes all connections; calls and streams that are still under way end with Unreachable."""
        await self._pool.aclose()
        self._deadlines.end_still()
        self._deadlines.close()

    async def _log_in(self, call: Call) -> Mapping[str, str]:
        """The headers that say who asks."""
        until = asyncio.get_running_loop().time() + self._limits.login_within
        deadline = self._deadlines.start(until, is_still=True)
        headers = await self._wait(call, deadline, self._credentials.headers())
        if self._pool.is_closed:
            raise self._pool.closed_error()
        return headers

    async def _log_in_again(self, call: Call, when: float) -> tuple[Mapping[str, str], float]:
        """Better headers than those that were refused, and until when the call now has time."""
        if self._is_secure:
            # A certificate is shown once for a connection: another one needs another connection.
            self._pool.renew()
        deadline = self._deadlines.start(when, is_sent=True)
        return await self._wait(call, deadline, self._new_headers()), deadline.when

    async def _new_headers(self) -> Mapping[str, str]:
        with self._aside():
            return await self._credentials.headers()

    def _is_repeatable(self, exchange: Exchange, error: asyncio.CancelledError | Unreachable) -> bool:
        """Whether a connection that was kept was closed before the server did anything; who gave up lets go of his."""
        if isinstance(error, asyncio.CancelledError | TimedOut):
            exchange.drop()
            return False
        is_safe = not error.is_sent or (exchange.call.method in _SAFE and not exchange.received)
        return exchange.is_reused and is_safe and not self._pool.is_closed

    async def _open(self, call: Call, when: float, *, is_sent: bool) -> tuple[Connection, float]:
        """A new connection, and until when the call now has time: the clock may have stood still meanwhile."""
        deadline = self._deadlines.start(when, is_sent=is_sent)
        return await self._wait(call, deadline, self._pool.open()), deadline.when

    async def _wait(self, call: Call, deadline: Deadline, work: Awaitable[_T]) -> _T:
        """Waits for whatever comes before the answer, until the deadline at most."""
        try:
            return await work
        except asyncio.CancelledError:
            if deadline.was_cause():
                raise self._too_late(call, deadline) from None
            raise
        finally:
            self._deadlines.stop(deadline)

    def _aside(self) -> AbstractContextManager[None]:
        return self._deadlines.still(self._limits.login_within)

    def _too_late(self, call: Call, deadline: Deadline) -> Unreachable:
        if deadline.is_still:
            if self._pool.is_closed:
                return self._pool.closed_error()
            within = f"within {self._limits.login_within:g} seconds"
            return TimedOut(f"{_words(call)}: the credentials for {self.server} did not come {within}", is_sent=False)
        what = "did not answer" if deadline.is_sent else "was not reached"
        text = f"{_words(call)}: {self.server} {what} within {call.timeout:g} seconds"
        return TimedOut(text, is_sent=deadline.is_sent)


def _words(call: Call) -> str:
    return call.words or f"{call.method} {call.path}"


def _writer(config: Config) -> RequestWriter:
    default = 443 if config.is_secure else 80
    host = authority(config.host, config.port)
    host = host.removesuffix(f":{default}") if config.port == default else host
    fixed = (("User-Agent", "levelset"), ("Accept", "application/json"))
    impersonation = config.impersonate.headers() if config.impersonate else ()
    return RequestWriter(host, path=config.path, fixed=(*fixed, *impersonation))
