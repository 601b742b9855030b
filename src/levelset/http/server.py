"""An HTTP/1.1 server for one handler: starts, serves, and stops without leaving anything behind."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

from levelset.errors import ConfigError
from levelset.http.connection import Connection, Shared
from levelset.http.limits import Limits
from levelset.http.messages import Handler, Response
from levelset.http.response_writer import Failure, to_status
from levelset.http.tls_transport import SecureTransport

__all__ = ["Server", "explain"]

_BACKLOG = 1024


class Server:
    """Serves a handler over HTTP/1.1, on the loopback interface unless told otherwise.

    ```python
    async with Server(handler) as server:
        print(server.url)
        await asyncio.Event().wait()
    ```

    Port 0 means any free one. With `tls`, clients may show certificates if the context asks for them; who they are is
    in `Request.peer`. A handler that raises is answered with `on_error`, which by default is a Status object that says
    nothing about the inside.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
        on_error: Callable[[Failure], Response] = to_status,
    ) -> None:
        self._handler = handler
        self._host = host
        self._port = port
        self._tls = tls
        self._limits = limits or Limits()
        self._on_error = on_error
        self._listener: asyncio.Server | None = None
        self._shared: Shared | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        """The port that the server listens on; before the start the one that was asked for."""
        return self._port

    @property
    def url(self) -> str:
        """Where to reach the server: `https://127.0.0.1:6443`."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host)  # noqa: S104 - translated, not bound
        return f"http{'s' if self._tls else ''}://{f'[{host}]' if ':' in host else host}:{self._port}"

    @property
    def connections(self) -> int:
        """The number of clients that are connected now."""
        return len(self._shared.connections) if self._shared else 0

    async def start(self) -> None:
        """Begins to accept connections; raises ConfigError if the address cannot be had."""
        if self._listener is not None:
            raise ConfigError(f"The server on {self.url} is started already.")
        if not 0 <= self._port <= 65535:
            raise ConfigError(f"{self._port} is no port: choose one between 1 and 65535, or 0 for any free one.")
        loop = asyncio.get_running_loop()
        shared = Shared(self._handler, limits=self._limits, on_error=self._on_error, loop=loop)
        try:
            listener = await loop.create_server(
                partial(Connection, shared) if self._tls is None else _secured(self._tls, shared),
                self._host,
                self._port,
                backlog=_BACKLOG,
            )
        except OSError as error:
            raise ConfigError(explain(error, self._host, self._port)) from error
        self._listener, self._shared = listener, shared
        self._port = listener.sockets[0].getsockname()[1]
        self._timer = loop.call_later(self._limits.every, self._tick)

    async def stop(self, *, within: float = 10.0) -> None:
        """Stops accepting, ends streams properly, answers what is under way, and closes.

        A request that has only begun to come in is under way for as long as `Limits.finish_within` says.
        What is not done after `within` seconds is cut, and its handler cancelled. The same happens if this is
        cancelled. A handler that swallows its cancellation is waited for: nothing is left behind.
        """
        listener, shared = self._listener, self._shared
        if listener is None or shared is None:
            return
        self._listener = None
        if self._timer is not None:
            self._timer.cancel()
        listener.close()
        shared.is_stopping = True
        for connection in tuple(shared.connections):
            connection.wind_down()
        hurrying = asyncio.get_running_loop().call_later(self._limits.finish_within, shared.hurry)
        try:
            async with asyncio.timeout(within):
                await shared.wait_empty()
        except TimeoutError:
            pass
        finally:
            hurrying.cancel()
            shared.cut()
            await shared.wait_empty()

    def sweep(self, now: float) -> None:
        """Expires what is late at `now`, on the loop's clock; the server does this by itself all the time."""
        if self._shared is not None:
            self._shared.sweep(now)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self.sweep(loop.time())
        self._timer = loop.call_later(self._limits.every, self._tick)


def _secured(context: ssl.SSLContext, shared: Shared) -> Callable[[], SecureTransport]:
    limits, buffers = shared.limits, (memoryview(bytearray(len(shared.buffer))), shared.buffer)
    return partial(
        SecureTransport,
        context,
        partial(Connection, shared),
        buffers,
        within=limits.handshake_within,
        linger=limits.linger_within,
    )


def explain(error: OSError, host: str, port: int) -> str:
    """The sentence for whoever has to choose another address."""
    if isinstance(error, socket.gaierror):
        return f"The host name {host} is not known here: choose 127.0.0.1, or an address of this machine."
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} on {host} is taken by another program: choose another one, or 0 for any that is free."
    if error.errno == errno.EACCES:
        return f"Port {port} on {host} needs more rights than this process has: choose a port above 1023."
    if error.errno in {errno.EADDRNOTAVAIL, None}:  # newer loops try every address, and then give no number
        return f"{host} is no address of this machine: choose 127.0.0.1, or one that it has."
    return f"Cannot listen on {host} port {port}: {error.strerror or error}."
