"""One HTTP/2 connection that carries gRPC calls: bytes of the server in, events and bytes for the server out.

It decides and never waits: flow control at both ends, the parts of messages, how calls end, and which of them the
server has certainly not processed. `grpc_channel` connects it to a socket.
"""

from collections import deque
from enum import Enum
from struct import Struct
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from levelset.storage.grpc import http2_frames as http2
from levelset.storage.grpc.header_blocks import LONGEST_BLOCK, Headers, decode_block, encode_timeout
from levelset.storage.grpc.http2_frames import ErrorCode, Frame, FrameReader, ProtocolFailed, Setting

__all__ = [
    "CallEnded",
    "Closing",
    "Event",
    "GrpcConnection",
    "Keepalive",
    "KeepaliveStep",
    "MessageArrived",
    "Ready",
]

_WINDOW: Final = 4 * 1024 * 1024  # of each call
_TOTAL_WINDOW: Final = 64 * 1024 * 1024  # of all calls, whose own windows bound what waits in memory
_LONGEST_MESSAGE: Final = 1024 * 1024 * 1024
_LAST_STREAM: Final = 2**31 - 1
_MESSAGE_HEAD: Final = Struct(">BL")  # whether it is compressed, and its length
_MESSAGE_HEAD_SIZE: Final = 5

# fmt: off
_CODES: Final = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
    "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
    "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)
# fmt: on
# What an answer that does not come from gRPC means, by gRPC's own table.
_HTTP_CODES: Final = {
    b"400": "INTERNAL",
    b"401": "UNAUTHENTICATED",
    b"403": "PERMISSION_DENIED",
    b"404": "UNIMPLEMENTED",
    b"429": "UNAVAILABLE",
    b"502": "UNAVAILABLE",
    b"503": "UNAVAILABLE",
    b"504": "UNAVAILABLE",
}


class MessageArrived(NamedTuple):
    """A message of the server."""

    stream: int
    content: bytes


class CallEnded(NamedTuple):
    """A call is over; `code` is the name of gRPC's code."""

    stream: int
    code: str
    reason: str
    is_unprocessed: bool = False
    """The server says that it has not begun with the call."""


class Ready(NamedTuple):
    """The server has sent its settings: it speaks HTTP/2, and calls may be made."""


class Closing(NamedTuple):
    """The server accepts no more calls on this connection; those that it has begun go on."""


Event = MessageArrived | CallEnded | Ready | Closing


class _Call:
    """One open stream."""

    __slots__ = ("accepts_messages", "is_half_closed", "owed", "part", "send_window", "stream", "unread", "unsent")

    def __init__(self, stream: int, send_window: int) -> None:
        self.stream = stream
        self.send_window = send_window
        self.unsent: deque[memoryview | bytes] = deque()
        """What did not fit into the server's windows."""
        self.is_half_closed = False
        """Nothing more is to be sent after that."""
        self.accepts_messages = False
        """The response has begun."""
        self.part = bytearray()
        """The beginning of a message."""
        self.unread = 0
        """The bytes of messages that the caller has not taken."""
        self.owed = 0
        """The bytes that the server may not send again yet."""


