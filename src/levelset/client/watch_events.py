"""Watch events: the chunks of a watch response parsed into lines, and the lines into events; pure.

This is the hottest path of the client. API servers write each event as `{"type":"MODIFIED","object":{...}}`, one per
line. An event of that form is not decoded: its object is cut out of the chunk, and only its metadata is decoded. Any
other JSON of the same meaning is read too, more slowly.
"""

from io import BytesIO
from itertools import repeat
from operator import itemgetter
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw, Struct

from levelset.client.lists import ObjectDecoder, Transform
from levelset.client.responses import read_status
from levelset.errors import ApiError, BadObject, Unreachable
from levelset.objects.cached_object import CachedObject, decode_cached
from levelset.objects.ref import GroupVersionKind

__all__ = ["EventReader", "EventType", "WatchEvent", "WatchItem"]

EventType = Literal["ADDED", "BOOKMARK", "DELETED", "ERROR", "MODIFIED"]
_LINE_LIMIT: Final = 64 * 1024 * 1024
_INITIAL_END: Final = b'"k8s.io/initial-events-end"'
_TYPES: Final[dict[str, EventType]] = {
    "ADDED": "ADDED",
    "BOOKMARK": "BOOKMARK",
    "DELETED": "DELETED",
    "MODIFIED": "MODIFIED",
}
_BOOKMARK: Final[tuple[EventType, bytes]] = "BOOKMARK", b'{"type":"BOOKMARK","object":'


# How a line with an object begins, by the first letter of its type.
_BEGINNINGS: Final[dict[bytes, tuple[EventType, bytes]]] = {
    one[:1].encode(): (one, b'{"type":"%b","object":' % one.encode()) for one in _TYPES.values() if one != "BOOKMARK"
}
_TYPE_OFFSET: Final = len(b'{"type":"')
_END: Final = b"}\n"


# Cuts the object out of a line, by how the line begins.
_CUTTERS: Final = {beginning: itemgetter(slice(len(beginning), -len(_END))) for _, beginning in _BEGINNINGS.values()}


class WatchEvent(Struct, frozen=True, gc=False):
    """One watch event: an object that was added, modified or deleted, a bookmark, or an error.

    The object of a bookmark has only a resource version; `is_initial_end` marks the bookmark that ends the initial
    events. `status` is the error of an ERROR event.
    """

    type: EventType
    cached: CachedObject | None = None
    status: ApiError | None = None
    is_initial_end: bool = False


WatchItem = WatchEvent | CachedObject
"""What a reader returns: events; with `as_cached` also bare objects."""
_NOTHING: Final = Raw()


class _Line(Struct, gc=False):
    type: str | None = None
    object: Raw = _NOTHING
    kind: str | None = None


_lines: Final = msgspec.json.Decoder(_Line)
_json: Final = msgspec.json.Decoder()


