"""A small server that a transport is tried on: it says back what came, hangs, streams, and knows who has left."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from typing import Final

from levelset.web import Request, Response, Server

__all__ = ["Target", "open_target"]

_PATIENCE: Final = 10.0
_BYTES: Final = (("Content-Type", "application/octet-stream"),)
_JSON: Final = (("Content-Type", "application/json"),)


class Target:
    """Answers by path; `seen` are the requests that came, `url` is where it listens (empty if it does not).

    | path | answer |
    |---|---|
    | `/echo` | 200 with the body that came |
    | `/status/409` | that status, with a small body |
    | `/hang` | none, until it is given up |
    | `/lines` | three lines, one after the other, as a stream |
    | `/endless` | what `push` says, as a stream that does not end by itself |
    """

    def __init__(self) -> None:
        self.url = ""
        self.seen: list[Request] = []
        self.streams = 0
        """How many endless streams are being read."""
        self._pushed: asyncio.Queue[bytes] = asyncio.Queue()
        self._changed = asyncio.Event()

    def handle(self, request: Request, /) -> Response | Awaitable[Response]:
        """Answers one request."""
        self.seen.append(request)
        match request.segments:
            case ["echo"]:
                return Response(200, _BYTES, request.body)
            case ["status", code]:
                return Response(int(code), _JSON, b'{"code":%d}' % int(code))
            case ["hang"]:
                return self._hang()
            case ["lines"]:
                return Response(200, _JSON, _lines())
            case ["endless"]:
                return Response(200, _JSON, self._endless())
            case _:
                return Response(404, _JSON, b"{}")

    def push(self, piece: bytes) -> None:
        """Sends a piece on the endless stream."""
        self._pushed.put_nowait(piece)

    async def wait_streams(self, number: int) -> None:
        """Waits until so many endless streams are being read; AssertionError if that never is."""
        try:
            async with asyncio.timeout(_PATIENCE):
                while self.streams != number:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{self.streams} streams are open at the server, but {number} should be") from None

    async def _hang(self) -> Response:
        never: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        return await never

    async def _endless(self) -> AsyncGenerator[bytes, None]:
        self._count(1)
        try:
            while True:
                yield await self._pushed.get()
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        self.streams += change
        self._changed.set()


async def _lines() -> AsyncGenerator[bytes, None]:
    for number in range(3):
        yield b"line %d\n" % number
        await asyncio.sleep(0)


@asynccontextmanager
async def open_target(*, listen: bool = True) -> AsyncGenerator[Target, None]:
    """A target for the length of a block, on a port of its own; without `listen` it is only there to be called."""
    target = Target()
    if not listen:
        yield target
        return
    server = Server(target.handle)
    await server.start()
    target.url = server.url
    try:
        yield target
    finally:
        await server.stop(within=0.0)