class GrpcConnection:
    """The state of one connection; `output` has what is to be sent after each call.

    The server may send `window` bytes to a call whose messages are not taken, and `total_window` to all together.
    """

    def __init__(self, *, window: int = _WINDOW, total_window: int = _TOTAL_WINDOW) -> None:
        self._window = window
        self._total_window = total_window
        self._reader = FrameReader()
        self._calls: dict[int, _Call] = {}
        self._next_stream = 1
        self._out: list[bytes] = [
            http2.PREFACE,
            http2.settings(
                (
                    (Setting.HEADER_TABLE_SIZE, 0),
                    (Setting.ENABLE_PUSH, 0),
                    (Setting.INITIAL_WINDOW_SIZE, window),
                    (Setting.MAX_HEADER_LIST_SIZE, LONGEST_BLOCK),
                )
            ),
            http2.window_update(0, total_window - http2.DEFAULT_WINDOW),
        ]
        self._acks: list[bytes] = []
        """The answers to pings, which have time until something else is sent."""
        # What the server allows.
        self._most_calls = _LAST_STREAM
        self._longest_frame = http2.LONGEST_FRAME
        self._first_window = http2.DEFAULT_WINDOW
        self._send_window = http2.DEFAULT_WINDOW
        self._waiting: dict[int, _Call] = {}
        """The calls with unsent bytes, in the order in which they began to wait."""
        self._received = 0
        """Bytes since the last update of the connection's window."""
        self._block: tuple[Frame, bytearray] | None = None
        """Headers whose continuation follows."""
        self.is_ready = False
        self.is_closing = False

    @property
    def calls(self) -> int:
        """How many calls are open."""
        return len(self._calls)

    def can_open(self) -> bool:
        """Whether one more call may be opened now."""
        return self.is_ready and not self.is_closing and len(self._calls) < self._most_calls

    def has_output(self) -> bool:
        """Whether there is something to send now."""
        return bool(self._out)

    def has_acks(self) -> bool:
        """Whether pings are unanswered.

        etcd measures its connections with a ping for nearly every request. A write of its own for each answer would
        cost as much as the request, so the answer goes with the next one, or a little later.
        """
        return bool(self._acks)

    def output(self) -> bytes:
        """The bytes to send, which are given out once."""
        out, self._out, self._acks = [*self._out, *self._acks], [], []
        return b"".join(out)

    def open(self, block: bytes, *, timeout: float | None = None) -> int:
        """Opens a call with the headers of an encoded block, where `can_open`; returns its stream."""
        stream = self._next_stream
        self._next_stream += 2
        if self._next_stream > _LAST_STREAM:
            self.is_closing = True
        self._calls[stream] = _Call(stream, self._first_window)
        if timeout is not None:
            block += encode_timeout(timeout)
        self._out.append(http2.header_frames(stream, block, longest=self._longest_frame))
        return stream

    def send(self, stream: int, message: bytes, *, is_last: bool) -> None:
        """Sends a message on an open call, as soon as it fits into the server's windows."""
        call = self._calls[stream]
        content = _MESSAGE_HEAD.pack(0, len(message)) + message
        call.is_half_closed = is_last
        size = len(content)
        if size <= min(self._longest_frame, call.send_window, self._send_window):  # then nothing waits before it
            call.send_window -= size
            self._send_window -= size
            self._out.append(http2.frame(http2.DATA, http2.END_STREAM if is_last else 0, stream, content))
            return
        call.unsent.append(memoryview(content))
        self._waiting[stream] = call
        self._send_waiting()

    def cancel(self, stream: int) -> None:
        """Ends a call from this side; one that is over already is let be."""
        if self._forget(stream) is not None:
            self._out.append(http2.reset(stream, ErrorCode.CANCEL))

    def take(self, stream: int, message: bytes) -> None:
        """The caller has taken a message: the server may send more."""
        call = self._calls.get(stream)
        if call is not None:
            call.unread -= _MESSAGE_HEAD_SIZE + len(message)
            self._repay(call)

    def ping(self) -> None:
        """Asks the server for a sign of life: it must answer, as the last call of `Keepalive` expects."""
        self._out.append(http2.frame(http2.PING, 0, 0, b"levelset"))

    def lose(self) -> None:
        """The connection is over: no more calls are accepted."""
        self.is_closing = True

    def give_up(self, failure: ProtocolFailed) -> None:
        """Tells the server why the connection ends."""
        self.is_closing = True
        self._out.append(http2.goaway(failure.code, failure.reason))

    def receive(self, data: bytes) -> list[Event]:
        """What has happened by these bytes of the server; raises ProtocolFailed, and the connection must end."""
        events: list[Event] = []
        for one in self._reader.feed(data):
            kind = one.kind
            if not self.is_ready and kind != http2.SETTINGS:
                raise ProtocolFailed(ErrorCode.PROTOCOL_ERROR, "the server does not begin with its settings")
            if self._block is not None and kind != http2.CONTINUATION:
                raise ProtocolFailed(ErrorCode.PROTOCOL_ERROR, "headers are not continued")
            if kind == http2.DATA:
                self._on_data(one, events)
            elif kind == http2.HEADERS:
                self._on_headers(one, events)
            else:
                self._on_control(one, events)
        if self._received >= self._total_window // 2:
            self._out.append(http2.window_update(0, self._received))
            self._received = 0
        return events

    def _on_control(self, one: Frame, events: list[Event]) -> None:
        match one.kind:
            case http2.SETTINGS:
                self._on_settings(one, events)
            case http2.WINDOW_UPDATE:
                self._on_window_update(one)
            case http2.PING:
                self._on_ping(one)
            case http2.RST_STREAM:
                self._on_reset(one, events)
            case http2.GOAWAY:
                self._on_goaway(one, events)
            case http2.CONTINUATION:
                self._on_continuation(one, events)
            case http2.PUSH_PROMISE:
                raise ProtocolFailed(ErrorCode.PROTOCOL_ERROR, "the server pushes, which the settings refuse")
            case _:  # frames of extensions
                return

    def _on_data(self, one: Frame, events: list[Event]) -> None:
        size = len(one.payload)
        self._received += size
        if self._received > self._total_window:
            raise ProtocolFailed(ErrorCode.FLOW_CONTROL_ERROR, "the server sends more than the connection's window")
        call = self._find(one.stream)
        if call is None:
            return
        call.owed += size
        if call.owed > self._window:
            raise ProtocolFailed(ErrorCode.FLOW_CONTROL_ERROR, "the server sends more than the window of a call")
        if not call.accepts_messages:
            raise ProtocolFailed(ErrorCode.PROTOCOL_ERROR, "the server sends data before headers")
        self._cut_messages(call, http2.payload_without_padding(one), events)
        if one.flags & http2.END_STREAM:
            self._end(call, "INTERNAL", "the response has no status", events)
        self._repay(call)

    def _cut_messages(self, call: _Call, content: bytes, events: list[Event]) -> None:
        """Adds to the part of a message that is there; those that are complete become events."""
        part = call.part
        if not part and content[:1] == b"\0" and _length(content) == len(content):  # nearly always
            call.unread += len(content)
            events.append(MessageArrived(call.stream, content[_MESSAGE_HEAD_SIZE:]))
            return
        part += content
        while len(part) >= _MESSAGE_HEAD_SIZE:
            is_compressed, length = _MESSAGE_HEAD.unpack_from(part)
            if is_compressed or length > _LONGEST_MESSAGE:
                problem = "is compressed" if is_compressed else f"has {length} bytes, which is too long"
                self._end(call, "INTERNAL", f"a message of the server {problem}", events)
                return
            end = _MESSAGE_HEAD_SIZE + length
            if len(part) < end:
                return
            events.append(MessageArrived(call.stream, bytes(part[_MESSAGE_HEAD_SIZE:end])))
            call.unread += end
            del part[:end]

    def _repay(self, call: _Call) -> None:
        """Lets the server send more to a call whose messages are taken."""
        if call.owed >= self._window // 2 and call.unread < self._window and call.stream in self._calls:
            self._out.append(http2.window_update(call.stream, call.owed))
            call.owed = 0

    def _on_headers(self, one: Frame, events: list[Event]) -> None:
        block = http2.payload_without_padding(one)
        if one.flags & http2.END_HEADERS:
            self._on_block(one, block, events)
        else:
            self._block = one, bytearray(block)

    def _on_continuation(self, one: Frame, events: list[Event]) -> None:
        if self._block is None or self._block[0].stream != one.stream:
            raise ProtocolFailed(ErrorCode.PROTOCOL_ERROR, "there are no headers to continue")
        first, block = self._block
        block += one.payload
        if len(block) > LONGEST_BLOCK:
            raise ProtocolFailed(ErrorCode.ENHANCE_YOUR_CALM, "the headers of a response are too long")
        if one.flags & http2.END_HEADERS:
            self._block = None
            self._on_block(first, bytes(block), events)

    def _on_block(self, one: Frame, block: bytes, events: list[Event]) -> None:
        headers = decode_block(block)  # those of calls that are over, too: a table would need it, and errors show
        call = self._find(one.stream)
        if call is None:
            return
        is_last = bool(one.flags & http2.END_STREAM)
        if b"grpc-status" in headers:
            self._end(call, *_status(headers), events)
        elif is_last:
            self._end(call, "INTERNAL", "the response has no status", events)
        elif call.accepts_messages:
            raise ProtocolFailed(ErrorCode.PROTOCOL_ERROR, "the trailers of a response do not end it")
        elif not headers.get(b":status", b"").startswith(b"1"):
            self._begin_response(call, headers, events)

    def _begin_response(self, call: _Call, headers: Headers, events: list[Event]) -> None:
        status, kind = headers.get(b":status", b""), headers.get(b"content-type", b"")
        if status == b"200" and kind.startswith(b"application/grpc"):
            call.accepts_messages = True
            return
        text = f"it is no answer of gRPC: HTTP status {status.decode('latin-1')}, {kind.decode('latin-1')}"
        self._end(call, _HTTP_CODES.get(status, "UNKNOWN"), text, events)

    def _on_settings(self, one: Frame, events: list[Event]) -> None:
        if one.stream or (one.flags & http2.ACK and one.payload):
            raise ProtocolFailed(ErrorCode.PROTOCOL_ERROR, "a SETTINGS frame is not valid")
        if one.flags & http2.ACK:
            return
        for key, value in http2.read_settings(one.payload):
            self._set(key, value)
        self._out.append(http2.frame(http2.SETTINGS, http2.ACK, 0, b""))
        if not self.is_ready:
            self.is_ready = True
            events.append(Ready())
        self._send_waiting()

    def _set(self, key: int, value: int) -> None:
        if key == Setting.INITIAL_WINDOW_SIZE:
            if value > http2.HIGHEST_WINDOW:
                raise ProtocolFailed(ErrorCode.FLOW_CONTROL_ERROR, "the server's window is too large")
            for call in self._calls.values():
                call.send_window += value - self._first_window
            self._first_window = value
        elif key == Setting.MAX_FRAME_SIZE:
            if not http2.LONGEST_FRAME <= value < 1 << 24:
                raise ProtocolFailed(ErrorCode.PROTOCOL_ERROR, "the server's frame size is not valid")
            self._longest_frame = value
        elif key == Setting.MAX_CONCURRENT_STREAMS:
            self._most_calls = value

    def _on_window_update(self, one: Frame) -> None:
        increment = int.from_bytes(one.payload, "big") & http2.HIGHEST_WINDOW
        if len(one.payload) != 4 or not increment:
            raise ProtocolFailed(ErrorCode.PROTOCOL_ERROR, "a WINDOW_UPDATE frame is not valid")
        call = self._find(one.stream) if one.stream else None
        if not one.stream:
            self._send_window += increment
        elif call is not None:
            call.send_window += increment
        if max(self._send_window, 0 if call is None else call.send_window) > http2.HIGHEST_WINDOW:
            raise ProtocolFailed(ErrorCode.FLOW_CONTROL_ERROR, "the server's window is too large")
        self._send_waiting()

    def _on_ping(self, one: Frame) -> None:
        if len(one.payload) != 8 or one.stream:
            raise ProtocolFailed(ErrorCode.FRAME_SIZE_ERROR, "a PING frame is not valid")
        if not one.flags & http2.ACK:
            self._acks.append(http2.frame(http2.PING, http2.ACK, 0, one.payload))

    def _on_reset(self, one: Frame, events: list[Event]) -> None:
        if len(one.payload) != 4:
            raise ProtocolFailed(ErrorCode.FRAME_SIZE_ERROR, "a RST_STREAM frame is not valid")
        call = self._find(one.stream)
        if call is None:
            return
        del self._calls[call.stream]
        self._waiting.pop(call.stream, None)
        code = int.from_bytes(one.payload, "big")
        text = f"the server has reset the call (code {code})"
        name = "CANCELLED" if code == ErrorCode.CANCEL else "INTERNAL"
        events.append(CallEnded(call.stream, name, text, is_unprocessed=code == ErrorCode.REFUSED_STREAM))

    def _on_goaway(self, one: Frame, events: list[Event]) -> None:
        if len(one.payload) < 8 or one.stream:
            raise ProtocolFailed(ErrorCode.FRAME_SIZE_ERROR, "a GOAWAY frame is not valid")
        last = int.from_bytes(one.payload[:4], "big") & http2.HIGHEST_WINDOW
        self.is_closing = True
        events.append(Closing())
        for stream in [stream for stream in self._calls if stream > last]:
            self._forget(stream)
            events.append(CallEnded(stream, "UNAVAILABLE", "the server is closing", is_unprocessed=True))

    def _find(self, stream: int) -> _Call | None:
        """An open call; None for one that is over."""
        call = self._calls.get(stream)
        if call is None and (stream % 2 == 0 or stream >= self._next_stream):
            raise ProtocolFailed(ErrorCode.PROTOCOL_ERROR, f"the server uses stream {stream}, which is not open")
        return call

    def _forget(self, stream: int) -> _Call | None:
        self._waiting.pop(stream, None)
        return self._calls.pop(stream, None)

    def _end(self, call: _Call, code: str, reason: str, events: list[Event]) -> None:
        """The server's side of a call is over."""
        if self._forget(call.stream) is None:
            return
        if call.unsent or not call.is_half_closed or code == "INTERNAL":
            self._out.append(http2.reset(call.stream, ErrorCode.CANCEL))
        if code == "OK" and call.part:
            code, reason = "INTERNAL", "the server has ended the call within a message"
        events.append(CallEnded(call.stream, code, reason))

    def _send_waiting(self) -> None:
        for call in list(self._waiting.values()):
            self._send_some(call)
            if not call.unsent:
                del self._waiting[call.stream]

    def _send_some(self, call: _Call) -> None:
        """Sends what fits into the windows."""
        while call.unsent:
            available = min(self._longest_frame, call.send_window, self._send_window)
            if available <= 0:
                return
            part = call.unsent.popleft()
            piece, rest = bytes(part[:available]), part[available:]
            if rest:
                call.unsent.appendleft(rest)
            call.send_window -= len(piece)
            self._send_window -= len(piece)
            is_end = call.is_half_closed and not call.unsent
            self._out.append(http2.frame(http2.DATA, http2.END_STREAM if is_end else 0, call.stream, piece))


