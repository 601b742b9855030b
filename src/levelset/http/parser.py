"""Turns the bytes of one connection into requests, within limits; no sockets, no waiting.

Headers that came before: a client sends the same ones with every request, and they need not be read again.
"""

import re
from collections import deque
from enum import Enum, auto
from typing import Final, NoReturn

import httptools
import msgspec

from levelset.http.limits import Limits
from levelset.http.messages import Headers, Peer, Request
from levelset.http.response_writer import Failure

__all__ = ["LARGEST", "KnownHeads", "Phase", "Reader", "Turn"]

_LONGEST: Final = 2 * 1024
_MOST: Final = 2_048
LARGEST: Final = 16 * 1024
"""So many bytes are worth a look."""
# Not all that HTTP allows: whatever looks unusual is for the parser to judge.
_LINE: Final = re.compile(rb"(GET|POST|PUT|PATCH|DELETE) (/[A-Za-z0-9/._~?=&%:,+-]*) HTTP/1\.1\r\n")
_COMMON_METHODS: Final = {name.encode(): name for name in ("GET", "POST", "PUT", "PATCH", "DELETE")}
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
        return Request(_COMMON_METHODS[method], path, query, headers, data[end:] if length else b"", peer)

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


class Phase(Enum):
    """Where in a request the bytes stopped."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()


class Turn(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One thing to answer, in order: a request, or the refusal of what could not become one."""

    request: Request | None
    failure: Failure | None = None
    keep_alive: bool = False
    is_old: bool = False  # HTTP/1.0: knows no chunks
    is_upgrade: bool = False


