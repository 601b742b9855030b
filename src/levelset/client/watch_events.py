"""Watch events: the chunks of a watch response parsed into lines, and the lines into events; pure.

API servers write each event as `{"type":"MODIFIED","object":{...}}`, one per line. The object of such a line is cut out
of it, and only its metadata is decoded. A line of another form with the same meaning is decoded as a whole first.
"""

from io import BytesIO
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw, Struct

from levelset.client.lists import Transform, object_decoder
from levelset.client.responses import read_status
from levelset.errors import ApiError, BadObject, Unreachable
from levelset.objects.cached_object import CachedObject, decode_cached
from levelset.objects.ref import GroupVersionKind

__all__ = ["EventReader", "EventType", "WatchEvent"]

EventType = Literal["ADDED", "BOOKMARK", "DELETED", "ERROR", "MODIFIED"]
_LINE_LIMIT: Final = 64 * 1024 * 1024
_INITIAL_END: Final = b'"k8s.io/initial-events-end"'
_TYPES: Final[dict[str, EventType]] = {
    "ADDED": "ADDED",
    "BOOKMARK": "BOOKMARK",
    "DELETED": "DELETED",
    "MODIFIED": "MODIFIED",
}
_LETTER: Final = slice(len(b'{"type":"'), len(b'{"type":"') + 1)
_BRACE: Final = ord("}")


def _form(type_: EventType) -> tuple[EventType, slice, bytes, slice]:
    """The usual line with an event of this type: where and how it begins, and where its object is."""
    beginning = b'{"type":"%b","object":' % type_.encode()
    return type_, slice(len(beginning)), beginning, slice(len(beginning), -len(b"}\n"))


# By the first letter of the type.
_FORMS: Final = {type_[:1].encode(): _form(type_) for type_ in _TYPES.values()}
_NO_FORM: Final[tuple[EventType, slice, bytes, slice]] = "ERROR", slice(0), b"no line begins like this", slice(0)


class WatchEvent(Struct, frozen=True, gc=False):
    """One watch event: an object that was added, modified or deleted, a bookmark, or an error.

    The object of a bookmark has only a resource version; `is_initial_end` marks the bookmark that ends the initial
    events. `status` is the error of an ERROR event.
    """

    type: EventType
    cached: CachedObject | None = None
    status: ApiError | None = None
    is_initial_end: bool = False


_NOTHING: Final = Raw()


class _Line(Struct, gc=False):
    type: str | None = None
    object: Raw = _NOTHING
    kind: str | None = None


_lines: Final = msgspec.json.Decoder(_Line)
_json: Final = msgspec.json.Decoder()


class EventReader:
    """Parses bytes, in chunks cut anywhere, into events: `feed` returns the events that a chunk completes."""

    __slots__ = ("_decode", "_gvk", "_limit", "_rest", "_size")

    def __init__(
        self,
        gvk: GroupVersionKind,
        *,
        managed_fields: bool = True,
        transform: Transform | None = None,
        limit: int = _LINE_LIMIT,
    ) -> None:
        self._gvk = gvk
        self._decode = object_decoder(managed_fields=managed_fields, transform=transform)
        self._limit = limit
        self._rest: list[bytes] = []  # the parts of an unfinished line
        self._size = 0  # their length

    def feed(self, chunk: bytes) -> list[WatchEvent]:
        """The events whose last byte is in this chunk; BadObject for a line that is not an event, or is too long."""
        whole = chunk.rfind(b"\n") + 1
        lines = b"".join((*self._rest, chunk[:whole])) if whole else b""
        if whole:
            self._rest, self._size = [], 0
        if whole < len(chunk):
            self._rest.append(chunk[whole:])
            self._size += len(chunk) - whole
        events: list[WatchEvent] = []
        add, decode, form_of = events.append, self._decode, _FORMS.get
        for line in BytesIO(lines):
            type_, start, beginning, body = form_of(line[_LETTER], _NO_FORM)
            if line[start] == beginning and line[-2] == _BRACE:
                raw = line[body]
                try:
                    add(WatchEvent(type_, decode(raw)) if type_ != "BOOKMARK" else _bookmark(raw))
                except BadObject:  # other members, or another order
                    add(self._read_in_full(line))
            elif line.strip():
                add(self._read_in_full(line))
        if self._size > self._limit:
            raise self._broken(self._size, f"is longer than the limit of {self._limit} bytes")
        return events

    def finish(self) -> list[WatchEvent]:
        """The event in the last line, if the stream ended without a line end."""
        line, self._rest, self._size = b"".join(self._rest), [], 0
        try:
            return [self._read_in_full(line)] if line.strip() else []
        except BadObject as error:
            raise Unreachable(f"the watch of {self._gvk} was cut in the middle of an event") from error

    def _read_in_full(self, line: bytes) -> WatchEvent:
        """The event in a line of any JSON form."""
        line = line.removesuffix(b"\n")
        try:
            found = _lines.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise self._broken(len(line), f"is not an event: {error}") from error
        if found.type == "ERROR" or (found.type is None and found.kind == "Status"):
            return WatchEvent("ERROR", None, self._error(line if found.type is None else bytes(found.object) or b"{}"))
        known = _TYPES.get(found.type or "")
        if known is None or not bytes(found.object):
            raise self._broken(len(line), f"is an event of unknown type {found.type!r}")
        raw = bytes(found.object)
        try:
            return _bookmark(raw) if known == "BOOKMARK" else WatchEvent(known, self._decode(raw))
        except BadObject as error:
            raise self._broken(len(line), f"has an invalid object: {error}") from error

    def _error(self, raw: bytes) -> ApiError:
        tree: Any = _json.decode(raw)
        error = read_status(tree)
        error.request = f"watch {self._gvk.kind}"
        return error

    def _broken(self, size: int, problem: str) -> BadObject:
        return BadObject(f"a line of {size} bytes in the watch of {self._gvk} {problem}")


def _bookmark(raw: bytes) -> WatchEvent:
    cached = decode_cached(raw)
    return WatchEvent("BOOKMARK", cached, None, _INITIAL_END in bytes(cached.annotations_json))
