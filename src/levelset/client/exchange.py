"""One call on a connection, and what has come of its answer so far; of a stream also the pieces of its body."""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from levelset.client.calls import Answer, Call
from levelset.errors import TimedOut, Unreachable
from levelset.web.messages import Headers

__all__ = ["Exchange", "Line"]


class Line(Protocol):
    """The connection, as far as an exchange has to know it."""

    def pause(self) -> None:
        """Reads no more for the time being."""
        ...

    def resume(self) -> None:
        """Reads on."""
        ...

    def hang_up(self, exchange: "Exchange", /) -> None:
        """Ends the connection if it is still busy with this exchange."""
        ...


class Exchange(msgspec.Struct, eq=False):
    """A call, the future of its answer, and its body. For a stream it is the `Pieces` of the answer as well.

    The answer has to be there at `when`. The body of a stream is handed over in as large pieces as have arrived. Above
    `room` unread bytes the connection reads no more until somebody takes them.
    """

    call: Call
    answer: asyncio.Future[Answer]
    _line: Line
    _server: str
    _room: int
    is_reused: bool
    when: float = float("inf")
    received: int = 0
    is_streaming: bool = False
    parts: list[bytes] = []
    _unread: int = 0
    _is_paused: bool = False
    _is_done: bool = False
    _error: Unreachable | None = None
    _waiter: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        # Not what is sent and what has come: that may be secret, and this ends up in logs.
        return f"<{type(self).__name__} of {self.words!r}>"

    # --- what the connection calls --------------------------------------------------------------------------------

    def open(self, status: int, headers: Headers) -> None:
        """The head of a stream is there."""
        self.is_streaming = True
        if not self.answer.done():
            self.answer.set_result(Answer(status=status, headers=headers, pieces=self))

    def advance(self, size: int) -> None:
        """Some more bytes of a stream have arrived."""
        self._unread += size
        if self._unread > self._room and not self._is_paused:
            self._is_paused = True
            self._line.pause()
        if self.parts:
            self._wake()

    def finish(self, status: int, headers: Headers) -> None:
        """The answer is complete."""
        self._is_done = True
        self._is_paused = False  # the connection may be another exchange's from now on
        if self.is_streaming:
            self._wake()
        elif not self.answer.done():
            self.answer.set_result(Answer(status=status, headers=headers, body=_joined(self.parts)))

    def fail(self, what: str, *, is_sent: bool = True) -> None:
        """There will be no answer, or no more of it; `what` goes on after the name of the server."""
        self._is_done = True
        self._is_paused = False
        error = Unreachable(f"{self.words}: {self._server} {what}", is_sent=is_sent)
        if self.is_streaming:
            self._error = error
            self._wake()
        elif not self.answer.done():
            self.answer.set_exception(error)

    def expire(self) -> None:
        """The answer is not there in time."""
        if not self.answer.done():
            what = f"did not answer within {self.call.timeout:g} seconds"
            self.answer.set_exception(TimedOut(f"{self.words}: {self._server} {what}"))

    @property
    def words(self) -> str:
        """The call as a person would say it."""
        return self.call.words or f"{self.call.method} {self.call.path}"

    # --- what the caller calls ------------------------------------------------------------------------------------

    def drop(self) -> None:
        """Nobody wants the answer any more: ends the connection unless the answer is complete."""
        self._is_done = True
        self._is_paused = False
        self.parts.clear()
        self._line.hang_up(self)
        self._wake()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """All that has arrived; waits if that is nothing."""
        while not self.parts:
            if self._error is not None:
                raise self._error
            if self._is_done:
                raise StopAsyncIteration
            await self._wait()
        parts, self.parts = self.parts, []
        self._unread = 0
        if self._is_paused:
            self._is_paused = False
            self._line.resume()
        return _joined(parts)

    async def aclose(self) -> None:
        """Ends the stream; the connection too, unless the body has come to its end. A reader that waits is ended."""
        self._error = None
        self.drop()

    async def _wait(self) -> None:
        if self._waiter is not None:
            raise RuntimeError(f"{self.words}: two tasks read one stream; let one read and hand on what it got")
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _joined(parts: list[bytes]) -> bytes:
    return parts[0] if len(parts) == 1 else b"".join(parts)
