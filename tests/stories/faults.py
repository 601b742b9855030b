"""What goes wrong between a client and a server: refused writes, watches that come late, calls that are cut off."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from random import Random

from levelset.aio import timing
from levelset.client import Answer, Call, Pieces, Send
from levelset.errors import Unreachable
from levelset.web import Headers

__all__ = ["CutOff", "Late", "Refusals"]

_CONFLICT = b"""{"kind":"Status","apiVersion":"v1","status":"Failure","code":409,"reason":"Conflict",
"message":"the object has been modified; please apply your changes to the latest version and try again"}"""


class Refusals:
    """Answers a share of all writes with 409, as a server does when somebody else was first."""

    def __init__(self, share: float, random: Random) -> None:
        self.refused = 0
        self._share = share
        self._random = random

    async def __call__(self, call: Call, send: Send) -> Answer:
        if call.method == "GET" or self._random.random() >= self._share:
            return await send(call)
        self.refused += 1
        return Answer(status=409, headers=Headers({"content-type": "application/json"}), body=_CONFLICT)


class CutOff:
    """Lets nothing through that fits, once it is told to."""

    def __init__(self, fits: Callable[[Call], bool] = lambda call: True) -> None:
        self.is_cut = False
        self._fits = fits

    async def __call__(self, call: Call, send: Send) -> Answer:
        if self.is_cut and self._fits(call):
            raise Unreachable(f"{call.words}: the network is gone", is_sent=False)
        return await send(call)


class Late:
    """Hands everything that comes on a watch on some seconds later."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def __call__(self, call: Call, send: Send) -> Answer:
        answer = await send(call)
        if answer.pieces is None:
            return answer
        return Answer(status=answer.status, headers=answer.headers, pieces=_LatePieces(answer.pieces, self._seconds))


class _LatePieces:
    """A body whose pieces come later than they do; a task of its own takes them as they come."""

    def __init__(self, pieces: Pieces, seconds: float) -> None:
        self._pieces = pieces
        self._seconds = seconds
        self._waiting: deque[tuple[float, bytes | Exception | None]] = deque()
        self._came = asyncio.Event()
        self._taking = asyncio.create_task(self._take(), name="late pieces")

    async def _take(self) -> None:
        try:
            async for piece in self._pieces:
                self._put(piece)
        except Unreachable as error:
            self._put(error)
        else:
            self._put(None)

    def _put(self, piece: bytes | Exception | None) -> None:
        self._waiting.append((timing.now() + self._seconds, piece))
        self._came.set()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._waiting:
            self._came.clear()
            await self._came.wait()
        due, piece = self._waiting[0]
        await timing.sleep_until(due)
        self._waiting.popleft()
        match piece:
            case bytes():
                return piece
            case None:
                raise StopAsyncIteration
            case Exception():
                raise piece

    async def aclose(self) -> None:
        self._taking.cancel()
        await asyncio.gather(self._taking, return_exceptions=True)
        await self._pieces.aclose()
        self._put(Unreachable("the stream was closed"))
