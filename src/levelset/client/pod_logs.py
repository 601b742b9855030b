"""The log of a container as a stream of lines: what `Client.logs` returns."""

import codecs
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self

from levelset.client.transport.http1 import ResponseStream
from levelset.client.transport.interface import Response

__all__ = ["LogLines"]

_MAX_LINE: Final = 16 * 1024 * 1024


class LogLines:
    """The lines of a log, without line ends: iterate over it, and use `async with` to close it when stopping early.

    The request is sent when the first line is read. Bytes that are not UTF-8 become U+FFFD.
    """

    __slots__ = ("_body", "_lines", "_reader")

    def __init__(self, send: Callable[[], Awaitable[Response]]) -> None:
        self._body = ResponseStream(send)
        self._reader = _LineReader()
        self._lines: list[str] = []  # complete lines that were not read yet, the next one last

    async def __aenter__(self) -> Self:
        await self._body.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        chunks = await self._body.open()
        while not self._lines:
            chunk = await anext(chunks, None)
            self._lines = self._reader.finish() if chunk is None else self._reader.feed(chunk)
            if chunk is None:
                break
            self._lines.reverse()
        if not self._lines:
            await self.aclose()
            raise StopAsyncIteration
        return self._lines.pop()

    async def aclose(self) -> None:
        """Ends the stream; may be called again."""
        await self._body.aclose()


class _LineReader:
    """Splits bytes that arrive in arbitrary chunks into lines; a line beyond `_MAX_LINE` is returned in parts."""

    __slots__ = ("_decoder", "_parts", "_size")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._parts: list[str] = []  # of the line whose end has not arrived yet
        self._size = 0

    def feed(self, chunk: bytes) -> list[str]:
        first, *more = self._decoder.decode(chunk).split("\n")
        self._parts.append(first)
        self._size += len(first)
        if not more:
            return [self._take()] if self._size > _MAX_LINE else []
        *lines, last = [self._take(), *more]
        self._parts, self._size = [last], len(last)
        return [line.removesuffix("\r") for line in lines]

    def finish(self) -> list[str]:
        self._parts.append(self._decoder.decode(b"", final=True))
        rest = self._take()
        return [rest] if rest else []

    def _take(self) -> str:
        line, self._parts, self._size = "".join(self._parts), [], 0
        return line