class Reader:
    """Reads requests from bytes: feed it, then take what is `ready`.

    After a refusal or a request with `Connection: close` it `is_done` and ignores the rest. After a request that asks
    for an upgrade it `is_holding`: the bytes behind it belong to whoever wins, so `release` or `take_rest` decides.
    """

    __slots__ = (
        "_began", "_body", "_count", "_failure", "_fed", "_headers", "_known", "_more", "_overhead", "_parser", "_peer",
        "_rest", "_size", "_target", "continue_due", "is_done", "is_holding", "limits", "phase", "ready",
    )  # fmt: skip

    def __init__(self, limits: Limits, peer: Peer | None = None, known: KnownHeads | None = None) -> None:
        self.limits = limits
        self._known = known or KnownHeads(limits)
        self.ready: deque[Turn] = deque()
        self.phase = Phase.IDLE
        self.is_done = False
        self.is_holding = False
        self.continue_due = False
        self._peer = peer
        self._failure: Failure | None = None
        self._began = False
        self._overhead = 0
        self._rest = b""
        self._fed = 0
        self._body = b""
        self._more: bytearray | None = None
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._clear()

    def feed(self, data: bytes | memoryview) -> None:
        """Reads on; nothing that arrives can make this raise."""
        if self.is_done or self._parser is None:
            return
        if self.is_holding:
            self._rest += data
            return
        if self.phase is not Phase.IDLE or len(data) > LARGEST:
            self._parse(data)
            return
        whole = bytes(data)
        request = self._known.find(whole, self._peer)
        if request is not None:
            self.ready.append(Turn(request, None, keep_alive=True))
            return
        before = len(self.ready)
        self._parse(whole)
        if self.phase is Phase.IDLE and len(self.ready) == before + 1:
            self._learn(whole, self.ready[-1])

    def release(self) -> None:
        """Goes on with HTTP after an upgrade that nobody took."""
        self.is_holding = False
        rest, self._rest = self._rest, b""
        if rest:
            self.feed(rest)

    def take_rest(self) -> bytes:
        """Ends the reading of HTTP; gives the bytes behind the request that was upgraded."""
        self.is_done = True
        self.is_holding = False
        rest, self._rest = self._rest, b""
        return rest

    def close(self) -> None:
        """Lets go of the parser, which would otherwise keep this object alive in a circle."""
        self.is_done = True
        self.is_holding = False
        self.continue_due = False
        self._parser = None
        self.ready.clear()

    def on_message_begin(self) -> None:
        """The parser saw the first byte of a request."""
        self._began = True
        self.phase = Phase.HEAD

    def on_url(self, url: bytes) -> None:
        """The parser saw (a part of) the target."""
        self._target += url
        if len(self._target) > self.limits.target_bytes:
            self._refuse(414, f"The path and query of a request have at most {self.limits.target_bytes} bytes.")

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser saw a header, or after the body a trailer: those are counted and left out."""
        self._count += 1
        self._size += len(name) + len(value) + 4
        if self._size > self.limits.head_bytes or self._count > self.limits.header_count:
            self._refuse_head()
        if self.phase is Phase.HEAD:
            self._headers.add(
                _NAMES.get(name) or name.lower().decode("latin-1"), value.rstrip(b" \t").decode("latin-1")
            )

    def on_headers_complete(self) -> None:
        """The parser saw the empty line."""
        self.phase = Phase.BODY
        self._overhead = 0
        headers = self._headers
        length = headers.get("content-length")
        if length is not None and int(length) > self.limits.body_bytes:
            self._refuse_body()
        if headers.get("host") is None or len(headers.get_all("host")) > 1:
            self._check_host()
        if headers.get("transfer-encoding") is not None:
            self._check_encoding()
        if headers.get("expect") is not None:
            self._check_expectation()

    def on_body(self, data: bytes) -> None:
        """The parser saw (a part of) the body."""
        self.continue_due = False
        self._fed += len(data)
        if not self._body:
            self._body = data
        elif self._more is None:
            self._more = bytearray(self._body) + data
        else:
            self._more += data
        if len(self._body if self._more is None else self._more) > self.limits.body_bytes:
            self._refuse_body()

    def on_message_complete(self) -> None:
        """The parser saw the end of a request."""
        parser = self._parser
        assert parser is not None
        keep_alive = parser.should_keep_alive()
        is_old = False
        # Asking for the version costs as much as five headers; HTTP/1.1 without Connection needs no question.
        if not keep_alive or self._headers.get("connection") is not None:
            is_old = self._check_version(parser.get_http_version())
        path, _, query = _to_origin(self._target.decode("ascii", "replace")).partition("?")
        body = self._body if self._more is None else bytes(self._more)
        method = parser.get_method()
        request = Request(_METHODS.get(method) or method.decode("ascii"), path, query, self._headers, body, self._peer)
        is_upgrade = parser.should_upgrade()
        if is_upgrade:
            self._check_upgrade(request)
        self.ready.append(Turn(request, None, keep_alive, is_old, is_upgrade))
        self.is_done = not keep_alive
        self._clear()

    def _parse(self, data: bytes | memoryview) -> None:
        parser = self._parser
        assert parser is not None
        self._began = False
        self._fed = 0
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._rest = bytes(data[upgrade.args[0] :])
            self.is_holding = not self.is_done
        except httptools.HttpParserError as error:
            if not self.is_done:
                self._give_up(self._failure or Failure(400, f"The request is malformed: {error}"))
        else:
            if self.phase is not Phase.IDLE:
                self._bound_overhead(len(data))

    def _learn(self, data: bytes, turn: Turn) -> None:
        if turn.request is not None and turn.keep_alive and not turn.is_old and not turn.is_upgrade:
            self._known.learn(data, turn.request)

    def _clear(self) -> None:
        self.phase = Phase.IDLE
        self.continue_due = False
        self._target = b""
        self._headers = Headers()
        self._body = b""
        self._more = None
        self._size = self._count = self._overhead = 0

    def _bound_overhead(self, size: int) -> None:
        """Bounds what the parser gathers without telling: a header that never ends, endless chunk extensions."""
        if self._began:
            return
        self._overhead += size - self._fed
        if self.phase is Phase.HEAD and self._overhead > self.limits.head_bytes:
            too_long = len(self._target) > self.limits.target_bytes
            self._give_up(Failure(414 if too_long else 431, "The head of the request is too long."))
        elif self._overhead > self.limits.head_bytes + 16 * len(self._more or self._body):
            self._give_up(Failure(400, "The body of the request is more framing than content."))

    def _refuse(self, status: int, message: str) -> NoReturn:
        """Stops the parser from inside one of its callbacks; `feed` finds the failure."""
        self._failure = Failure(status, message)
        raise ValueError(message)

    def _refuse_head(self) -> NoReturn:
        count, size = self.limits.header_count, self.limits.head_bytes
        self._refuse(431, f"The headers of a request are at most {count} lines and {size} bytes.")

    def _refuse_body(self) -> NoReturn:
        self._refuse(413, f"The body of a request has at most {self.limits.body_bytes} bytes.")

    def _give_up(self, failure: Failure) -> None:
        self.ready.append(Turn(None, failure))
        self.is_done = True
        self._clear()

    def _check_host(self) -> None:
        assert self._parser is not None
        if "host" in self._headers:
            self._refuse(400, "The request has more than one Host header.")
        if self._parser.get_http_version() != "1.0":
            self._refuse(400, "The request has no Host header.")

    def _check_encoding(self) -> None:
        if (self._headers.get("transfer-encoding") or "").lower() != "chunked":
            self._refuse(501, "The only Transfer-Encoding that this server reads is chunked.")

    def _check_expectation(self) -> None:
        if (self._headers.get("expect") or "").lower() != "100-continue":
            self._refuse(417, "The only Expect that this server knows is 100-continue.")
        assert self._parser is not None
        self.continue_due = self._parser.get_http_version() != "1.0"

    def _check_version(self, version: str) -> bool:
        if version not in {"1.0", "1.1"}:
            self._refuse(505, f"This server speaks HTTP/1.1, not HTTP/{version}.")
        return version == "1.0"

    def _check_upgrade(self, request: Request) -> None:
        # The parser skips the body of such a request: whatever it would read next is not what the client means.
        length = request.headers.get("content-length") or "0"
        if request.method == "CONNECT":
            self._refuse(405, "This server is no proxy.")
        if int(length) or "transfer-encoding" in request.headers:
            self._refuse(400, "A request that asks for an upgrade cannot have a body here.")


def _to_origin(target: str) -> str:
    """The target without what proxies put in front of the path, and without a fragment."""
    if "#" in target:
        target = target.partition("#")[0]
    if target.startswith("/"):
        return target
    _, scheme, rest = target.partition("://")
    return "/" + rest.partition("/")[2] if scheme else target


_METHODS = {name.encode(): name for name in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")}

_COMMON = (
    "Accept", "Accept-Encoding", "Authorization", "Connection", "Content-Length", "Content-Type", "Expect", "Host",
    "If-None-Match", "Kubectl-Command", "Kubectl-Session", "Transfer-Encoding", "User-Agent",
)  # fmt: skip
_NAMES = {spelling.encode(): name.lower() for name in _COMMON for spelling in (name, name.lower())}
