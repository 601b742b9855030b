"""The transport to an API server over the network: HTTP/1.1 with a connection pool, TLS, credentials and timeouts."""

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import AbstractContextManager
from typing import Final, TypeVar

from levelset.client.config.config import Config
from levelset.client.config.credentials import TokenFile, static_headers
from levelset.client.transport.deadlines import Deadline, Deadlines
from levelset.client.transport.dialer import dialer_of
from levelset.client.transport.http1 import Connection, Exchange, RequestWriter
from levelset.client.transport.interface import Call, Response
from levelset.client.transport.pool import Pool, PoolLimits
from levelset.client.transport.proxy import authority
from levelset.errors import TimedOut, Unreachable

__all__ = ["SocketTransport"]

_T = TypeVar("_T")

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class SocketTransport:
    """A transport to the server of a `Config`; belongs to the event loop that it is first used in.

    A call is repeated here in two cases only. A pooled connection may turn out to be closed: reads, and requests that
    the server certainly has not read, are sent again on a new one. And after a 401 the credentials are refreshed, once.

    The timeout of a call starts when its credentials are there, and is paused while they are refreshed. Credentials
    have their own limit (`PoolLimits.login_within`): an exec plugin may wait for a user to log in.
    """

    def __init__(self, config: Config, *, limits: PoolLimits | None = None) -> None:
        self.server = config.server
        self._credentials = config.credentials
        self._static_headers = static_headers(config.credentials)
        self._token_file = config.credentials if type(config.credentials) is TokenFile else None
        self._is_secure = config.is_secure
        self._limits = limits or PoolLimits()
        self._max_unread = self._limits.unread_bytes
        dialer = dialer_of(config, pause_deadline=self._pause_deadline)
        self._pool = Pool(dialer.dial, server=config.server, limits=self._limits)
        self._deadlines = Deadlines(self._pool.exchanges)
        self._writer = _writer(config)

    async def send(self, call: Call, /) -> Response:
        """The response of the server, whatever its status; Unreachable (or TimedOut) if there is none."""
        pool, headers = self._pool, self._static_headers
        if pool.is_closed:
            raise pool.closed_error()
        # Before the permit: a call that waits for its credentials must not take the place of others.
        if headers is None:
            headers = (self._token_file and self._token_file.fresh_headers()) or await self._log_in(call)
        loop = asyncio.get_running_loop()
        when = loop.time() + call.timeout
        is_counted = not call.is_stream
        if is_counted and not pool.acquire_nowait():
            await self._wait(call, self._deadlines.start(when), pool.acquire())
        try:
            request, connection = self._writer.write(call, headers), pool.take_nowait()
            is_sent = is_retried = False
            while True:
                if connection is None:
                    connection, when = await self._open(call, when, is_sent=is_sent)
                future: asyncio.Future[Response] = asyncio.Future(loop=loop)
                exchange = Exchange(
                    call, future, connection, self.server, self._max_unread, connection.served > 0, when
                )
                connection.send(request, exchange)
                if when < self._deadlines.next_expiry:
                    self._deadlines.schedule(when)
                is_sent = True
                try:
                    response = await future
                except (asyncio.CancelledError, Unreachable) as error:
                    if not self._is_repeatable(exchange, error):
                        del future, exchange  # they form a reference cycle with the error
                        raise
                    connection = None
                    continue
                if response.status != 401 or is_retried or not self._credentials.reject(headers):
                    return response
                is_retried = True
                headers, when = await self._log_in_again(call, when)
                request, connection = self._writer.write(call, headers), pool.take_nowait()
        finally:
            if is_counted:
                pool.release()

    async def aclose(self) -> None:
        """Closes all connections; calls in flight and open streams end with Unreachable."""
        await self._pool.aclose()
        self._deadlines.expire_paused()
        self._deadlines.close()

    async def _log_in(self, call: Call) -> Mapping[str, str]:
        """The authentication headers, from credentials that have to be awaited."""
        until = asyncio.get_running_loop().time() + self._limits.login_within
        deadline = self._deadlines.start(until, is_paused=True)
        headers = await self._wait(call, deadline, self._credentials.headers())
        if self._pool.is_closed:
            raise self._pool.closed_error()
        return headers

    async def _log_in_again(self, call: Call, when: float) -> tuple[Mapping[str, str], float]:
        """New headers after a 401, and the deadline of the call, which was paused meanwhile."""
        if self._is_secure:
            # A client certificate belongs to its connection: another one needs new connections.
            self._pool.renew()
        deadline = self._deadlines.start(when, is_sent=True)
        return await self._wait(call, deadline, self._new_headers()), deadline.when

    async def _new_headers(self) -> Mapping[str, str]:
        with self._pause_deadline():
            return await self._credentials.headers()

    def _is_repeatable(self, exchange: Exchange, error: asyncio.CancelledError | Unreachable) -> bool:
        """Whether a pooled connection was closed before the server did anything; drops exchanges that are given up."""
        if isinstance(error, asyncio.CancelledError | TimedOut):
            exchange.drop()
            return False
        is_safe = not error.is_sent or (exchange.call.method in _SAFE and not exchange.received)
        return exchange.is_reused and is_safe and not self._pool.is_closed

    async def _open(self, call: Call, when: float, *, is_sent: bool) -> tuple[Connection, float]:
        """A new connection, and the deadline of the call, which may have been paused meanwhile."""
        deadline = self._deadlines.start(when, is_sent=is_sent)
        return await self._wait(call, deadline, self._pool.open()), deadline.when

    async def _wait(self, call: Call, deadline: Deadline, work: Awaitable[_T]) -> _T:
        """Awaits a step that precedes the request, until the deadline at most."""
        try:
            return await work
        except asyncio.CancelledError:
            if deadline.was_cause():
                raise self._too_late(call, deadline) from None
            raise
        finally:
            self._deadlines.stop(deadline)

    def _pause_deadline(self) -> AbstractContextManager[None]:
        return self._deadlines.paused(self._limits.login_within)

    def _too_late(self, call: Call, deadline: Deadline) -> Unreachable:
        if deadline.is_paused:
            if self._pool.is_closed:
                return self._pool.closed_error()
            within = f"within {self._limits.login_within:g} seconds"
            return TimedOut(f"{_words(call)}: no credentials for {self.server} {within}", is_sent=False)
        what = "did not respond" if deadline.is_sent else "was not reached"
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
