"""SPDY/3.1 sessions: streams, and what violates the protocol."""

import zlib

import pytest

from levelset.http import SpdySession, SpdyStream
from levelset.http.spdy import _DICTIONARY  # pyright: ignore[reportPrivateUsage]  # the constant of the protocol


class Talk:
    """A session whose client is the test."""

    def __init__(self) -> None:
        self.sent = b""
        self.streams: list[SpdyStream] = []
        self.failures: list[str] = []
        self.session = SpdySession(self._send, self.streams.append, self.failures.append)
        self._deflate = zlib.compressobj(zdict=_DICTIONARY)

    def _send(self, data: bytes) -> None:
        self.sent += data

    def open(self, number: int, **headers: str) -> None:
        texts = [text.encode() for pair in headers.items() for text in pair]
        block = len(headers).to_bytes(4, "big") + b"".join(len(one).to_bytes(4, "big") + one for one in texts)
        packed = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        self.control(1, number.to_bytes(4, "big") + bytes(6) + packed)

    def control(self, kind: int, payload: bytes) -> None:
        frame = b"\x80\x03" + kind.to_bytes(2, "big") + b"\0" + len(payload).to_bytes(3, "big") + payload
        for index in range(len(frame)):  # frames may arrive in any pieces
            self.session.receive(frame[index : index + 1])

    def data(self, number: int, data: bytes, *, fin: bool = False) -> None:
        self.session.receive(number.to_bytes(4, "big") + bytes([fin]) + len(data).to_bytes(3, "big") + data)


def test_a_stream_has_headers_and_data_both_ways() -> None:
    talk, received = Talk(), list[bytes]()
    talk.open(1, StreamType="data", port="80")
    talk.open(3, streamtype="error")
    one, other = talk.streams
    assert (one.headers, other.headers) == ({"streamtype": "data", "port": "80"}, {"streamtype": "error"})
    assert talk.sent.count(b"\x80\x03\x00\x02") == 2  # both are accepted
    one.on_data = received.append
    talk.data(1, b"hello")
    talk.data(1, b"", fin=True)
    talk.data(1, b"too late")
    assert (received, one.is_ended, one.is_over) == ([b"hello"], True, False)
    talk.sent = b""
    one.write(b"hi")
    one.finish()
    one.write(b"too late")
    assert talk.sent == b"\0\0\0\x01\0\0\0\x02hi" + b"\0\0\0\x01\x01\0\0\0"
    assert one.is_over


def test_pings_of_the_client_are_answered() -> None:
    talk = Talk()
    talk.control(6, (5).to_bytes(4, "big"))
    talk.control(6, (6).to_bytes(4, "big"))  # an answer to one of ours
    assert talk.sent == b"\x80\x03\x00\x06\0\0\0\x04\0\0\0\x05"


def test_a_reset_or_the_end_of_the_session_ends_streams() -> None:
    talk = Talk()
    talk.open(1)
    talk.open(3)
    talk.control(3, (1).to_bytes(4, "big") + bytes(4))
    assert [one.is_ended for one in talk.streams] == [True, False]
    talk.control(7, bytes(8))
    assert talk.streams[1].is_ended


@pytest.mark.parametrize(
    "frame",
    [
        b"\x80\x02\x00\x01\0\0\0\x00",  # another version
        b"\x80\x03\x00\x01\0\xff\xff\xff",  # a frame of 16 MB
        b"\x80\x03\x00\x01\0\0\0\x0e" + (1).to_bytes(4, "big") + bytes(6) + b"\xff" * 4,  # not compressed
    ],
)
def test_a_violation_of_the_protocol_ends_the_session(frame: bytes) -> None:
    talk = Talk()
    talk.session.receive(frame)
    assert len(talk.failures) == 1
    talk.open(3)
    assert talk.streams == []


def test_a_stream_of_a_wrong_number_and_headers_that_are_too_large_are_refused() -> None:
    for number, value in ((2, "a"), (1, "a" * 100_000)):
        talk = Talk()
        talk.open(number, name=value)
        assert (talk.streams, len(talk.failures)) == ([], 1)
    talk = Talk()
    talk.open(3)
    talk.open(1)
    assert (len(talk.streams), talk.failures) == (1, ["stream 1 cannot be opened"])
