"""Opens connections to the server of a Config: by name or address, through a proxy or not, over TLS or not."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import cast

from levelset.client.config.config import Config
from levelset.client.config.tls import ClientTls
from levelset.client.transport.http1 import Connection
from levelset.client.transport.pool import Pool
from levelset.client.transport.proxy import Proxy, Tunnel
from levelset.errors import TimedOut, Unreachable

__all__ = ["Dialer"]


class Dialer:
    """Opens connections to one server. Whatever goes wrong is an Unreachable that nothing was sent to.

    The client certificate is asked for `aside`: in there, whoever waits for a connection has no hurry.
    """

    __slots__ = ("_aside", "_config", "_proxy", "_proxy_tls", "_tls")

    def __init__(self, config: Config, *, aside: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        self._config = config
        self._aside = aside
        self._proxy = None if config.proxy is None else Proxy.parse(config.proxy)
        self._tls = ClientTls(config) if config.is_secure else None
        # A proxy has nothing to do with the authority of the cluster: the system's are asked.
        is_hidden = self._proxy is not None and self._proxy.is_secure
        self._proxy_tls = ClientTls(Config(server=self._proxy.url)) if self._proxy and is_hidden else None

    async def dial(self, pool: Pool) -> Connection:
        """A new connection for `pool`."""
        try:
            # Asked first: whoever gets the certificate has a clock of his own.
            context = None if self._tls is None else await self._context(self._tls)
            async with asyncio.timeout(pool.limits.connect_within):
                return await self._connect(Connection(pool, pool.generation), context, pool.limits.close_within)
        except Unreachable:
            raise
        except TimeoutError as error:
            raise self._too_late(error) from error
        except (OSError, UnicodeError) as error:
            raise Unreachable(f"{self._config.server} {_tell(error)}", is_sent=False) from error

    async def _context(self, tls: ClientTls) -> ssl.SSLContext:
        with self._aside():
            return await tls.context()

    async def _connect(self, connection: Connection, context: ssl.SSLContext | None, patience: float) -> Connection:
        config = self._config
        name = None if self._tls is None else self._tls.server_name
        # TLS is ended with a word from both sides; a server that keeps silent is not waited for.
        wait = patience if context is not None else None
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
            raise proxy.refuse(_tell(error)) from error
        return await tunnel.wait_open()

    def _too_late(self, error: TimeoutError) -> Unreachable:
        # The system has a timeout of its own, in minutes, that looks the same but for its number.
        through = f" through the proxy {self._proxy.url}" if self._proxy else ""
        which = f" ({error.strerror})" if error.errno else ""
        return TimedOut(
            f"{self._config.server} was not reached in time{through}{which}; is the address right, and the network?",
            is_sent=False,
        )


def _tell(error: Exception) -> str:
    """What went wrong, to go on after the name of the server."""
    match error:
        case socket.gaierror() | UnicodeError():
            return f"is not known by that name ({error}): correct the address, or see to the name service"
        case ssl.SSLCertVerificationError():
            return (
                f"has a certificate that is not trusted ({error.verify_message}): correct the certificate authority, "
                "or tls-server-name if it goes by another name"
            )
        case ssl.SSLError():
            return f"does not speak TLS as a server should ({error.reason or error}): is it https, and the right port?"
        case ConnectionRefusedError():
            return "refuses connections: is it running, and is the port right?"
        case _:
            return f"cannot be reached ({str(error) or type(error).__name__}): see to the address and the network"
