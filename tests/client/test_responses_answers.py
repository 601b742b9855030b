"""Any bytes whatever, in any pieces: a connection makes an answer or an Unreachable of them, and nothing else."""

import asyncio
import socket
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from levelset.client.transport.http1 import Connection, Exchange
from levelset.client.transport.interface import Answer, Call
from levelset.errors import Unreachable
from tests.aio.clock import run

ANSWERS = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-One: a\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-One: a\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nT: t\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\nX-Two: b\r\n\r\nHTTP/1.1 200 OK\r\nX-One: a\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.0 200 OK\r\nX-One: a\r\n\r\nhello",
]


class Paper(asyncio.Transport):
    """A transport that leads nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.sock, self.other = socket.socketpair()
        self.is_ended = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.sock if name == "socket" else default

    def write(self, data: object) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.is_ended

    def close(self) -> None:
        self.is_ended = True

    def abort(self) -> None:
        self.is_ended = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Desk:
    """The owner of one connection."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(1024))
        self.head_bytes = 600
        self.body_bytes = 2000
        self.given = 0

    def give(self, connection: Connection, /) -> None:
        self.given += 1

    def forget(self, connection: Connection, /) -> None: ...


async def answer_to(pieces: Iterable[bytes], **call: Any) -> tuple[Answer, bytes, Desk]:
    """What becomes of these bytes, after which the server closes the connection."""
    desk, paper = Desk(), Paper()
    try:
        connection = Connection(desk)
        connection.connection_made(paper)
        request = Call(**{"method": "GET", "path": "/", **call})
        future = asyncio.get_running_loop().create_future()
        exchange = Exchange(request, future, connection, "http://test", 100, is_reused=False)
        connection.ask(b"", exchange)
        for piece in pieces:
            if not paper.is_ended and desk.given == 0:
                connection.get_buffer(-1)[: len(piece)] = piece
                connection.buffer_updated(len(piece))
        connection.connection_lost(None)
        answer = await exchange.answer
        body = answer.body if answer.pieces is None else b"".join([piece async for piece in answer.pieces])
        return answer, body, desk
    finally:
        paper.sock.close()
        paper.other.close()


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    ends = sorted({min(place, len(data)) for place in places} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False) if start < end]


@pytest.mark.parametrize("number", range(len(ANSWERS)))
@given(places=st.lists(st.integers(0, 150)), is_stream=st.booleans())
@example(places=list(range(150)), is_stream=False)
@example(places=list(range(150)), is_stream=True)
def test_an_answer_reads_the_same_however_it_is_cut(number: int, places: list[int], is_stream: bool):
    answer, body, desk = run(answer_to(cut(ANSWERS[number], places), is_stream=is_stream))
    assert (answer.status, body, list(answer.headers)[-1][1] in {"a", "5"}) == (200, b"hello", True)
    assert answer.headers.get("x-one") == "a"
    assert answer.headers.get("x-two") is None
    assert desk.given == (0 if number == 3 else 1)


WORDS = [
    *ANSWERS,
    b"HTTP/1.1 204 N\r\n",
    b"\r\n",
    b"\r\n\r\n",
    b"0\r\n",
    b"Content-Length: 9\r\n",
    b"Connection: close\r\n",
]


@given(
    pieces=st.lists(st.sampled_from(WORDS) | st.binary(min_size=1, max_size=300), max_size=12),
    method=st.sampled_from(["GET", "HEAD", "POST"]),
    is_stream=st.booleans(),
)
def test_whatever_comes_is_an_answer_or_unreachable(pieces: list[bytes], method: str, is_stream: bool):
    try:
        answer, body, _ = run(answer_to(pieces, method=method, is_stream=is_stream))
    except Unreachable as error:
        assert "http://test" in str(error)
    else:
        assert answer.status >= 100
        assert isinstance(body, bytes)
