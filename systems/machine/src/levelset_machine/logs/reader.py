"""The reader of a log: where reading begins, which line has which number, and which lines LogOptions select."""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final, Protocol

from levelset import replace
from levelset_machine.logs.content import Content, LogSource
from levelset_machine.logs.lines import MAX_LINE, Line, LineSplitter, decode_line, stamp
from levelset_machine.logs.options import LogOptions

__all__ = ["BLOCK", "Growth", "LineDecoder", "LineFilter", "chunks_of", "last_number", "start_offset", "tail_offset"]

BLOCK: Final = 65536
_PREFIX: Final = 64
"""An upper bound for the length of number and time."""


class LineDecoder:
    """Decodes the bytes of a log into numbered lines, with a line that marks what was dropped before it was read."""

    def __init__(self, *, is_raw: bool, before: int = 0) -> None:
        """Begins after `before` lines, which matters for raw logs only: stored lines carry their number."""
        self._is_raw = is_raw
        self._number = before
        self._is_number_known = is_raw
        """Whether `_number` is that of the line before: the first stored line that is read says its own."""
        self._splitter = self._new_splitter()
        self._dropped = 0
        """Bytes that were dropped since the last line."""
        self._before_next = before
        """Lines of a raw log before the next one, if some were dropped."""

    def add(self, chunk: bytes) -> Iterator[Line]:
        """The lines that these bytes complete."""
        return self._numbered(self._splitter.add(chunk))

    def end(self) -> Iterator[Line]:
        """The last line, if it has no line feed."""
        return self._numbered(self._splitter.end())

    def skip(self, count: int, *, before: int) -> None:
        """Says that `count` bytes were dropped by a rotation before they were read; `before` is as for a new decoder.

        The next line follows a mark, which takes the number of the last line that was dropped, and the time of the next
        one: clients that parse numbers and times see both in order, and each number once.
        """
        self._dropped += count
        self._splitter = self._new_splitter()  # the rest of a line that was begun is among what was dropped
        self._before_next = before

    def _new_splitter(self) -> LineSplitter:
        return LineSplitter(MAX_LINE if self._is_raw else MAX_LINE + _PREFIX)

    def _numbered(self, pieces: Iterable[Line]) -> Iterator[Line]:
        for piece in pieces:
            if piece.is_rest:
                yield replace(piece, number=self._number)
                continue
            number = (self._before_next if self._dropped and self._is_raw else self._number) + 1
            line = replace(piece, number=number) if self._is_raw else decode_line(piece, number)
            if self._dropped:
                yield self._mark(line)
            self._number, self._is_number_known = line.number, True
            yield line

    def _mark(self, following: Line) -> Line:
        """The line that stands for the dropped ones before `following`."""
        lines = following.number - self._number - 1
        # A damaged line has no number of its own, and says nothing about those before it.
        what = f"{lines} lines" if self._is_number_known and lines > 0 else f"{self._dropped} bytes"
        self._dropped = 0
        text = f"[log rotation: {what} were dropped before they could be read]"
        return Line(text.encode(), following.number - 1, following.time)


class Growth(Protocol):
    """What a reader that follows a log knows about its writers."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more is written."""
        ...

    async def wait_beyond(self, source: LogSource, offset: int) -> None:
        """Returns when the log may have more than `offset` bytes, or is over."""
        ...


async def chunks_of(source: LogSource, growth: Growth | None, options: LogOptions) -> AsyncIterator[bytes]:
    """The selected chunks of the content; with `growth` also of what is appended to it, until that is over."""
    selected = LineFilter(options)
    offset, before = await start_offset(source, options.tail)
    lines = LineDecoder(is_raw=source.is_raw, before=before)
    is_over = False
    while not is_over:
        # Checked before the size is read, so that bytes written in between are not lost.
        is_over = growth is None or growth.is_over
        end = source.size()
        while offset < end and not selected.is_full:
            data = await source.read(offset, min(BLOCK, end - offset))
            if not data:  # these lines were dropped before they were read, or the file was truncated
                next_offset = source.start if source.start > offset else end
                lines.skip(next_offset - offset, before=source.lines_before)
                offset = next_offset
                continue
            offset += len(data)
            if chunk := selected.write(lines.add(data)):
                yield chunk
        if selected.is_full:
            return
        if growth is not None:
            await growth.wait_beyond(source, offset)
    if chunk := selected.write(lines.end()):
        yield chunk


