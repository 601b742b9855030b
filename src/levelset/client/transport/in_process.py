"""The transport to an API server in the same process: calls its `handle` directly, without a socket.

Anything with the `handle` of `levelset.apiserver.ApiServer` will do; it is called as the HTTP server would call it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Final, Protocol

from levelset.aio import timing
from levelset.aio.supervisor import Interruption
from levelset.client.transport.interface import Call, Response
from levelset.errors import TimedOut, Unreachable
from levelset.http.messages import Headers, Peer, Request
from levelset.http.messages import Response as ServerResponse
from levelset.http.streaming import Chunks, iterate, read_all

__all__ = ["InProcessServer", "InProcessTransport"]

_CALLS_PER_YIELD: Final = 32


class InProcessServer(Protocol):
    """A server that can be called without a socket."""

    def handle(self, request: Request, /) -> ServerResponse | Awaitable[ServerResponse]:
        """The response to a request, at once or as an awaitable."""
        ...


class InProcessTransport:
    """Calls a server in this process as `peer`; by default as the owner of the server, if it has one."""

    __slots__ = ("_calls", "_is_closed", "_peer", "_server", "_streams")

    def __init__(self, server: InProcessServer, *, peer: Peer | None = None) -> None:
        owner: Peer | None = getattr(server, "owner", None)
        self._server = server
        self._peer = owner if peer is None else peer
        self._streams: dict[_Stream, None] = {}  # an ordered set: the oldest is closed first
        self._is_closed = False
        self._calls = 0

    @property
    def server(self) -> InProcessServer:
        """The server that is called."""
        return self._server

    async def send(self, call: Call, /) -> Response:
        """The response of the server; TimedOut after the call's timeout, Unreachable once the transport is closed."""
        if self._is_closed:
            raise Unreachable(f"{call.words}: this client is closed; connect another one", is_sent=False)
        self._calls += 1
        if self._calls % _CALLS_PER_YIELD == 0:
            # Most responses come without a pause: a client that calls in a loop would starve all other tasks.
            await asyncio.sleep(0)
        request = Request(call.method, call.path, call.query, Headers(call.headers), call.body, self._peer)
        result = self._server.handle(request)
        if (
            isinstance(result, ServerResponse)
            and isinstance(result.body, bytes)
            and (not call.is_stream or result.status >= 300)
        ):
            # Nothing to wait for, so no timeout is needed.
            return Response(status=result.status, headers=Headers(result.headers), body=result.body)
        return await self._wait(call, result)

    async def aclose(self) -> None:
        """Ends all streams: their readers get Unreachable. The server itself keeps running."""
        self._is_closed = True
        for stream in list(self._streams):
            await stream.cut()

    async def _wait(self, call: Call, result: ServerResponse | Awaitable[ServerResponse]) -> Response:
        limit = timing.within(call.timeout)
        try:
            async with limit:
                return await self._read(call, result)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimedOut(f"{call.words}: no response within {call.timeout:g} seconds") from None

    async def _read(self, call: Call, result: ServerResponse | Awaitable[ServerResponse]) -> Response:
        response = result if isinstance(result, ServerResponse) else await result
        headers = Headers(response.headers)
        if not call.is_stream or response.status >= 300:
            return Response(status=response.status, headers=headers, body=await read_all(response))
        return Response(status=response.status, headers=headers, stream=_Stream(iterate(response.body), self._streams))


class _Stream:
    """A streamed body that its reader can close, and the transport too, also while the reader waits."""

    __slots__ = ("_chunks", "_is_cut", "_open", "_reading")

    def __init__(self, chunks: Chunks, open_: "dict[_Stream, None]") -> None:
        self._chunks = chunks
        self._open = open_
        self._reading = Interruption()
        self._is_cut = False
        open_[self] = None

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._is_cut:
            raise _cut_error()
        self._reading.enter()
        try:
            return await self._chunks.__anext__()
        except asyncio.CancelledError:
            if self._reading.leave():
                raise _cut_error() from None
            raise
        finally:
            self._reading.leave()

    async def aclose(self) -> None:
        """Ends the body; unread chunks are dropped, and another task that waits for a chunk gets Unreachable."""
        if self._reading.task is None:
            self._open.pop(self, None)
            await self._chunks.aclose()
        else:
            await self.cut()

    async def cut(self) -> None:
        """Ends the body while its reader may be waiting."""
        self._is_cut = True
        self._open.pop(self, None)
        if self._reading.task is None:
            await self._chunks.aclose()
        else:
            self._reading.interrupt()


def _cut_error() -> Unreachable:
    return Unreachable("the stream, or its client, was closed")
