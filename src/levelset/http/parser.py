"""Parses the bytes of one connection into requests, within limits. No I/O.

A client sends the same headers with every request: `HeaderCache` recognises header blocks that were parsed before, at a
fifth of the cost.
"""

from collections import deque
from enum import Enum, auto
from typing import Final, NoReturn

import httptools
import msgspec

from levelset.http.body_budget import BodyCharge
from levelset.http.limits import Limits
from levelset.http.messages import Headers, Peer, Request, Response
from levelset.http.response_writer import Failure
from levelset.objects.lazy_pattern import Pattern

__all__ = ["LARGEST_CACHEABLE", "HeaderCache", "ParsedRequest", "Phase", "RequestParser"]

_MAX_BLOCK: Final = 2 * 1024
_MAX_CACHED: Final = 2_048
LARGEST_CACHEABLE: Final = 16 * 1024
"""Requests of more bytes are not looked up in the cache."""
# Less than HTTP allows: anything unusual is left to the parser.
_LINE: Final = Pattern(rb"(GET|POST|PUT|PATCH|DELETE) (/[A-Za-z0-9/._~?=&%:,+-]*) HTTP/1\.1\r\n")
# The first line of a request without its target.
_LINE_BYTES: Final = 32
_COMMON_METHODS: Final = {name.encode(): name for name in ("GET", "POST", "PUT", "PATCH", "DELETE")}
# Fields with which a request is more than its head and Content-Length bytes.
_SPECIAL: Final = ("expect", "transfer-encoding", "upgrade")


class HeaderCache:
    """Caches parsed headers by the bytes of their block.

    A request is found if it arrived whole and alone, its first line is a regular one, and the block between that line
    and the body is cached. That costs a fifth of the parser, which calls back for each header. Shared by all
    connections of a server, and bounded.
    """

    __slots__ = ("_blocks", "_limits")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._blocks: dict[bytes, tuple[Headers, int]] = {}

    def find(self, data: bytes, peer: Peer | None) -> Request | None:
        """The request in the data, if its headers are cached; None leaves it to the parser."""
        line = _LINE.match(data)
        if line is None:
            return None
        start, end = line.end(), data.find(b"\r\n\r\n") + 4
        known = self._blocks.get(data[start:end])
        if known is None:
            return None
        headers, length = known
        method, target = line.groups()
        if len(data) != end + length or len(target) > self._limits.target_bytes:
            return None
        path, _, query = target.decode("ascii").partition("?")
        return Request(_COMMON_METHODS[method], path, query, headers, data[end:] if length else b"", peer)

    def add(self, data: bytes, request: Request) -> None:
        """Caches the headers of a request that was parsed from the data, which must contain nothing else."""
        line = _LINE.match(data)
        end = data.find(b"\r\n\r\n") + 4
        if line is None or not 0 < end - line.end() <= _MAX_BLOCK:
            return
        block, headers, length = data[line.end() : end], request.headers, len(request.body)
        # Only regular line ends: for others the parser and `find` could disagree about the end of a line.
        if block.count(b"\r") != block.count(b"\r\n") or block.count(b"\n") != block.count(b"\r\n"):
            return
        if data[end:] != request.body or str(length) != (headers.get("content-length") or "0"):
            return
        if (
            any(name in headers for name in _SPECIAL)
            or (headers.get("connection") or "keep-alive").lower() != "keep-alive"
        ):
            return
        if len(self._blocks) >= _MAX_CACHED:
            self._blocks.clear()
        self._blocks[block] = (headers, length)


class Phase(Enum):
    """The part of a request in which the received bytes end."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()


class ParsedRequest(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One result of parsing, in order: a request, or the failure of bytes that are not one.

    `refusal` is the response to a request that was refused before its body was read. `charge` counts the bytes of a
    body that did not arrive with its head.
    """

    request: Request | None
    failure: Failure | None = None
    keep_alive: bool = False
    is_old: bool = False  # HTTP/1.0: no chunked encoding
    is_upgrade: bool = False
    refusal: Response | None = None
    charge: BodyCharge | None = None


