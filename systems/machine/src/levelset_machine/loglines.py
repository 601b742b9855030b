r"""Log lines as they are kept: number, time and text, so that a reader can leave out what nobody asked for.

A kept line is `<number> <time> <text>\n`, with the time in UTC down to the millisecond:

```python
noon = stamp(datetime(2026, 1, 31, 12, tzinfo=UTC))
assert keep_line(7, noon, b"hello") == b"7 2026-01-31T12:00:00.000Z hello\n"
```

Texts are bytes from end to end: what a program writes need not be UTF-8. Only a line feed ends a line.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

__all__ = ["LONGEST", "Line", "Pieces", "keep_line", "kept_line", "stamp"]

LONGEST: Final = 1 << 20
"""How much of a line is held in memory; what is longer comes in pieces."""

_KEPT: Final = re.compile(rb"(\d{1,18}) (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Line:
    """One line, or a piece of one that is very long."""

    text: bytes
    """Without the line feed."""
    number: int = 0
    """1 for the first of a log."""
    time: bytes = b""
    """When it came, as it is kept; empty if nobody knows."""
    is_rest: bool = False
    """Whether it continues the piece before it."""
    is_open: bool = False
    """Whether no line feed follows."""


def stamp(time: datetime) -> bytes:
    """A time as it is kept; these texts sort as the times do."""
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03d}Z".encode()


def keep_line(number: int, time: bytes, text: bytes, *, is_open: bool = False) -> bytes:
    """A line as it is kept, with a `stamp`; one without a line feed at its end stays without."""
    return b"%d %s %s%s" % (number, time, text, b"" if is_open else b"\n")


def kept_line(piece: Line, number: int) -> Line:
    """What a kept line says; one that is damaged (written by a program that was killed) is taken as a text.

    `number` is for that case: the number that should come next.
    """
    found = _KEPT.fullmatch(piece.text)
    if found is None:
        return Line(piece.text, number, is_open=piece.is_open)
    return Line(found[3], int(found[1]), found[2], is_open=piece.is_open)


class Pieces:
    """Makes lines of chunks, wherever those are cut."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._held = bytearray()
        self._is_rest = False

    def add(self, chunk: bytes) -> Iterator[Line]:
        """The lines that are complete now, and what is too long to be held any longer."""
        *whole, rest = chunk.split(b"\n")
        for text in whole:
            if not self._held and not self._is_rest and len(text) <= self._longest:
                yield Line(text)  # as nearly always
                continue
            self._held += text
            yield from self._cut()
            yield self._take(is_open=False)
        self._held += rest
        yield from self._cut()

    def end(self) -> Iterator[Line]:
        """What is left at the end: a text that no line feed ends, if there is one."""
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
