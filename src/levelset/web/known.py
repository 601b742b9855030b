"""Headers that came before: a client sends the same ones with every request, and they need not be read again."""

import re
from typing import Final

from levelset.web.limits import Limits
from levelset.web.messages import Headers, Peer, Request

__all__ = ["LARGEST", "KnownHeads"]

_LONGEST: Final = 2 * 1024
_MOST: Final = 2_048
LARGEST: Final = 16 * 1024
"""So many bytes are worth a look."""
# Not all that HTTP allows: whatever looks unusual is for the parser to judge.
_LINE: Final = re.compile(rb"(GET|POST|PUT|PATCH|DELETE) (/[A-Za-z0-9/._~?=&%:,+-]*) HTTP/1\.1\r\n")
_METHODS: Final = {name.encode(): name for name in ("GET", "POST", "PUT", "PATCH", "DELETE")}
# What makes a request more than its head and as many bytes as it says.
_SPECIAL: Final = ("expect", "transfer-encoding", "upgrade")


class KnownHeads:
    """The header blocks of requests that the parser has read, byte for byte, and what it made of them.

    A request is recognised if it arrived whole and alone, its first line is an ordinary one, and everything between
    that and the body is known. That costs a fifth of what the parser takes, which calls back for each header.
    Shared by all connections of a server, and bounded.
    """

    __slots__ = ("_limits", "_seen")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._seen: dict[bytes, tuple[Headers, int]] = {}

    def find(self, data: bytes, peer: Peer | None) -> Request | None:
        """The request in the data, if it is one whose headers are known; None leaves it to the parser."""
        line = _LINE.match(data)
        if line is None:
            return None
        start, end = line.end(), data.find(b"\r\n\r\n") + 4
        known = self._seen.get(data[start:end])
        if known is None:
            return None
        headers, length = known
        method, target = line.groups()
        if len(data) != end + length or len(target) > self._limits.target_bytes:
            return None
        path, _, query = target.decode("ascii").partition("?")
        return Request(_METHODS[method], path, query, headers, data[end:] if length else b"", peer)

    def learn(self, data: bytes, request: Request) -> None:
        """Remembers the headers of a request that the parser found in the data, which holds nothing else."""
        line = _LINE.match(data)
        end = data.find(b"\r\n\r\n") + 4
        if line is None or not 0 < end - line.end() <= _LONGEST:
            return
        block, headers, length = data[line.end() : end], request.headers, len(request.body)
        # A parser may take other things than these for the end of a line. Then it and `find` would differ.
        if block.count(b"\r") != block.count(b"\r\n") or block.count(b"\n") != block.count(b"\r\n"):
            return
        if data[end:] != request.body or str(length) != (headers.get("content-length") or "0"):
            return
        if (
            any(name in headers for name in _SPECIAL)
            or (headers.get("connection") or "keep-alive").lower() != "keep-alive"
        ):
            return
        if len(self._seen) >= _MOST:
            self._seen.clear()
        self._seen[block] = (headers, length)