class EventReader:
    """Parses bytes, in chunks cut anywhere, into events: `feed` returns the events that a chunk completes.

    To read a large chunk in steps, `take` it and then `read` while there `is_more`. Lines are read in place: only the
    objects are copied, and a line that spans two chunks.

    With `as_cached` an added or modified object is returned as a bare `CachedObject`: a cache handles 100,000 of them a
    second and treats both types alike, so the event around it would only cost time. All else is an event.
    """

    __slots__ = (
        "_are_alike",
        "_as_cached",
        "_at",
        "_chunk",
        "_decoder",
        "_gvk",
        "_last_beginning",
        "_limit",
        "_rest",
        "_size",
        "_stop",
    )

    def __init__(
        self,
        gvk: GroupVersionKind,
        *,
        managed_fields: bool = True,
        transform: Transform | None = None,
        limit: int = _LINE_LIMIT,
        as_cached: bool = False,
    ) -> None:
        self._gvk = gvk
        self._decoder = ObjectDecoder(managed_fields=managed_fields, transform=transform)
        self._limit = limit
        self._as_cached = as_cached
        self._last_beginning = _BEGINNINGS[b"M"]  # how the last line began, and most likely the next one
        self._are_alike = True  # whether all lines of the last batch began that way
        self._chunk = b""
        self._stop = 0  # up to here the chunk has been read
        self._at = 0  # where in the chunk the unfinished line begins
        self._rest: list[bytes] = []  # the parts of that line in earlier chunks
        self._size = 0  # the length of that line so far

    @property
    def is_between_lines(self) -> bool:
        """Whether nothing of an unfinished line is left."""
        return not self._size

    @property
    def is_more(self) -> bool:
        """Whether a part of the chunk has not been read yet."""
        return self._stop < len(self._chunk)

    def feed(self, chunk: bytes) -> list[Any]:
        """The events whose last byte is in this chunk; BadObject for a line that is not an event, or is too long."""
        self.take(chunk)
        return self.read(len(chunk))

    def take(self, chunk: bytes) -> None:
        """Takes the next chunk, to be read in steps; the one before it must have been read."""
        self._chunk, self._at, self._stop = chunk, 0, 0

    def read(self, size: int) -> list[Any]:
        """The events whose last byte is in about the next `size` bytes of the chunk; BadObject as `feed`."""
        chunk, start = self._chunk, self._stop
        events: list[WatchItem] = []
        # A small rest is not worth another step.
        stop = self._stop = len(chunk) if len(chunk) - start < size + size // 2 else start + size
        end = chunk.find(b"\n", start, stop)
        if end >= 0:
            if self._rest:
                line, self._rest = b"".join([*self._rest, chunk[:end]]), []
                self._read(line, events)
                self._at = end + 1
                end = chunk.find(b"\n", self._at, stop)
            start = self._at = self._read_lines(end, events)
            self._size = 0
        self._size += stop - start
        if self._size > self._limit:
            raise self._broken(self._size, f"is longer than the limit of {self._limit} bytes")
        if stop == len(chunk):
            self.drop()
        return events

    def drop(self) -> None:
        """Releases the chunk; the part that was not read is lost."""
        if self._at < self._stop:
            self._rest.append(self._chunk[self._at : self._stop])
        self._chunk, self._at, self._stop = b"", 0, 0

    def finish(self) -> list[Any]:
        """The event in the last line, if the stream ended without a line end."""
        if self.is_between_lines:
            return []
        self.drop()
        line, self._rest, self._size = b"".join(self._rest), [], 0
        if not line.strip():
            return []
        events: list[WatchItem] = []
        try:
            self._read(line, events)
        except BadObject as error:
            raise Unreachable(f"the watch of {self._gvk} was cut in the middle of an event") from error
        return events

    def _read_lines(self, end: int, events: list[WatchItem]) -> int:
        """Adds the events in all complete lines of the chunk, the first of which ends at `end`; returns their end.

        Lines that begin like events with an object are decoded as one batch, unchecked. If a line is not what it seems,
        decoding its object fails, and then each line is read by itself.
        """
        chunk, at, stop, decoder = self._chunk, self._at, self._stop, self._decoder
        last = chunk.rfind(b"\n", at, stop)
        if end < last and self._are_alike and not decoder.is_cutting and (alike := self._cut_alike(last)):
            self._read_together(alike, [self._last_beginning[0]] * len(alike), at, events)
            return last + 1
        find, startswith = chunk.find, chunk.startswith
        raws: list[bytes] = []
        types: list[EventType] = []
        (type_, beginning), since, self._are_alike = self._last_beginning, at, True
        while end >= 0:
            size, add = len(beginning), raws.append
            # Most lines begin like the one before. Comparing a slice takes a third of the time of `startswith`, which
            # has to parse its arguments.
            while end >= 0 and chunk[at : (start := at + size)] == beginning:
                add(decoder.cut(chunk, start, end - 1) if decoder.is_cutting else chunk[start : end - 1])
                at = end + 1
                end = find(b"\n", at, stop)
            types.extend(repeat(type_, len(raws) - len(types)))
            if end < 0:
                break
            self._are_alike = not raws  # none before this one
            found = _BEGINNINGS.get(chunk[at + _TYPE_OFFSET : at + _TYPE_OFFSET + 1])
            if found is not None and startswith(found[1], at):
                self._last_beginning = type_, beginning = found
            else:
                self._read_together(raws, types, since, events)
                self._read(chunk[at:end], events)
                raws, types, since = [], [], end + 1
                at, end = end + 1, find(b"\n", end + 1, stop)
        self._read_together(raws, types, since, events)
        return at

    def _cut_alike(self, last: int) -> list[bytes]:
        """The objects in all lines up to the last line end, if all begin like the line before them; else none.

        The usual case in a burst of changes: each line only costs a slice. The objects are cut out as if the lines were
        alike; joining them again must give the same text, otherwise the lines were not alike.
        """
        text, beginning = self._chunk[self._at : last + 1], self._last_beginning[1]
        raws = list(map(_CUTTERS[beginning], BytesIO(text)))
        again = (_END + beginning).join(raws)
        self._are_alike = (
            len(text) == len(beginning) + len(again) + len(_END)
            and text.startswith(beginning)
            and text.startswith(again, len(beginning))
            and text.endswith(_END)
        )
        return raws if self._are_alike else []

    def _read_together(self, raws: list[bytes], types: list[EventType], at: int, events: list[WatchItem]) -> None:
        """Adds the events of these types with these objects; their lines begin at `at`."""
        found = self._decoder.decode_all(raws) if len(raws) > 1 else None
        if found is None:
            for type_, raw in zip(types, raws, strict=True):
                end = self._chunk.find(b"\n", at)
                try:
                    events.append(self._event(type_, raw))
                except BadObject:  # other members, or another order: decode the whole line
                    self._read_slowly(self._chunk[at:end], events)
                at = end + 1
        elif not self._as_cached:
            events += map(WatchEvent, types, found)
        elif "DELETED" not in types:
            events += found
        else:
            pairs = zip(types, found, strict=True)
            events += [WatchEvent(type_, cached) if type_ == "DELETED" else cached for type_, cached in pairs]

    def _read(self, line: bytes, events: list[WatchItem]) -> None:
        """Adds the event in one line, if there is one."""
        type_, beginning = _BEGINNINGS.get(line[_TYPE_OFFSET : _TYPE_OFFSET + 1], _BOOKMARK)
        if line.startswith(beginning):
            try:
                events.append(self._event(type_, line[len(beginning) : -1]))
            except BadObject:
                pass  # as in `_read_together`
            else:
                return
        self._read_slowly(line, events)

    def _event(self, type_: EventType, raw: bytes) -> WatchItem:
        if type_ == "BOOKMARK":
            cached = decode_cached(raw)
            return WatchEvent(type_, cached, None, _INITIAL_END in bytes(cached.annotations_json))
        cached = self._decoder.decode(raw)
        return cached if self._as_cached and type_ != "DELETED" else WatchEvent(type_, cached)

    def _read_slowly(self, line: bytes, events: list[WatchItem]) -> None:
        """Adds the event in one line, in any JSON form."""
        if line.strip():
            events.append(self._read_in_full(line))

    def _read_in_full(self, line: bytes) -> WatchItem:
        try:
            found = _lines.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise self._broken(len(line), f"is not an event: {error}") from error
        if found.type == "ERROR" or (found.type is None and found.kind == "Status"):
            return WatchEvent("ERROR", None, self._error(line if found.type is None else bytes(found.object) or b"{}"))
        known = _TYPES.get(found.type or "")
        if known is None or not bytes(found.object):
            raise self._broken(len(line), f"is an event of unknown type {found.type!r}")
        try:
            return self._event(known, bytes(found.object))
        except BadObject as error:
            raise self._broken(len(line), f"has an invalid object: {error}") from error

    def _error(self, raw: bytes) -> ApiError:
        tree: Any = _json.decode(raw)
        error = read_status(tree)
        error.request = f"watch {self._gvk.kind}"
        return error

    def _broken(self, size: int, problem: str) -> BadObject:
        return BadObject(f"a line of {size} bytes in the watch of {self._gvk} {problem}")
