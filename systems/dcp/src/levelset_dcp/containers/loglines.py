"""Picks the lines that were asked for out of what an engine shows, where each line begins with its time; pure."""

from datetime import UTC, datetime

from levelset.errors import LevelsetError
from levelset.objects import parse_time
from levelset_machine import LogOptions

__all__ = ["Picker"]


class Picker:
    """Decides line by line; lines up to the number `after` are left out."""

    def __init__(self, options: LogOptions, *, after: int = 0) -> None:
        self._options = options
        self._after = after
        self._rest = b""
        self._lines_left = options.limit_lines
        self._bytes_left = options.limit_bytes
        self.count = 0
        """How many lines there were."""

    @property
    def is_full(self) -> bool:
        """Whether nothing that comes can be of interest any more."""
        return (self._lines_left is not None and self._lines_left <= 0) or (
            self._bytes_left is not None and self._bytes_left <= 0
        )

    def add(self, data: bytes) -> bytes:
        """What is to be sent of these bytes, which may be cut wherever."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return self._limited(b"".join(self._line(one) for one in lines))

    def end(self) -> bytes:
        """What is to be sent of a last line without an end."""
        rest, self._rest = self._rest, b""
        return self._limited(self._line(rest).removesuffix(b"\n")) if rest else b""

    def _line(self, line: bytes) -> bytes:
        self.count += 1
        time, text = _split(line)
        options = self._options
        if self.count <= self._after or (self._lines_left is not None and self._lines_left <= 0):
            return b""
        if options.since is not None and time is not None and time < options.since:
            return b""
        if self._lines_left is not None:
            self._lines_left -= 1
        words = [b"%d" % self.count] if options.line_numbers else []
        if options.timestamps and time is not None:
            words.append(f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03d}Z".encode())
        return b" ".join([*words, text]) + b"\n"

    def _limited(self, answer: bytes) -> bytes:
        if self._bytes_left is None:
            return answer
        answer = answer[: self._bytes_left]
        self._bytes_left -= len(answer)
        return answer


def _split(line: bytes) -> tuple[datetime | None, bytes]:
    """The time that a line begins with, and its text; a line without a time is all text."""
    head, _, text = line.partition(b" ")
    try:
        return parse_time(head.decode("ascii")), text.removesuffix(b"\r")
    except (LevelsetError, UnicodeDecodeError):
        return None, line.removesuffix(b"\r")