class RequestParser:
    """Parses requests: `feed` it bytes, then take them from `ready`.

    After a failure or a request with `Connection: close` it `is_done` and ignores the rest. After a request for an
    upgrade it `is_holding` the bytes behind it: `release` parses them as HTTP, `take_rest` returns them.
    """

    __slots__ = (
        "_began",
        "_body",
        "_count",
        "_failure",
        "_fed",
        "_header_cache",
        "_headers",
        "_more",
        "_overhead",
        "_parser",
        "_peer",
        "_rest",
        "_size",
        "_target",
        "charge",
        "continue_due",
        "is_done",
        "is_holding",
        "limits",
        "phase",
        "ready",
    )  # fmt: skip

    def __init__(self, limits: Limits, peer: Peer | None = None, header_cache: HeaderCache | None = None) -> None:
        self.limits = limits
        self._header_cache = header_cache or HeaderCache(limits)
        self.ready: deque[ParsedRequest] = deque()
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
        self.charge: BodyCharge | None = None
        """Counts the body that is arriving; None until its head was checked."""
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._clear()

    def feed(self, data: bytes | memoryview) -> None:
        """Parses more bytes; never raises, whatever they are."""
        if self.is_done or self._parser is None:
            return
        if self.is_holding:
            self._rest += data
            return
        if self.phase is not Phase.IDLE or len(data) > LARGEST_CACHEABLE:
            self._parse(data)
            return
        whole = bytes(data)
        request = self._header_cache.find(whole, self._peer)
        if request is not None:
            self.ready.append(ParsedRequest(request, None, keep_alive=True))
            return
        before = len(self.ready)
        self._parse(whole)
        if self.phase is Phase.IDLE and len(self.ready) == before + 1:
            self._cache_headers(whole, self.ready[-1])

    def release(self) -> None:
        """Continues with HTTP after an upgrade that was not accepted."""
        self.is_holding = False
        rest, self._rest = self._rest, b""
        if rest:
            self.feed(rest)

    def take_rest(self) -> bytes:
        """Ends parsing; returns the bytes behind the upgraded request."""
        self.is_done = True
        self.is_holding = False
        rest, self._rest = self._rest, b""
        return rest

    @property
    def body_size(self) -> int:
        """The number of bytes that have arrived of the body in progress."""
        return len(self._body if self._more is None else self._more)

    def head(self) -> Request:
        """The request whose body is arriving, with an empty body."""
        parser = self._parser
        assert parser is not None
        path, _, query = _to_origin(self._target.decode("ascii", "replace")).partition("?")
        method = parser.get_method()
        return Request(_METHODS.get(method) or method.decode("ascii"), path, query, self._headers, b"", self._peer)

    def refuse(self, response: Response) -> None:
        """Ends parsing: drops the body that is arriving, and makes `response` the last result."""
        self.ready.append(ParsedRequest(None, refusal=response))
        self.is_done = True
        self._clear()

    def close(self) -> None:
        """Ends parsing, and releases all memory: the body, and httptools' parser, which references this object."""
        self.is_done = True
        self.is_holding = False
        self._parser = None
        self._rest = b""
        for one in self.ready:
            if one.charge is not None:
                one.charge.release()
        self.ready.clear()
        self._clear()

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
        """The parser saw a header, or after the body a trailer: trailers are counted and ignored."""
        self._count += 1
        self._size += len(name) + len(value) + 4
        if self._size > self.limits.head_bytes or self._count > self.limits.header_count:
            self._refuse_head()
        if self.phase is Phase.HEAD:
            self._headers.add(
                _NAMES.get(name) or name.lower().decode("latin-1"), value.rstrip(b" \t").decode("latin-1")
            )

    def on_headers_complete(self) -> None:
        """The parser saw the end of the headers."""
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
        # Reading the version costs as much as five headers; HTTP/1.1 without Connection needs no check.
        if not keep_alive or self._headers.get("connection") is not None:
            is_old = self._check_version(parser.get_http_version())
        path, _, query = _to_origin(self._target.decode("ascii", "replace")).partition("?")
        body = self._body if self._more is None else bytes(self._more)
        method = parser.get_method()
        request = Request(_METHODS.get(method) or method.decode("ascii"), path, query, self._headers, body, self._peer)
        is_upgrade = parser.should_upgrade()
        if is_upgrade:
            self._check_upgrade(request)
        charge, self.charge = self.charge, None
        self.ready.append(ParsedRequest(request, None, keep_alive, is_old, is_upgrade, None, charge))
        self.is_done = not keep_alive
        self._clear()

    def _parse(self, data: bytes | memoryview) -> None:
        parser = self._parser
        assert parser is not None
        self._began = False
        self._fed = 0
        before = len(self.ready)
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._rest = bytes(data[upgrade.args[0] :])
            self.is_holding = not self.is_done
        except httptools.HttpParserError as error:
            if not self.is_done:
                self._fail(self._failure or Failure(400, f"The request is malformed: {error}"))
        else:
            if self._began and self.phase is Phase.HEAD and len(self.ready) == before:
                self._bound_overhead(len(bytes(data).lstrip(b"\r\n")))  # all of it, but empty lines, is this head
            elif self.phase is not Phase.IDLE and not self._began:
                self._bound_overhead(len(data))

    def _cache_headers(self, data: bytes, parsed: ParsedRequest) -> None:
        if parsed.request is not None and parsed.keep_alive and not parsed.is_old and not parsed.is_upgrade:
            self._header_cache.add(data, parsed.request)

    def _clear(self) -> None:
        self.phase = Phase.IDLE
        self.continue_due = False
        self._target = b""
        self._headers = Headers()
        self._body = b""
        self._more = None
        if self.charge is not None:
            self.charge.release()
            self.charge = None
        self._size = self._count = self._overhead = 0

    def _bound_overhead(self, size: int) -> None:
        """Limits what the parser buffers without a callback: an endless header, endless chunk extensions."""
        self._overhead += size - self._fed
        if self.phase is Phase.HEAD:
            # The target has a limit of its own, which its callback checks.
            if self._overhead > self.limits.head_bytes + len(self._target) + _LINE_BYTES:
                self._fail(Failure(431, "The head of the request is too long."))
        elif self._overhead > self.limits.head_bytes + 16 * len(self._more or self._body):
            self._fail(Failure(400, "The body of the request is more framing than content."))

    def _refuse(self, status: int, message: str) -> NoReturn:
        """Stops the parser from inside one of its callbacks; `_parse` picks up the failure."""
        self._failure = Failure(status, message)
        raise ValueError(message)

    def _refuse_head(self) -> NoReturn:
        count, size = self.limits.header_count, self.limits.head_bytes
        self._refuse(431, f"The headers of a request are at most {count} lines and {size} bytes.")

    def _refuse_body(self) -> NoReturn:
        self._refuse(413, f"The body of a request has at most {self.limits.body_bytes} bytes.")

    def _fail(self, failure: Failure) -> None:
        self.ready.append(ParsedRequest(None, failure))
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
        # The parser skips the body of such a request, and would take it for the next request.
        length = request.headers.get("content-length") or "0"
        if request.method == "CONNECT":
            self._refuse(405, "This server is no proxy.")
        if int(length) or "transfer-encoding" in request.headers:
            self._refuse(400, "A request that asks for an upgrade cannot have a body here.")


def _to_origin(target: str) -> str:
    """The target in origin form: without scheme and host (proxies send them), and without a fragment."""
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
