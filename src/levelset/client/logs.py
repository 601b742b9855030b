"""What a container has written, line by line, as it comes."""

import codecs
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Self

from levelset.client import requests
from levelset.client.asking import Asking
from levelset.client.calls import Answer
from levelset.client.incoming import Incoming
from levelset.client.kinds import view_of
from levelset.objects.identity import Ref

__all__ = ["LogLines", "Logs"]

_LONGEST: Final = 16 * 1024 * 1024


class Logs(Asking):
    """The verb that reads logs."""

    def logs(
        self,
        ref: Ref[Any],
        /,
        *,
        follow: bool = False,
        container: str | None = None,
        tail: int | None = None,
        since: float | None = None,
        previous: bool = False,
        timestamps: bool = False,
        limit_bytes: int | None = None,
    ) -> "LogLines":
        """The lines that a container has written: `async for line in client.logs(pod.ref, follow=True, tail=10)`.

        `tail` is how many of the last lines, `since` how many of the last seconds, `previous` means the container
        before its last restart.
        """
        options: list[tuple[str, object]] = [
            ("follow", "true" if follow else None),
            ("container", container),
            ("tailLines", tail),
            ("sinceSeconds", None if since is None else max(1, round(since))),
            ("previous", "true" if previous else None),
            ("timestamps", "true" if timestamps else None),
            ("limitBytes", limit_bytes),
        ]

        async def open_() -> Answer:
            target = await self._one(view_of(ref.class_ or ref.gvk), ref.name, ref.namespace, "log")
            return await self._sender.send(requests.logs(target, options, timeout=self._settings.timeout))

        return LogLines(open_)


class LogLines:
    """The lines of a log without their line ends: iterate over it, and close it with `async with` if you stop early.

    The request is made when the first line is asked for. Bytes that are no UTF-8 become U+FFFD.
    """

    __slots__ = ("_incoming", "_reader", "_ready")

    def __init__(self, open_: Callable[[], Awaitable[Answer]]) -> None:
        self._incoming = Incoming(open_)
        self._reader = _LineReader()
        self._ready: list[str] = []

    async def __aenter__(self) -> Self:
        await self._incoming.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        stream = await self._incoming.open()
        while not self._ready:
            piece = await anext(stream, None)
            self._ready = self._reader.finish() if piece is None else self._reader.feed(piece)
            if piece is None:
                break
            self._ready.reverse()
        if not self._ready:
            await self.aclose()
            raise StopAsyncIteration
        return self._ready.pop()

    async def aclose(self) -> None:
        """Ends the stream; may be repeated."""
        await self._incoming.aclose()


class _LineReader:
    """Makes lines of bytes, wherever those were cut; a line that does not end comes in parts of about `_LONGEST`."""

    __slots__ = ("_decoder", "_rest", "_size")

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest: list[str] = []  # the parts of a line whose end has not come yet
        self._size = 0

    def feed(self, piece: bytes) -> list[str]:
        first, *more = self._decoder.decode(piece).split("\n")
        self._rest.append(first)
        self._size += len(first)
        if not more:
            return [self._take()] if self._size > _LONGEST else []
        *lines, last = [self._take(), *more]
        self._rest, self._size = [last], len(last)
        return [line.removesuffix("\r") for line in lines]

    def finish(self) -> list[str]:
        self._rest.append(self._decoder.decode(b"", final=True))
        rest = self._take()
        return [rest] if rest else []

    def _take(self) -> str:
        line, self._rest, self._size = "".join(self._rest), [], 0
        return line
