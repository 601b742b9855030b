"""One watch request: the pieces of its answer become lines, and the lines become events.

This is the hottest path of the house. A server writes each event as `{"type":"MODIFIED","object":{...}}` on a line; an
event of that form is not decoded but cut out of the piece, and only the head of the object is read. Any other way to
write the same is read too, more slowly.
"""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Literal, Self

import msgspec
from msgspec import Raw, Struct

from levelset.client.calls import Answer
from levelset.client.incoming import Incoming
from levelset.client.keeping import Keeper, Transform
from levelset.client.responses import read_status
from levelset.errors import ApiError, BadObject, Unreachable
from levelset.objects.identity import GroupVersionKind
from levelset.objects.kept import Kept, read_head

__all__ = ["EventReader", "EventType", "WatchEvent", "Watching"]

EventType = Literal["ADDED", "BOOKMARK", "DELETED", "ERROR", "MODIFIED"]

_LINE_LIMIT: Final = 64 * 1024 * 1024
_LARGEST_PIECE: Final = 128 * 1024
"""More is read in several steps: a hundred thousand objects may come at once, and others use the loop too."""
_INITIAL_END: Final = b'"k8s.io/initial-events-end"'
_TYPES: Final[dict[str, EventType]] = {
    "ADDED": "ADDED",
    "BOOKMARK": "BOOKMARK",
    "DELETED": "DELETED",
    "MODIFIED": "MODIFIED",
}
# What a line of each type begins with, found by the first letter of the type.
_BEGINNINGS: Final[dict[int, tuple[EventType, bytes]]] = {
    ord(one[0]): (one, b'{"type":"%b","object":' % one.encode()) for one in _TYPES.values()
}
_LETTER: Final = len(b'{"type":"')


class WatchEvent(Struct, frozen=True, gc=False):
    """One thing that a server told: an object that came, changed or went, a bookmark, or an error.

    A bookmark keeps an object of nothing but a version; `is_initial_end` marks the one after which everything that
    was there at first has been told. `status` is the error.
    """

    type: EventType
    kept: Kept | None = None
    status: ApiError | None = None
    is_initial_end: bool = False


_NOTHING: Final = Raw()


class _Line(Struct, gc=False):
    type: str | None = None
    object: Raw = _NOTHING
    kind: str | None = None


_lines: Final = msgspec.json.Decoder(_Line)
_read_any: Final = msgspec.json.Decoder()


