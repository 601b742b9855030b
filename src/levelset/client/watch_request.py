"""One watch request: the pieces of its answer become lines, and the lines become events.

This is the hottest path of the house. A server writes each event as `{"type":"MODIFIED","object":{...}}` on a line; an
event of that form is not decoded but cut out of the piece, and only the head of the object is read. Any other way to
write the same is read too, more slowly.
"""

import asyncio
from collections.abc import Awaitable, Callable
from io import BytesIO
from itertools import repeat
from operator import itemgetter
from types import TracebackType
from typing import Any, Final, Literal, Self

import msgspec
from msgspec import Raw, Struct

from levelset.client.lists import Keeper, Transform
from levelset.client.responses import read_status
from levelset.client.transport.http1 import Incoming
from levelset.client.transport.interface import Answer
from levelset.errors import ApiError, BadObject, Unreachable
from levelset.objects.cached_object import Kept, keep
from levelset.objects.ref import GroupVersionKind

__all__ = ["EventReader", "EventType", "Told", "WatchEvent", "Watching"]

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
_BOOKMARK: Final[tuple[EventType, bytes]] = "BOOKMARK", b'{"type":"BOOKMARK","object":'
# What a line with an object to keep begins with, found by the first letter of its type.
_BEGINNINGS: Final[dict[bytes, tuple[EventType, bytes]]] = {
    one[:1].encode(): (one, b'{"type":"%b","object":' % one.encode()) for one in _TYPES.values() if one != "BOOKMARK"
}
_LETTER: Final = len(b'{"type":"')
_END: Final = b"}\n"
# Cuts the object out of a line with its end, by what the line begins with.
_CUTS: Final = {beginning: itemgetter(slice(len(beginning), -len(_END))) for _, beginning in _BEGINNINGS.values()}


class WatchEvent(Struct, frozen=True, gc=False):
    """One thing that a server told: an object that came, changed or went, a bookmark, or an error.

    A bookmark keeps an object of nothing but a version; `is_initial_end` marks the one after which everything that
    was there at first has been told. `status` is the error.
    """

    type: EventType
    kept: Kept | None = None
    status: ApiError | None = None
    is_initial_end: bool = False


Told = WatchEvent | Kept
"""What a reader gives: events; with `as_kept` also mere objects."""

_NOTHING: Final = Raw()


class _Line(Struct, gc=False):
    type: str | None = None
    object: Raw = _NOTHING
    kind: str | None = None


_lines: Final = msgspec.json.Decoder(_Line)
_read_any: Final = msgspec.json.Decoder()


