"""Encodes response heads and chunked bodies, and the error responses of the server itself. No I/O."""

import time
from collections.abc import Sequence
from functools import cache

import msgspec

from levelset.http.messages import Request, Response

__all__ = [
    "CONTINUE",
    "LAST_CHUNK",
    "Failure",
    "HeadWriter",
    "encode_head",
    "frame_chunk",
    "has_no_body",
    "reason_phrase",
    "to_status",
]


class Failure(msgspec.Struct, frozen=True):
    """A request that gets an error response from the server instead of one from the handler.

    `message` is for the client, `cause` for the log only. `request` is None if the bytes were not a request.
    """

    status: int
    message: str
    request: Request | None = None
    cause: BaseException | None = None


def to_status(failure: Failure) -> Response:
    """The failure as Kubernetes reports it: a Status object in JSON."""
    tree: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": failure.message,
        "reason": _REASONS.get(failure.status, ""),
        "code": failure.status,
    }
    if failure.status == 429:
        tree["details"] = {"retryAfterSeconds": 1}
    headers = (*_JSON, ("Retry-After", "1")) if failure.status == 429 else _JSON
    return Response(failure.status, headers, msgspec.json.encode(tree))


@cache
def reason_phrase(status: int) -> str:
    """The reason phrase of a status, `Not Found`; empty for an unregistered status."""
    from http import HTTPStatus  # noqa: PLC0415  # 62 members of an enumeration; a client reads no phrases

    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


_JSON = (("Content-Type", "application/json"),)

_REASONS = {
    400: "BadRequest",
    405: "MethodNotAllowed",
    408: "Timeout",
    413: "RequestEntityTooLarge",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

_FRAMING = frozenset({"connection", "content-length", "date", "transfer-encoding"})
_MAX_CACHED = 1024
# Names that need no check.
_SAFE_NAMES = frozenset({"Audit-Id", "Cache-Control", "Content-Type", "Warning"})


class HeadWriter:
    """Encodes response heads, and caches the frequent ones.

    An application uses few combinations of status and headers; the bytes of each are encoded once. The first header is
    encoded each time: applications put the one that differs in every response there (Audit-Id).
    """

    __slots__ = ("_cached_heads", "_date", "_second")

    def __init__(self) -> None:
        self._cached_heads: dict[tuple[int, tuple[tuple[str, str], ...]], bytes] = {}
        self._second = -1
        self._date = b""

    def write(self, status: int, headers: tuple[tuple[str, str], ...], framing: bytes, body: bytes = b"") -> bytes:
        """The bytes of the head, followed by `body`.

        `framing` are the header lines that say where the body ends, each with its line end.
        """
        rest = headers[1:]
        key = (status, rest)
        head = self._cached_heads.get(key)
        if head is None:
            head = encode_head(status, rest)
            if len(self._cached_heads) >= _MAX_CACHED:
                self._cached_heads.clear()
            self._cached_heads[key] = head
        second = int(time.time())
        if second != self._second:
            from email.utils import formatdate  # noqa: PLC0415  # it brings parsers of mails along

            self._second = second
            self._date = f"Date: {formatdate(second, usegmt=True)}\r\n".encode("ascii")
        first = b""
        if headers:
            name, value = headers[0]
            if name in _SAFE_NAMES and value.isascii() and value.isprintable():  # no check needed
                first = f"{name}: {value}\r\n".encode("ascii")
            else:
                first = _encode_lines(status, headers[:1])
        return b"".join((head, first, self._date, framing, b"\r\n", body))


def encode_head(status: int, headers: Sequence[tuple[str, str]]) -> bytes:
    """The status line and header lines; ValueError for one that would break the message."""
    if not 100 <= status <= 999:
        raise ValueError(f"a status must be between 100 and 999, not {status}")
    return f"HTTP/1.1 {status} {reason_phrase(status)}\r\n".encode("latin-1") + _encode_lines(status, headers)


def _encode_lines(status: int, headers: Sequence[tuple[str, str]]) -> bytes:
    lines: list[str] = []
    for name, value in headers:
        if name.lower() in _FRAMING and status != 101:
            continue
        if name not in _SAFE_NAMES and (not name or not _TOKEN.issuperset(name)):
            raise ValueError(f"{name!r} is not a header name")
        if "\r" in value or "\n" in value or "\0" in value:
            raise ValueError(f"the value of the header {name} contains a line break or NUL")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode("latin-1")


def has_no_body(method: str, status: int) -> bool:
    """Whether HTTP forbids a body in this response."""
    return method == "HEAD" or status in {204, 304} or status < 200


def frame_chunk(parts: Sequence[bytes]) -> bytes:
    """One chunk of all parts; empty if they are, because an empty chunk would end the body."""
    size = sum(map(len, parts))
    return b"".join((b"%x\r\n" % size, *parts, b"\r\n")) if size else b""


_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
