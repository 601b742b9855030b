"""Server-side SPDY/3.1 on an upgraded connection: streams that the client opens, with headers and data both ways.

Kubernetes' clients speak it for `exec`, `attach` and `port-forward`, directly or inside of a WebSocket. As they do, it
has no flow control of its own: `on_data` of a slow stream has to hold the whole connection.
"""

import zlib
from collections.abc import Callable, Mapping
from typing import Final

__all__ = ["SpdySession", "SpdyStream"]

_WORDS: Final = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_TAIL: Final = (
    b"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    b"203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    b"403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    b"Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    b"chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    b"text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
_DICTIONARY: Final = (
    b"".join(len(word).to_bytes(4, "big") + word.replace("_", " ").encode() for word in _WORDS.split()) + _TAIL
)
"""The dictionary of the protocol with which headers are compressed (draft-mbelshe-httpbis-spdy-00, 2.6.10.1)."""
_VERSION: Final = 0x8003
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY, _HEADERS = 1, 2, 3, 6, 7, 8
_FIN: Final = 1
_MAX_FRAME: Final = 1 << 20
_MAX_HEADERS: Final = 64 * 1024
_MAX_STREAMS: Final = 1000


class SpdyStream:
    """A stream of a session. `on_data` and `on_end` are called with what the client sends; set them at once."""

    __slots__ = ("_is_finished", "_session", "headers", "id", "is_ended", "on_data", "on_end")

    def __init__(self, session: "SpdySession", number: int, headers: Mapping[str, str]) -> None:
        self._session = session
        self._is_finished = False
        self.id = number
        self.headers = headers
        self.is_ended = False
        self.on_data: Callable[[bytes], None] = lambda _: None
        self.on_end: Callable[[], None] = lambda: None

    def write(self, data: bytes) -> None:
        """Sends data; no effect once the stream is finished."""
        if not self._is_finished:
            for start in range(0, len(data), _MAX_FRAME // 2):
                self._session.send_data(self.id, data[start : start + _MAX_FRAME // 2])

    def finish(self) -> None:
        """Ends the direction to the client; idempotent."""
        if not self._is_finished:
            self._is_finished = True
            self._session.send_data(self.id, b"", fin=True)
            self._session.forget_if_over(self)

    def end(self) -> None:
        """The client has ended its direction."""
        if not self.is_ended:
            self.is_ended = True
            self.on_end()
            self._session.forget_if_over(self)

    @property
    def is_over(self) -> bool:
        """Whether both directions have ended."""
        return self.is_ended and self._is_finished


class SpdySession:
    """The server's end of a session: give it received bytes with `receive`; `on_stream` is called with new streams.

    A violation of the protocol calls `on_failure`, after which everything received is ignored.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        on_stream: Callable[[SpdyStream], None],
        on_failure: Callable[[str], None],
    ) -> None:
        self._write = write
        self._on_stream = on_stream
        self._on_failure = on_failure
        self._received = bytearray()
        self._streams: dict[int, SpdyStream] = {}
        self._last = 0
        self._is_failed = False
        self._inflate = zlib.decompressobj(zdict=_DICTIONARY)
        self._deflate = zlib.compressobj(zdict=_DICTIONARY)

    def receive(self, data: bytes) -> None:
        """Handles received bytes."""
        self._received += data
        while not self._is_failed and len(self._received) >= 8:
            size = int.from_bytes(self._received[5:8], "big")
            if size > _MAX_FRAME:
                self._fail(f"a frame of {size} bytes is too large")
                return
            if len(self._received) < 8 + size:
                return
            head, payload = bytes(self._received[:5]), bytes(self._received[8 : 8 + size])
            del self._received[: 8 + size]
            if head[0] & 0x80:
                self._control(head, payload)
            else:
                self._data(int.from_bytes(head[:4], "big"), head[4], payload)

    def close(self) -> None:
        """Tells all streams that the client has gone."""
        self._is_failed = True
        for stream in list(self._streams.values()):
            stream.end()

    def send_data(self, number: int, data: bytes, *, fin: bool = False) -> None:
        """Sends a data frame of a stream."""
        flags = bytes([_FIN if fin else 0])
        self._write(number.to_bytes(4, "big") + flags + len(data).to_bytes(3, "big") + data)

    def forget_if_over(self, stream: SpdyStream) -> None:
        """Removes a stream of which both directions have ended."""
        if stream.is_over:
            self._streams.pop(stream.id, None)

    def _control(self, head: bytes, payload: bytes) -> None:
        if int.from_bytes(head[:2], "big") != _VERSION:
            self._fail("it is not SPDY/3")
            return
        kind, flags = int.from_bytes(head[2:4], "big"), head[4]
        number = int.from_bytes(payload[:4], "big") & 0x7FFFFFFF
        if kind == _SYN_STREAM:
            self._open(number, payload, fin=bool(flags & _FIN))
        elif kind == _HEADERS:
            self._read_headers(payload[4:])  # the state of the compression needs every block
        elif kind == _RST_STREAM:
            stream = self._streams.pop(number, None)
            if stream is not None:
                stream.end()
        elif kind == _PING and number % 2:  # an odd number is the client's
            self._send_control(_PING, payload)
        elif kind == _GOAWAY:
            self.close()

    def _open(self, number: int, payload: bytes, *, fin: bool) -> None:
        headers = self._read_headers(payload[10:])
        if headers is None:
            return
        if number % 2 == 0 or number <= self._last or len(self._streams) >= _MAX_STREAMS:
            self._fail(f"stream {number} cannot be opened")
            return
        self._last = number
        stream = self._streams[number] = SpdyStream(self, number, headers)
        block = self._deflate.compress(bytes(4)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        self._send_control(_SYN_REPLY, number.to_bytes(4, "big") + block)
        self._on_stream(stream)
        if fin:
            stream.end()

    def _data(self, number: int, flags: int, payload: bytes) -> None:
        stream = self._streams.get(number)
        if stream is None or stream.is_ended:
            return  # it was reset, or is over
        if payload:
            stream.on_data(payload)
        if flags & _FIN:
            stream.end()

    def _read_headers(self, block: bytes) -> dict[str, str] | None:
        """The headers of a block; None, after a failure, if it is not valid."""
        try:
            raw = self._inflate.decompress(block, _MAX_HEADERS)
            if self._inflate.unconsumed_tail:
                raise ValueError("too large")
            return _parse_headers(raw)
        except (zlib.error, ValueError) as error:
            self._fail(f"a block of headers is not valid: {error}")
            return None

    def _send_control(self, kind: int, payload: bytes) -> None:
        head = _VERSION.to_bytes(2, "big") + kind.to_bytes(2, "big") + bytes(1)
        self._write(head + len(payload).to_bytes(3, "big") + payload)

    def _fail(self, reason: str) -> None:
        if not self._is_failed:
            self.close()
            self._on_failure(reason)


def _parse_headers(raw: bytes) -> dict[str, str]:
    """The headers, with names in lower case; raises ValueError."""
    count, place = int.from_bytes(raw[:4], "big"), 4
    found: dict[str, str] = {}
    for _ in range(count):
        pair: list[str] = []
        for _ in range(2):
            size = int.from_bytes(raw[place : place + 4], "big")
            place += 4 + size
            if place > len(raw):
                raise ValueError("it ends too early")
            pair.append(raw[place - size : place].decode("latin-1"))
        found[pair[0].lower()] = pair[1].partition("\0")[0]
    return found
