"""Carries calls to a server over HTTP/1.1: connections that are kept, TLS, credentials, and an end to every wait."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final

from levelset.client.calls import Answer, Call
from levelset.client.config import Config
from levelset.client.connection import Connection
from levelset.client.credentials import lasting_headers
from levelset.client.deadlines import Deadline, Deadlines
from levelset.client.dialing import Dialer
from levelset.client.exchange import Exchange
from levelset.client.pool import Pool, PoolLimits
from levelset.client.proxying import authority
from levelset.client.wire import RequestWriter
from levelset.errors import TimedOut, Unreachable

__all__ = ["SocketTransport"]

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
        self._is_secure = config.is_secure
        self._limits = limits or PoolLimits()
        self._deadlines = Deadlines()
        dialer = Dialer(config, aside=self._aside)
        self._pool = Pool(dialer.dial, server=config.server, limits=self._limits)
        self._writer = _writer(config)

    async def send(self, call: Call, /) -> Answer:
        """The server's answer, whatever its status; Unreachable (or TimedOut) if there is none."""
        pool = self._pool
        if pool.is_closed:
            raise pool.closed_error()
        headers = self._known
        deadline = self._deadlines.start(self._limits.login_within if headers is None else call.timeout)
        try:
            # Before the turn, too: nobody needs one who does not know yet who he is.
            if headers is None:
                headers = await self._log_in(call, deadline)
            is_counted = not call.is_stream
            if is_counted and not pool.take_turn():
                await pool.wait_turn()
            try:
                answer = await self._exchange(call, self._writer.write(call, headers), deadline)
                return answer if answer.status != 401 else await self._ask_again(call, headers, answer, deadline)
            finally:
                if is_counted:
                    pool.end_turn()
        except asyncio.CancelledError:
            if deadline.was_cause():
                raise self._too_late(call, deadline) from None
            raise
        finally:
            self._deadlines.stop(deadline)

    async def aclose(self) -> None:
        """Closes all connections; calls and streams that are still under way end with Unreachable."""
        await self._pool.aclose()
        self._deadlines.end_still()
        self._deadlines.close()

    async def _log_in(self, call: Call, deadline: Deadline) -> Mapping[str, str]:
        """The headers that say who asks; the time of the call begins when they are there."""
        deadline.is_still = True
        headers = await self._credentials.headers()
        if self._pool.is_closed:
            raise self._pool.closed_error()
        deadline.is_still = False
        self._deadlines.move(deadline, call.timeout)
        return headers

    async def _ask_again(self, call: Call, headers: Mapping[str, str], answer: Answer, deadline: Deadline) -> Answer:
        """What comes after a 401: the answer to better credentials, if there are any."""
        if not self._credentials.reject(headers):
            return answer
        if self._is_secure:
            # A certificate is shown once for a connection: another one needs another connection.
            self._pool.renew()
        with self._aside():
            headers = await self._credentials.headers()
        return await self._exchange(call, self._writer.write(call, headers), deadline)

    async def _exchange(self, call: Call, request: bytes, deadline: Deadline) -> Answer:
        kept = self._pool.take_nowait()
        if kept is not None:
            exchange = self._begin(call, kept, request, deadline)
            try:
                return await exchange.answer
            except asyncio.CancelledError:
                exchange.drop()
                raise
            except Unreachable as error:
                is_repeatable = not error.is_sent or (call.method in _SAFE and not exchange.received)
                if not is_repeatable or self._pool.is_closed:
                    raise
        exchange = self._begin(call, await self._pool.open(), request, deadline)
        try:
            return await exchange.answer
        except asyncio.CancelledError:
            exchange.drop()
            raise

    def _begin(self, call: Call, connection: Connection, request: bytes, deadline: Deadline) -> Exchange:
        room = self._limits.unread_bytes
        exchange = Exchange(call, connection, server=self.server, is_reused=connection.served > 0, room=room)
        deadline.is_sent = True
        connection.ask(request, exchange)
        return exchange

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
