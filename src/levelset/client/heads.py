"""Reads answers that came whole and are as plain as nearly all of them, without a parser that calls back; pure."""

import re
from typing import Final

from levelset.web.messages import Headers

__all__ = ["LARGEST", "read_plain"]

LARGEST: Final = 16 * 1024
"""More bytes than these are not worth a look: to copy them would cost more than it saves."""

_LONGEST: Final = 2 * 1024
# Not all that HTTP allows: whatever looks unusual is for the parser to judge.
_PLAIN: Final = re.compile(rb"HTTP/1\.1 [2-5]\d\d [ -~]*(?:\r\n[A-Za-z0-9-]+: [ -~]+)+")
_BODILESS: Final = frozenset({204, 304})
# What makes an answer more than its head and as many bytes as it says.
_SPECIAL: Final = frozenset({"transfer-encoding", "upgrade"})


def read_plain(data: bytes) -> tuple[int, Headers, bytes] | None:
    """Status, headers and body of the answer that the data is; None leaves it to the parser.

    An answer is read here if it arrived whole and alone, and nothing about its head is out of the ordinary. That takes
    less than half of what the parser takes, which calls back for each header.
    """
    end = data.find(b"\r\n\r\n", 0, _LONGEST)
    if end < 0 or _PLAIN.fullmatch(data, 0, end) is None:
        return None
    first, *lines = data[:end].decode("ascii").split("\r\n")
    values: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        values[name.lower()] = value.strip(" ")
    status, body = int(first[9:12]), data[end + 4 :]
    is_plain = (
        len(values) == len(lines)
        and values.get("content-length") == str(len(body))
        and status not in _BODILESS
        and _SPECIAL.isdisjoint(values)
        and values.get("connection", "keep-alive").lower() == "keep-alive"
    )
    return (status, Headers.of(values), body) if is_plain else None
