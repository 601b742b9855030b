"""The HTTP/1.1 server of one handler: listens, serves, and stops without leaving tasks or sockets behind."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

from levelset.errors import ConfigError
from levelset.http.connection import Connection, ServerContext
from levelset.http.limits import Limits
from levelset.http.messages import Handler, HeadCheck, Response
from levelset.http.response_writer import Failure, to_status

__all__ = ["Server", "listen_error_message"]

_BACKLOG = 1024


class Server:
    """Serves a handler over HTTP/1.1, on the loopback interface by default.

    ```python
    async with Server(handler) as server:
        print(server.url)
        await asyncio.Event().wait()
    ```

    Port 0 means any free port; with `reuse_port` other processes may listen on it as well. With `tls`, clients may
    present certificates if the context requests them: see `Request.peer`. If a handler raises, `on_error` makes the
    response: by default a Status without internal details. `head_check` may refuse a request by its head, before its
    body is read.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        reuse_port: bool = False,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
        on_error: Callable[[Failure], Response] = to_status,
        head_check: HeadCheck | None = None,
    ) -> None:
        self._handler = handler
        self._head_check = head_check
        self._host = host
        self._port = port
        self._reuse_port = reuse_port
        self._tls = tls
        self._limits = limits or Limits()
        self._on_error = on_error
        self._listener: asyncio.Server | None = None
        self._context: ServerContext | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        """The port that the server listens on; before the start the requested one."""
        return self._port

    @property
    def url(self) -> str:
        """The URL of the server: `https://127.0.0.1:6443`."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host)  # noqa: S104 - translated, not bound
        return f"http{'s' if self._tls else ''}://{f'[{host}]' if ':' in host else host}:{self._port}"

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._context.connections) if self._context else 0

    @property
    def body_bytes(self) -> int:
        """The bytes of request bodies in flight that `Limits.bodies_bytes` bounds."""
        return self._context.bodies.total if self._context else 0

    async def start(self) -> None:
        """Starts to accept connections; ConfigError if the address cannot be used."""
        if self._listener is not None:
            raise ConfigError(f"The server on {self.url} is running already.")
        if not 0 <= self._port <= 65535:
            raise ConfigError(f"{self._port} is not a port: choose one between 1 and 65535, or 0 for any free one.")
        loop, limits, tls = asyncio.get_running_loop(), self._limits, self._tls
        context = ServerContext(
            self._handler, limits=limits, on_error=self._on_error, loop=loop, head_check=self._head_check
        )
        try:
            listener = await loop.create_server(
                partial(Connection, context),
                self._host,
                self._port,
                backlog=_BACKLOG,
                reuse_port=self._reuse_port or None,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else limits.handshake_within,
                # Covers the unsent rest of the last response too; a client that only owes its close_notify is aborted
                # by the connection, after `linger_within`.
                ssl_shutdown_timeout=None if tls is None else limits.stall_within,
            )
        except OSError as error:
            raise ConfigError(listen_error_message(error, self._host, self._port)) from error
        self._listener, self._context = listener, context
        self._port = listener.sockets[0].getsockname()[1]
        self._timer = loop.call_later(limits.every, self._tick)

    async def stop(self, *, within: float = 10.0) -> None:
        """Shuts down gracefully: stops accepting, ends streams, completes requests in flight, and closes.

        A request that has arrived only in part has `Limits.finish_within` seconds to complete. After `within` seconds,
        or when this is cancelled, the remaining connections are aborted and their handlers cancelled. A handler that
        swallows its cancellation is waited for: no task is left behind.
        """
        listener, context = self._listener, self._context
        if listener is None or context is None:
            return
        self._listener = None
        if self._timer is not None:
            self._timer.cancel()
        listener.close()
        context.is_stopping = True
        for connection in tuple(context.connections):
            connection.drain()
        hurry_timer = asyncio.get_running_loop().call_later(self._limits.finish_within, context.hurry)
        try:
            async with asyncio.timeout(within):
                await context.wait_empty()
        except TimeoutError:
            pass
        finally:
            hurry_timer.cancel()
            context.abort_all()
            await context.wait_empty()

    def sweep(self, now: float) -> None:
        """Applies the timeouts at `now`, on the loop's clock; the server does this by itself every `Limits.every`."""
        if self._context is not None:
            self._context.sweep(now)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._limits.every, self._tick)  # first: a failing sweep must not be the last
        self.sweep(loop.time())


def listen_error_message(error: OSError, host: str, port: int) -> str:
    """The message for an address that the server cannot listen on."""
    if isinstance(error, socket.gaierror):
        return f"The host name {host} cannot be resolved: choose 127.0.0.1, or an address of this machine."
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} on {host} is in use by another process: choose another one, or 0 for any free one."
    if error.errno == errno.EACCES:
        return f"Port {port} on {host} needs privileges that this process does not have: choose a port above 1023."
    if error.errno in {errno.EADDRNOTAVAIL, None}:  # newer event loops try every address, and then set no errno
        return f"{host} is not an address of this machine: choose 127.0.0.1, or one of its addresses."
    return f"Cannot listen on {host} port {port}: {error.strerror or error}."
