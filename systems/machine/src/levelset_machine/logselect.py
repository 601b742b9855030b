"""Picks the lines that were asked for out of all lines of a log, and writes them as they were asked for."""

from collections.abc import Iterable

from levelset_machine.loglines import Line, stamp
from levelset_machine.logoptions import LogOptions

__all__ = ["Selection"]


class Selection:
    """Decides line by line; `tail` is not its affair: whoever reads begins at the right place."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._since = b"" if options.since is None else stamp(options.since)
        self._lines_left = options.limit_lines
        self._bytes_left = options.limit_bytes
        self._is_taking = False

    @property
    def is_full(self) -> bool:
        """Whether nothing that comes can be of interest any more."""
        if self._bytes_left is not None and self._bytes_left <= 0:
            return True
        # The last line may yet have further pieces.
        return self._lines_left is not None and self._lines_left <= 0 and not self._is_taking

    def write(self, lines: Iterable[Line]) -> bytes:
        """What is to be sent of these lines; they must come in their order."""
        answer = b"".join(self._written(line) for line in lines if self._takes(line))
        if self._bytes_left is None:
            return answer
        answer = answer[: self._bytes_left]
        self._bytes_left -= len(answer)
        return answer

    def _takes(self, line: Line) -> bool:
        """Whether a line is wanted; the pieces of one share its fate."""
        if line.is_rest:
            taken = self._is_taking
        else:
            taken = self._is_wanted(line)
            if taken and self._lines_left is not None:
                self._lines_left -= 1
        self._is_taking = taken and line.is_open
        return taken

    def _is_wanted(self, line: Line) -> bool:
        if line.number <= (self._options.skip or 0):
            return False
        if self._lines_left is not None and self._lines_left <= 0:
            return False
        return not line.time or line.time >= self._since

    def _written(self, line: Line) -> bytes:
        words = list[bytes]()
        if self._options.line_numbers and not line.is_rest:
            words.append(b"%d" % line.number)
        if self._options.timestamps and line.time and not line.is_rest:
            words.append(line.time)
        words.append(line.text)
        return b" ".join(words) + (b"" if line.is_open else b"\n")
