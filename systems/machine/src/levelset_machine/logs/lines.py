r"""The stored form of log lines: number, time and text.

A stored line is `<number> <time> <text>\n`, with the time in UTC to the millisecond:

```python
noon = stamp(datetime(2026, 1, 31, 12, tzinfo=UTC))
assert encode_line(7, noon, b"hello") == b"7 2026-01-31T12:00:00.000Z hello\n"
```

Texts are bytes throughout: the output of a program need not be UTF-8. Only a line feed ends a line.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

__all__ = ["MAX_LINE", "Line", "LineSplitter", "decode_line", "encode_line", "stamp"]

MAX_LINE: Final = 1 << 20
"""How many bytes of a line are held in memory; a longer line is split into pieces."""

_STORED: Final = re.compile(rb"(\d{1,18}) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (.*)", re.DOTALL)


class Line(Struct, frozen=True):
    """One line, or a piece of one that is very long."""

    text: bytes
    """Without the line feed."""
    number: int = 0
    """1 for the first of a log."""
    time: bytes = b""
    """When it was written, as a `stamp`; empty if unknown."""
    is_rest: bool = False
    """Whether it continues the piece before it."""
    is_open: bool = False
    """Whether no line feed follows."""


def stamp(time: datetime) -> bytes:
    """The stored form of a time; stamps sort as the times do."""
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03d}Z".encode()


def encode_line(number: int, time: bytes, text: bytes, *, is_open: bool = False) -> bytes:
    """The stored form of a line; `time` is a `stamp`, and an open line gets no line feed."""
    return b"%d %s %s%s" % (number, time, text, b"" if is_open else b"\n")


def decode_line(piece: Line, number: int) -> Line:
    """The line of a stored form; a damaged one (its writer was killed) becomes a line of plain text.

    `number` is the number of such a damaged line: the one that comes next.
    """
    found = _STORED.fullmatch(piece.text)
    if found is None:
        return Line(piece.text, number, is_open=piece.is_open)
    return Line(found[3], int(found[1]), found[2], is_open=piece.is_open)


class LineSplitter:
    """Splits chunks of bytes into lines; a chunk may end anywhere."""

    def __init__(self, longest: int = MAX_LINE) -> None:
        self._longest = longest
        self._held = bytearray()
        self._is_rest = False

    def add(self, chunk: bytes) -> Iterator[Line]:
        """The lines that are complete now, and pieces of a line that exceeds the limit."""
        *whole, rest = chunk.split(b"\n")
        for text in whole:
            if not self._held and not self._is_rest and len(text) <= self._longest:
                yield Line(text)  # the common case
                continue
            self._held += text
            yield from self._cut()
            yield self._take(is_open=False)
        self._held += rest
        yield from self._cut()

    def end(self) -> Iterator[Line]:
        """The last line, if it has no line feed."""
        if self._held:
            yield self._take(is_open=True)

    def _cut(self) -> Iterator[Line]:
        while len(self._held) > self._longest:
            text = bytes(self._held[: self._longest])
            del self._held[: self._longest]
            yield Line(text, is_rest=self._is_rest, is_open=True)
            self._is_rest = True

    def _take(self, *, is_open: bool) -> Line:
        line = Line(bytes(self._held), is_rest=self._is_rest, is_open=is_open)
        self._held.clear()
        self._is_rest = False
        return line