class EventReader:
    """Makes events of bytes, wherever those were cut: `feed` takes a piece and gives the events that it completes."""

    __slots__ = ("_gvk", "_keep", "_limit", "_rest", "_size")

    def __init__(
        self,
        gvk: GroupVersionKind,
        *,
        managed_fields: bool = True,
        transform: Transform | None = None,
        limit: int = _LINE_LIMIT,
    ) -> None:
        self._gvk = gvk
        self._keep = Keeper(managed_fields=managed_fields, transform=transform).keep
        self._limit = limit
        self._rest: list[bytes] = []  # the pieces of a line whose end has not come yet
        self._size = 0

    @property
    def is_between_lines(self) -> bool:
        """Whether nothing of an unfinished line is left."""
        return not self._size

    def feed(self, piece: bytes) -> list[WatchEvent]:
        """The events whose last byte is in this piece; BadObject for a line that is no event, or is too long."""
        end = piece.find(b"\n")
        if end < 0:
            self._hold(piece)
            return []
        if self._size:
            self._rest.append(piece)
            piece, self._rest, self._size = b"".join(self._rest), [], 0
            end = piece.find(b"\n")
        events: list[WatchEvent] = []
        start = 0
        while end >= 0:
            if end > start:
                self._read(piece, start, end, events)
            start = end + 1
            end = piece.find(b"\n", start)
        if start < len(piece):
            self._hold(piece[start:])
        return events

    def finish(self) -> list[WatchEvent]:
        """The event in the last line, if the stream has ended after it without a line end."""
        if self.is_between_lines:
            return []
        line, self._rest, self._size = b"".join(self._rest), [], 0
        if not line.strip():
            return []
        events: list[WatchEvent] = []
        try:
            self._read(line, 0, len(line), events)
        except BadObject as error:
            raise Unreachable(f"the watch of {self._gvk} was cut in the middle of an event") from error
        return events

    def _hold(self, piece: bytes) -> None:
        self._rest.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            raise self._broken(self._size, f"is longer than the limit of {self._limit} bytes")

    def _read(self, piece: bytes, start: int, end: int, events: list[WatchEvent]) -> None:
        """Adds the event in one line of the piece."""
        found = _BEGINNINGS.get(piece[start + _LETTER]) if end - start > _LETTER else None
        if found is not None and piece.startswith(found[1], start):
            type_, raw = found[0], piece[start + len(found[1]) : end - 1]
            try:
                events.append(self._event(type_, raw) if type_ == "BOOKMARK" else WatchEvent(type_, self._keep(raw)))
            except BadObject:
                pass  # more than these two members, or in another order: read it in full
            else:
                return
        event = self._read_slowly(piece[start:end])
        if event is not None:
            events.append(event)

    def _event(self, type_: EventType, raw: bytes) -> WatchEvent:
        if type_ == "BOOKMARK":
            head = read_head(raw)
            return WatchEvent(type_, Kept(head, raw), None, _INITIAL_END in bytes(head.annotations_json))
        return WatchEvent(type_, self._keep(raw))

    def _read_slowly(self, line: bytes) -> WatchEvent | None:
        if not line.strip():
            return None
        try:
            found = _lines.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise self._broken(len(line), f"is no event: {error}") from error
        if found.type == "ERROR" or (found.type is None and found.kind == "Status"):
            return WatchEvent("ERROR", None, self._error(line if found.type is None else bytes(found.object) or b"{}"))
        known = _TYPES.get(found.type or "")
        if known is None or not bytes(found.object):
            raise self._broken(len(line), f"is an event of type {found.type!r} that nobody knows")
        try:
            return self._event(known, bytes(found.object))
        except BadObject as error:
            raise self._broken(len(line), f"has an object that cannot be kept: {error}") from error

    def _error(self, raw: bytes) -> ApiError:
        tree: Any = _read_any.decode(raw)
        error = read_status(tree)
        error.request = f"watch {self._gvk.kind}"
        return error

    def _broken(self, size: int, problem: str) -> BadObject:
        return BadObject(f"a line of {size} bytes in the watch of {self._gvk} {problem}")


class Watching:
    """One watch, to be opened with `async with`: iterating gives lists of events, one for each piece that arrives.

    Big pieces are given in parts, and others run in between.

    It ends when the server ends it. Raises Unreachable if it is cut, BadObject for what is no event, and on opening
    the ApiError of a server that refuses.
    """

    __slots__ = ("_incoming", "_reader", "_rest")

    def __init__(self, open_: Callable[[], Awaitable[Answer]], reader: EventReader) -> None:
        self._incoming = Incoming(open_)
        self._reader = reader
        self._rest = memoryview(b"")  # of a big piece, what was not read yet

    async def __aenter__(self) -> Self:
        await self._incoming.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[WatchEvent]:
        stream = self._incoming.stream or await self._incoming.open()
        if self._rest and (events := await self._read_rest()):
            return events
        async for piece in stream:
            if len(piece) <= _LARGEST_PIECE:
                events = self._reader.feed(piece)
            else:
                self._rest = memoryview(piece)[_LARGEST_PIECE:]
                events = self._reader.feed(piece[:_LARGEST_PIECE]) or await self._read_rest()
            if events:
                return events
        events = self._reader.finish()
        if events:
            return events
        await self.aclose()
        raise StopAsyncIteration

    async def _read_rest(self) -> list[WatchEvent]:
        """The next events of a big piece that has been begun; none once it has been read."""
        while self._rest:
            await asyncio.sleep(0)
            part, self._rest = self._rest[:_LARGEST_PIECE], self._rest[_LARGEST_PIECE:]
            events = self._reader.feed(bytes(part))
            if events:
                return events
        return []

    async def aclose(self) -> None:
        """Ends the watch; may be repeated."""
        self._rest = memoryview(b"")
        await self._incoming.aclose()