class KeepaliveStep(Enum):
    """What to do about a silent server."""

    WAIT = "wait"
    PING = "ping"
    GIVE_UP = "give up"


class Keepalive:
    """Notices a server that says nothing: it is pinged, and given up if it does not answer even that.

    Only while calls are open: a server may refuse pings of a connection that is not in use.
    """

    def __init__(self, now: float, *, idle: float, patience: float) -> None:
        self._idle = idle
        self._patience = patience
        self._last_data = now
        self._pinged_at: float | None = None

    def on_data(self, now: float) -> None:
        """The server has sent something."""
        self._last_data = now
        self._pinged_at = None

    def step(self, now: float, *, has_calls: bool) -> tuple[KeepaliveStep, float]:
        """What to do now, and the seconds until the next step."""
        if self._pinged_at is not None:
            left = self._pinged_at + self._patience - now
            return (KeepaliveStep.GIVE_UP, 0.0) if left <= 0 else (KeepaliveStep.WAIT, min(left, self._idle))
        left = self._last_data + self._idle - now
        if left > 0 or not has_calls:
            return KeepaliveStep.WAIT, left if left > 0 else self._idle
        self._pinged_at = now
        return KeepaliveStep.PING, min(self._patience, self._idle)


def _length(content: bytes) -> int:
    """How long a message is with its head."""
    return int.from_bytes(content[1:_MESSAGE_HEAD_SIZE], "big") + _MESSAGE_HEAD_SIZE


def _status(headers: Headers) -> tuple[str, str]:
    """The name of the code, and the text, in the trailers of a call."""
    text = headers[b"grpc-status"]
    number = int(text) if text.isdigit() else 2
    reason = unquote_to_bytes(headers.get(b"grpc-message", b"")).decode("utf-8", "replace")
    return (_CODES[number] if number < len(_CODES) else "UNKNOWN"), reason
