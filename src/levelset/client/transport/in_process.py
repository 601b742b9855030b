"""Carries calls straight into a server of the same process: no socket, no port, nothing to wait for.

Whatever has a `handle` as an API server of this house has it will do; it is asked as a web edge would ask it.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from typing import Final, Protocol

from levelset.aio import timing
from levelset.aio.supervisor import Interruption
from levelset.client.transport.interface import Answer, Call
from levelset.errors import TimedOut, Unreachable
from levelset.http.messages import Headers, Peer, Request, Response
from levelset.http.streaming import iterate, read_all

__all__ = ["Handles", "InsideTransport"]

_CALLS_AT_ONCE: Final = 32


class Handles(Protocol):
    """A server that can be asked without a socket."""

    def handle(self, request: Request, /) -> Response | Awaitable[Response]:
        """The answer to a request, at once or later."""
        ...


class InsideTransport:
    """Asks a server in this process, as its owner if it says who that is, or as a given peer."""

    __slots__ = ("_calls", "_is_closed", "_peer", "_server", "_streams")

    def __init__(self, server: Handles, *, peer: Peer | None = None) -> None:
        owner: Peer | None = getattr(server, "owner", None)
        self._server = server
        self._peer = owner if peer is None else peer
        self._streams: dict[_Stream, None] = {}  # in order: the first is ended first
        self._is_closed = False
        self._calls = 0

    @property
    def server(self) -> Handles:
        """The server that is asked."""
        return self._server

    async def send(self, call: Call, /) -> Answer:
        """The server's answer; TimedOut if it takes too long, Unreachable once the transport is closed."""
        if self._is_closed:
            raise Unreachable(f"{call.words}: this client is closed; connect another one", is_sent=False)
        self._calls += 1
        if self._calls % _CALLS_AT_ONCE == 0:
            # The server answers without waiting for anything: who asks in a loop would keep all others out for ever.
            await asyncio.sleep(0)
        request = Request(call.method, call.path, call.query, Headers(call.headers), call.body, self._peer)
        made = self._server.handle(request)
        if isinstance(made, Response) and isinstance(made.body, bytes) and (not call.is_stream or made.status >= 300):
            # There is nothing to wait for, and so nothing that could take too long.
            return Answer(status=made.status, headers=Headers(made.headers), body=made.body)
        return await self._wait(call, made)

    async def aclose(self) -> None:
        """Ends all streams; whoever reads one gets Unreachable. The server itself goes on."""
        self._is_closed = True
        for stream in list(self._streams):
            await stream.cut()

    async def _wait(self, call: Call, made: Response | Awaitable[Response]) -> Answer:
        limit = timing.within(call.timeout)
        try:
            async with limit:
                return await self._read(call, made)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimedOut(f"{call.words}: no answer within {call.timeout:g} seconds") from None

    async def _read(self, call: Call, made: Response | Awaitable[Response]) -> Answer:
        response = made if isinstance(made, Response) else await made
        headers = Headers(response.headers)
        if not call.is_stream or response.status >= 300:
            return Answer(status=response.status, headers=headers, body=await read_all(response))
        return Answer(status=response.status, headers=headers, pieces=_Stream(iterate(response.body), self._streams))


class _Stream:
    """A body in pieces that can be ended by its reader or, while that waits, by the transport."""

    __slots__ = ("_is_cut", "_open", "_pieces", "_reading")

    def __init__(self, pieces: AsyncGenerator[bytes, None], open_: "dict[_Stream, None]") -> None:
        self._pieces = pieces
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
            return await self._pieces.__anext__()
        except asyncio.CancelledError:
            if self._reading.leave():
                raise _cut_error() from None
            raise
        finally:
            self._reading.leave()

    async def aclose(self) -> None:
        """Ends the body; what was not read is dropped, and another task that waits for a piece gets Unreachable."""
        if self._reading.task is None:
            self._open.pop(self, None)
            await self._pieces.aclose()
        else:
            await self.cut()

    async def cut(self) -> None:
        """Ends the body under its reader's hands."""
        self._is_cut = True
        self._open.pop(self, None)
        if self._reading.task is None:
            await self._pieces.aclose()
        else:
            self._reading.interrupt()


def _cut_error() -> Unreachable:
    return Unreachable("the stream has ended because it, or its client, was closed")