class LineFilter:
    """Selects and formats lines by LogOptions, except `tail`, which decides where the reader begins."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._since = b"" if options.since is None else stamp(options.since)
        self._lines_left = options.limit_lines
        self._bytes_left = options.limit_bytes
        self._is_inside = False
        """Whether the last piece belongs to a selected line that has not ended."""
        self._is_cut = False
        """Whether the rest of such a line was dropped, so that the next line needs a line feed before it."""

    @property
    def is_full(self) -> bool:
        """Whether a limit is reached, so that no further line can be selected."""
        if self._bytes_left is not None and self._bytes_left <= 0:
            return True
        # The last selected line may have further pieces.
        return self._lines_left is not None and self._lines_left <= 0 and not self._is_inside

    def write(self, lines: Iterable[Line]) -> bytes:
        """The formatted output for these lines; call it in the order of the log."""
        output = b"".join(self._separator(line) + self._format(line) for line in lines if self._selects(line))
        if self._bytes_left is None:
            return output
        output = output[: self._bytes_left]
        self._bytes_left -= len(output)
        return output

    def _selects(self, line: Line) -> bool:
        """Whether a line is selected; further pieces of a line follow its first."""
        if line.is_rest:
            selected = self._is_inside
        else:
            self._is_cut = self._is_cut or self._is_inside
            selected = self._matches(line)
            if selected and self._lines_left is not None:
                self._lines_left -= 1
        self._is_inside = selected and line.is_open
        return selected

    def _matches(self, line: Line) -> bool:
        if line.number <= (self._options.skip or 0):
            return False
        if self._lines_left is not None and self._lines_left <= 0:
            return False
        return not line.time or line.time >= self._since

    def _separator(self, line: Line) -> bytes:
        """A line feed after a line whose rest was dropped."""
        is_cut, self._is_cut = self._is_cut, False
        return b"\n" if is_cut and not line.is_rest else b""

    def _format(self, line: Line) -> bytes:
        words = list[bytes]()
        if self._options.line_numbers and not line.is_rest:
            words.append(b"%d" % line.number)
        if self._options.timestamps and line.time and not line.is_rest:
            words.append(line.time)
        words.append(line.text)
        return b" ".join(words) + (b"" if line.is_open else b"\n")


async def start_offset(source: LogSource, tail: int | None) -> tuple[int, int]:
    """The offset at which the last `tail` lines begin, or the first that was not dropped; and the lines before it.

    The lines are only counted for a raw log, whose lines carry no number.
    """
    if tail is None:
        return source.start, source.lines_before
    offset = await tail_offset(source, tail)
    return offset, await _count_lines(source, offset) if source.is_raw else 0


async def tail_offset(source: LogSource, tail: int) -> int:
    """The offset at which the last `tail` lines begin; a last line without a line feed counts."""
    end, start = source.size(), source.start
    if tail <= 0 or end == start:
        return end
    # The line feed at the very end belongs to the last line, and does not begin another one.
    position = end - 1 if await source.read(end - 1, 1) == b"\n" else end
    while position > start:
        size = min(BLOCK, position - start)
        position -= size
        block = await _read_whole(source, position, size)
        found = block.count(b"\n")
        if found >= tail:
            return position + _nth_line_feed_from_end(block, tail) + 1
        tail -= found
    return start


def last_number(source: Content) -> int:
    """The number of the last line of a log with stored lines; 0 if there is none."""
    position = max(source.start, source.size() - 1)
    text = b""
    while position > source.start and b"\n" not in text:
        size = min(BLOCK, position - source.start)
        position -= size
        text = source.peek(position, size) + text
    start = position + text.rfind(b"\n") + 1
    digits = source.peek(start, _PREFIX).partition(b" ")[0]
    return int(digits) if digits.isdigit() and len(digits) <= 18 else 0


def _nth_line_feed_from_end(block: bytes, count: int) -> int:
    position = len(block)
    for _ in range(count):
        position = block.rfind(b"\n", 0, position)
    return position


async def _read_whole(source: LogSource, offset: int, size: int) -> bytes:
    """Reads exactly `size` bytes, unless some were dropped meanwhile: a log may be in several files."""
    data = b""
    while len(data) < size and (more := await source.read(offset + len(data), size - len(data))):
        data += more
    return data


async def _count_lines(source: LogSource, end: int) -> int:
    """The number of lines before an offset of a raw log."""
    count = source.lines_before
    for offset in range(source.start, end, BLOCK * 16):
        count += (await source.read(offset, min(BLOCK * 16, end - offset))).count(b"\n")
    return count
