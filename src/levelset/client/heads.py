"""Reads answers that came whole and are as plain as nearly all of them, without a parser that calls back; pure."""

import re
from typing import Final

from levelset.web.messages import Headers

__all__ = ["Heads"]

_MOST: Final = 256
_LONGEST: Final = 2 * 1024
_LARGEST: Final = 16 * 1024
# Not all that HTTP allows: whatever looks unusual is for the parser to judge.
_PLAIN: Final = re.compile(rb"HTTP/1\.1 [2-5]\d\d [ -~]*(?:\r\n[A-Za-z0-9-]+: [ -~]+)+")
_LENGTH: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)
_BODILESS: Final = frozenset({204, 304})
# What makes an answer more than its head and as many bytes as it says.
_SPECIAL: Final = frozenset({"transfer-encoding", "upgrade"})

_Head = tuple[int, Headers, int]


class Heads:
    """The latest heads of answers, byte for byte, and what they say.

    An answer is read here if it arrived whole and alone, and nothing about its head is out of the ordinary; a head
    that came before need not be read again. That takes a third of what the parser takes, which calls back for each
    header.
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[bytes, _Head] = {}

    @staticmethod
    def is_short(size: int) -> bool:
        """Whether so many bytes are worth a look."""
        return size <= _LARGEST

    def read(self, data: bytes) -> tuple[int, Headers, bytes] | None:
        """Status, headers and body of the answer that the data is; None leaves it to the parser."""
        end = data.find(b"\r\n\r\n", 0, _LONGEST)
        if end < 0:
            return None
        head = data[:end]
        known = self._seen.get(head)
        if known is None:
            known = _read(head)
            if known is None:
                return None
            if len(self._seen) >= _MOST:
                self._seen.clear()
            self._seen[head] = known
        status, headers, length = known
        return (status, headers, data[end + 4 :]) if len(data) == end + 4 + length else None


def _read(head: bytes) -> _Head | None:
    if _PLAIN.fullmatch(head) is None:
        return None
    first, *lines = head.decode("ascii").split("\r\n")
    status = int(first[9:12])
    values: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        values[name.lower()] = value.strip(" ")
    is_plain = (
        len(values) == len(lines)
        and status not in _BODILESS
        and _SPECIAL.isdisjoint(values)
        and values.get("connection", "keep-alive").lower() == "keep-alive"
        and _LENGTH.fullmatch(values.get("content-length", "")) is not None
    )
    return (status, Headers(values.items()), int(values["content-length"])) if is_plain else None
