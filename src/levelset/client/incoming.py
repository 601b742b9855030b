"""A body that comes piece by piece: asked for when somebody reads, and closed when nobody does any more."""

from collections.abc import AsyncIterator, Awaitable, Callable

from levelset.client.calls import Answer, Pieces

__all__ = ["Incoming"]


class Incoming:
    """The pieces of the answer to one call, for one reader; the call is made by `open`, or by the first reading."""

    __slots__ = ("_ask", "_pieces", "stream")

    def __init__(self, ask: Callable[[], Awaitable[Answer]]) -> None:
        self._ask = ask
        self._pieces: Pieces | None = None
        self.stream: AsyncIterator[bytes] | None = None
        """The pieces, once the call has been made."""

    async def open(self) -> AsyncIterator[bytes]:
        """The pieces; the call is made if it is not made yet. Raises what the server refuses with."""
        if self.stream is None:
            answer = await self._ask()
            self._pieces = answer.pieces
            self.stream = _once(answer.body) if answer.pieces is None else aiter(answer.pieces)
        return self.stream

    async def aclose(self) -> None:
        """Ends the body; may be repeated."""
        pieces, self._pieces = self._pieces, None
        if pieces is not None:
            await pieces.aclose()


async def _once(body: bytes) -> AsyncIterator[bytes]:
    if body:
        yield body
