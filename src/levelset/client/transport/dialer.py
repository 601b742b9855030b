"""Opens connections to the servers of a Config: TCP, optionally through a proxy, optionally with TLS."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import cast

from msgspec.structs import replace

from levelset.client.config.config import Config
from levelset.client.config.tls import ClientTls
from levelset.client.transport.http1 import Connection
from levelset.client.transport.pool import Pool
from levelset.client.transport.proxy import Proxy, Tunnel
from levelset.errors import TimedOut, Unreachable

__all__ = ["Dialer", "FailoverDialer", "dialer_of"]


def dialer_of(
    config: Config, *, pause_deadline: Callable[[], AbstractContextManager[None]] = nullcontext
) -> "Dialer | FailoverDialer":
    """What opens the connections to the server, or the servers, of a Config."""
    servers = [replace(config, server=one, servers=()) for one in (config.server, *config.servers)]
    dialers = [Dialer(one, pause_deadline=pause_deadline) for one in servers]
    return dialers[0] if len(dialers) == 1 else FailoverDialer(dialers)


class FailoverDialer:
    """Opens connections to one of several servers of a cluster: that of the last one, until it cannot be reached.

    All of them together have `PoolLimits.connect_within`. Connections that are open stay where they are.
    """

    __slots__ = ("_current", "_dialers")

    def __init__(self, dialers: "Sequence[Dialer]") -> None:
        self._dialers = dialers
        self._current = 0

    async def dial(self, pool: Pool) -> Connection:
        """A new connection for `pool`; raises Unreachable with the reasons of all servers."""
        reasons: list[str] = []
        within = pool.limits.connect_within / len(self._dialers)
        for _ in self._dialers:
            number = self._current
            try:
                return await self._dialers[number].dial(pool, within)
            except Unreachable as error:
                reasons.append(str(error))
                if self._current == number:  # another call may have moved on meanwhile
                    self._current = (number + 1) % len(self._dialers)
        raise Unreachable("; ".join(reasons), is_sent=False)


class Dialer:
    """Opens connections to one server. Failures raise Unreachable with `is_sent=False`.

    The client certificate is fetched inside `pause_deadline()`: the timeout of the waiting call does not run there.
    """

    __slots__ = ("_config", "_pause_deadline", "_proxy", "_proxy_tls", "_tls")

    def __init__(
        self, config: Config, *, pause_deadline: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        self._config = config
        self._pause_deadline = pause_deadline
        self._proxy = None if config.proxy is None else Proxy.parse(config.proxy)
        self._tls = ClientTls(config) if config.is_secure else None
        # The certificate of a proxy is verified with the system's authorities, not with the cluster's.
        is_hidden = self._proxy is not None and self._proxy.is_secure
        self._proxy_tls = ClientTls(Config(server=self._proxy.url)) if self._proxy and is_hidden else None

    async def dial(self, pool: Pool, within: float | None = None) -> Connection:
        """A new connection for `pool`, `within` seconds or those of its limits."""
        try:
            # First: fetching the client certificate has its own limit, and is not part of `connect_within`.
            context = None if self._tls is None else await self._context(self._tls)
            async with asyncio.timeout(within or pool.limits.connect_within):
                return await self._connect(Connection(pool, pool.generation), context, pool.limits.close_within)
        except Unreachable:
            raise
        except TimeoutError as error:
            raise self._too_late(error) from error
        except (OSError, UnicodeError) as error:
            raise Unreachable(f"{self._config.server} {_describe(error)}", is_sent=False) from error

    async def _context(self, tls: ClientTls) -> ssl.SSLContext:
        with self._pause_deadline():
            return await tls.context()

    async def _connect(self, connection: Connection, context: ssl.SSLContext | None, close_within: float) -> Connection:
        config = self._config
        name = None if self._tls is None else self._tls.server_name
        # TLS ends with a message from both sides; a server that sends none is waited for only so long.
        wait = close_within if context is not None else None
        loop = asyncio.get_running_loop()
        if self._proxy is None:
            await loop.create_connection(
                lambda: connection,
                config.host,
                config.port,
                ssl=context,
                server_hostname=name,
                ssl_shutdown_timeout=wait,
            )
            return connection
        transport: asyncio.Transport | None = await self._open_tunnel(self._proxy)
        assert transport is not None
        if context is None:
            transport.set_protocol(connection)
            transport.resume_reading()
        else:
            transport = await loop.start_tls(
                transport, connection, context, server_hostname=name, ssl_shutdown_timeout=wait
            )
        connection.connection_made(cast("asyncio.Transport", transport))
        return connection

    async def _open_tunnel(self, proxy: Proxy) -> asyncio.Transport:
        loop = asyncio.get_running_loop()
        context = None if self._proxy_tls is None else await self._proxy_tls.context()
        try:
            _, tunnel = await loop.create_connection(
                lambda: Tunnel(proxy, self._config.host, self._config.port), proxy.host, proxy.port, ssl=context
            )
        except (OSError, UnicodeError) as error:
            raise proxy.refuse(_describe(error)) from error
        return await tunnel.wait_open()

    def _too_late(self, error: TimeoutError) -> Unreachable:
        # The operating system has its own timeout of minutes, which is the same exception with an errno.
        through = f" through the proxy {self._proxy.url}" if self._proxy else ""
        which = f" ({error.strerror})" if error.errno else ""
        return TimedOut(
            f"{self._config.server} was not reached in time{through}{which}: check the address and the network",
            is_sent=False,
        )


def _describe(error: Exception) -> str:
    """The reason of a failure, which follows the name of the server in the message."""
    match error:
        case socket.gaierror() | UnicodeError():
            return f"cannot be resolved ({error}): check the address and DNS"
        case ssl.SSLCertVerificationError():
            return (
                f"has a certificate that is not trusted ({error.verify_message}): check certificate-authority, or set "
                "tls-server-name if the certificate is for another name"
            )
        case ssl.SSLError():
            return f"failed the TLS handshake ({error.reason or error}): is it https, and is the port right?"
        case ConnectionRefusedError():
            return "refuses connections: is it running, and is the port right?"
        case _:
            return f"cannot be reached ({str(error) or type(error).__name__}): check the address and the network"