class EventReader:
    """Makes events of bytes, wherever those were cut: `feed` takes a piece and gives the events that it completes.

    Whoever does not want to read a big piece at once uses `take`, and then `read` as long as there `is_more`. Lines are
    read where they lie: nothing of a piece is copied but the objects, and a line that its end cuts in two.

    With `as_kept` an object that came or changed is given as it is kept, without an event around it: a cache takes in
    a hundred thousand of them a second, and treats both alike. Everything else is an event all the same.
    """

    __slots__ = (
        "_are_alike",
        "_as_kept",
        "_at",
        "_gvk",
        "_keeper",
        "_limit",
        "_piece",
        "_rest",
        "_size",
        "_stop",
        "_usual",
    )

    def __init__(
        self,
        gvk: GroupVersionKind,
        *,
        managed_fields: bool = True,
        transform: Transform | None = None,
        limit: int = _LINE_LIMIT,
        as_kept: bool = False,
    ) -> None:
        self._gvk = gvk
        self._keeper = Keeper(managed_fields=managed_fields, transform=transform)
        self._limit = limit
        self._as_kept = as_kept
        self._usual = _BEGINNINGS[b"M"]  # the last line began so, and the next will most likely too
        self._are_alike = True  # the last lines that were read together all began so
        self._piece = b""
        self._stop = 0  # up to here the piece has been read
        self._at = 0  # where in the piece a line begins whose end has not come yet
        self._rest: list[bytes] = []  # what earlier pieces had of that line
        self._size = 0  # of that line, as far as it has come

    @property
    def is_between_lines(self) -> bool:
        """Whether nothing of an unfinished line is left."""
        return not self._size

    @property
    def is_more(self) -> bool:
        """Whether something of the piece has not been read yet."""
        return self._stop < len(self._piece)

    def feed(self, piece: bytes) -> list[Any]:
        """The events whose last byte is in this piece; BadObject for a line that is no event, or is too long."""
        self.take(piece)
        return self.read(len(piece))

    def take(self, piece: bytes) -> None:
        """Takes the next piece, to be read in parts; the one before it has been read."""
        self._piece, self._at, self._stop = piece, 0, 0

    def read(self, size: int) -> list[Any]:
        """The events whose last byte is in about the next `size` bytes of the piece; BadObject as `feed`."""
        piece, start = self._piece, self._stop
        events: list[Told] = []
        # A small rest is not left for another time.
        stop = self._stop = len(piece) if len(piece) - start < size + size // 2 else start + size
        end = piece.find(b"\n", start, stop)
        if end >= 0:
            if self._rest:
                line, self._rest = b"".join([*self._rest, piece[:end]]), []
                self._read(line, events)
                self._at = end + 1
                end = piece.find(b"\n", self._at, stop)
            start = self._at = self._read_lines(end, events)
            self._size = 0
        self._size += stop - start
        if self._size > self._limit:
            raise self._broken(self._size, f"is longer than the limit of {self._limit} bytes")
        if stop == len(piece):
            self.drop()
        return events

    def drop(self) -> None:
        """Lets go of the piece; what has not been read of it is lost."""
        if self._at < self._stop:
            self._rest.append(self._piece[self._at : self._stop])
        self._piece, self._at, self._stop = b"", 0, 0

    def finish(self) -> list[Any]:
        """The event in the last line, if the stream has ended after it without a line end."""
        if self.is_between_lines:
            return []
        self.drop()
        line, self._rest, self._size = b"".join(self._rest), [], 0
        if not line.strip():
            return []
        events: list[Told] = []
        try:
            self._read(line, events)
        except BadObject as error:
            raise Unreachable(f"the watch of {self._gvk} was cut in the middle of an event") from error
        return events

    def _read_lines(self, end: int, events: list[Told]) -> int:
        """Adds the events in all lines of the piece from the one that ends here; gives where the last one has ended.

        Lines that begin as events with an object do are read together, without a further look at each: if one of them
        is not what it seems to be, its object cannot be kept, and then each is read by itself.
        """
        piece, at, stop, keeper = self._piece, self._at, self._stop, self._keeper
        last = piece.rfind(b"\n", at, stop)
        if end < last and self._are_alike and not keeper.is_cutting and (alike := self._cut_alike(last)):
            self._read_together(alike, [self._usual[0]] * len(alike), at, events)
            return last + 1
        find, startswith = piece.find, piece.startswith
        raws: list[bytes] = []
        types: list[EventType] = []
        (type_, beginning), since, self._are_alike = self._usual, at, True
        while end >= 0:
            size, add = len(beginning), raws.append
            # Most lines begin as the one before; to compare a slice takes a third of the time of a call that parses its
            # arguments, as those of bytes do.
            while end >= 0 and piece[at : (start := at + size)] == beginning:
                add(keeper.cut(piece, start, end - 1) if keeper.is_cutting else piece[start : end - 1])
                at = end + 1
                end = find(b"\n", at, stop)
            types.extend(repeat(type_, len(raws) - len(types)))
            if end < 0:
                break
            self._are_alike = not raws  # none before this one
            found = _BEGINNINGS.get(piece[at + _LETTER : at + _LETTER + 1])
            if found is not None and startswith(found[1], at):
                self._usual = type_, beginning = found
            else:
                self._read_together(raws, types, since, events)
                self._read(piece[at:end], events)
                raws, types, since = [], [], end + 1
                at, end = end + 1, find(b"\n", end + 1, stop)
        self._read_together(raws, types, since, events)
        return at

    def _cut_alike(self, last: int) -> list[bytes]:
        """The objects in all lines up to the last line end, if all of these begin as the last one did; else none.

        As nearly always in a storm of changes: then nothing is done for each of them here but to cut it out. They are
        cut as if the lines were alike, and put together again to see whether they are.
        """
        text, beginning = self._piece[self._at : last + 1], self._usual[1]
        raws = list(map(_CUTS[beginning], BytesIO(text)))
        again = (_END + beginning).join(raws)
        self._are_alike = (
            len(text) == len(beginning) + len(again) + len(_END)
            and text.startswith(beginning)
            and text.startswith(again, len(beginning))
            and text.endswith(_END)
        )
        return raws if self._are_alike else []

    def _read_together(self, raws: list[bytes], types: list[EventType], at: int, events: list[Told]) -> None:
        """Adds the events of these types with these objects; their lines begin here."""
        found = self._keeper.keep_all(raws) if len(raws) > 1 else None
        if found is None:
            for type_, raw in zip(types, raws, strict=True):
                end = self._piece.find(b"\n", at)
                try:
                    events.append(self._event(type_, raw))
                except BadObject:  # more than these two members, or in another order: read it in full
                    self._read_slowly(self._piece[at:end], events)
                at = end + 1
        elif not self._as_kept:
            events += map(WatchEvent, types, found)
        elif "DELETED" not in types:
            events += found
        else:
            pairs = zip(types, found, strict=True)
            events += [WatchEvent(type_, kept) if type_ == "DELETED" else kept for type_, kept in pairs]

    def _read(self, line: bytes, events: list[Told]) -> None:
        """Adds the event in one line, if there is one."""
        type_, beginning = _BEGINNINGS.get(line[_LETTER : _LETTER + 1], _BOOKMARK)
        if line.startswith(beginning):
            try:
                events.append(self._event(type_, line[len(beginning) : -1]))
            except BadObject:
                pass  # as above
            else:
                return
        self._read_slowly(line, events)

    def _event(self, type_: EventType, raw: bytes) -> Told:
        if type_ == "BOOKMARK":
            kept = keep(raw)
            return WatchEvent(type_, kept, None, _INITIAL_END in bytes(kept.annotations_json))
        kept = self._keeper.keep(raw)
        return kept if self._as_kept and type_ != "DELETED" else WatchEvent(type_, kept)

    def _read_slowly(self, line: bytes, events: list[Told]) -> None:
        """Adds the event in one line, in whatever way it is written."""
        if line.strip():
            events.append(self._read_in_full(line))

    def _read_in_full(self, line: bytes) -> Told:
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

    They are lists of whatever the reader gives.

    Big pieces are given in parts, and others run in between.

    It ends when the server ends it. Raises Unreachable if it is cut, BadObject for what is no event, and on opening
    the ApiError of a server that refuses.
    """

    __slots__ = ("_incoming", "_reader")

    def __init__(self, open_: Callable[[], Awaitable[Answer]], reader: EventReader) -> None:
        self._incoming = Incoming(open_)
        self._reader = reader

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
        reader = self._reader
        while True:
            if reader.is_more:
                await asyncio.sleep(0)
            else:
                try:
                    reader.take(await stream.__anext__())
                except StopAsyncIteration:
                    break
            events = reader.read(_LARGEST_PIECE)
            if events:
                return events
        events = reader.finish()
        if events:
            return events
        await self.aclose()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Ends the watch; may be repeated."""
        self._reader.drop()
        await self._incoming.aclose()
