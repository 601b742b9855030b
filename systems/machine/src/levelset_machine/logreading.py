"""Finds the place in a log where reading begins, and says which line is which."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Final

from levelset_machine.logfiles import Bytes
from levelset_machine.loglines import LONGEST, Line, Pieces, kept_line

__all__ = ["BLOCK", "Lines", "begin", "last_number", "tail_offset"]

BLOCK: Final = 65536
_PREFIX: Final = 64
"""More than number and time take."""


class Lines:
    """Makes numbered lines of a log's bytes."""

    def __init__(self, *, is_raw: bool, before: int = 0) -> None:
        """Begins after `before` lines; of a kept log the lines themselves say their number."""
        self._is_raw = is_raw
        self._number = before
        self._pieces = Pieces(LONGEST if is_raw else LONGEST + _PREFIX)

    def add(self, chunk: bytes) -> Iterator[Line]:
        """The lines that these bytes complete."""
        return self._numbered(self._pieces.add(chunk))

    def end(self) -> Iterator[Line]:
        """What was left without a line feed."""
        return self._numbered(self._pieces.end())

    def _numbered(self, pieces: Iterable[Line]) -> Iterator[Line]:
        for piece in pieces:
            if piece.is_rest:
                yield dataclasses.replace(piece, number=self._number)
                continue
            number = self._number + 1
            line = dataclasses.replace(piece, number=number) if self._is_raw else kept_line(piece, number)
            self._number = line.number
            yield line


async def begin(source: Bytes, tail: int | None) -> tuple[int, int]:
    """Where to begin, so that `tail` lines are left of what is there now; and how many lines come before that.

    The number of lines is only worked out for a raw log, whose lines do not say it themselves.
    """
    if tail is None:
        return 0, 0
    offset = await tail_offset(source, tail)
    return offset, await _count(source, offset) if source.is_raw else 0


async def tail_offset(source: Bytes, tail: int) -> int:
    """The place after which there are `tail` lines; a last line without a line feed is one, too."""
    end = source.size()
    if tail <= 0 or end == 0:
        return end
    # The line feed at the very end belongs to the last line, and does not begin another one.
    position = end - 1 if await source.read(end - 1, 1) == b"\n" else end
    while position > 0:
        size = min(BLOCK, position)
        position -= size
        block = await source.read(position, size)
        found = block.count(b"\n")
        if found >= tail:
            return position + _place(block, tail) + 1
        tail -= found
    return 0


def last_number(source: Bytes) -> int:
    """The number of a kept log's last line; 0 if there is none."""
    position = max(0, source.size() - 1)
    text = b""
    while position > 0 and b"\n" not in text:
        size = min(BLOCK, position)
        position -= size
        text = source.peek(position, size) + text
    start = position + text.rfind(b"\n") + 1
    digits = source.peek(start, _PREFIX).partition(b" ")[0]
    return int(digits) if digits.isdigit() and len(digits) <= 18 else 0


def _place(block: bytes, count: int) -> int:
    """Where the line feed stands that is number `count` from the end."""
    place = len(block)
    for _ in range(count):
        place = block.rfind(b"\n", 0, place)
    return place


async def _count(source: Bytes, end: int) -> int:
    count = 0
    for offset in range(0, end, BLOCK * 16):
        count += (await source.read(offset, min(BLOCK * 16, end - offset))).count(b"\n")
    return count
