"""Arbitrary bytes in arbitrary chunks result in a response or an Unreachable."""

import asyncio
import socket
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from levelset.client.transport.http1 import Connection, Exchange
from levelset.client.transport.interface import Call, Response
from levelset.errors import Unreachable
from tests.aio.virtual_time import run

RESPONSES = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-One: a\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-One: a\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nT: t\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\nX-Two: b\r\n\r\nHTTP/1.1 200 OK\r\nX-One: a\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.0 200 OK\r\nX-One: a\r\n\r\nhello",
]


class FakeTransport(asyncio.Transport):
    """A transport without a peer."""

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


class FakePool:
    """The pool of one connection."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(1024))
        self.head_bytes = 600
        self.body_bytes = 2000
        self.returned = 0

    def put_back(self, connection: Connection, /) -> None:
        self.returned += 1

    def remove(self, connection: Connection, /) -> None: ...


async def response_to(chunks: Iterable[bytes], **call: Any) -> tuple[Response, bytes, FakePool]:
    """The response in these bytes, after which the server closes the connection."""
    pool, transport = FakePool(), FakeTransport()
    try:
        connection = Connection(pool)
        connection.connection_made(transport)
        request = Call(**{"method": "GET", "path": "/", **call})
        future = asyncio.get_running_loop().create_future()
        exchange = Exchange(request, future, connection, "http://test", 100, is_reused=False)
        connection.send(b"", exchange)
        for chunk in chunks:
            if not transport.is_ended and pool.returned == 0:
                connection.get_buffer(-1)[: len(chunk)] = chunk
                connection.buffer_updated(len(chunk))
        connection.connection_lost(None)
        response = await exchange.response
        body = response.body if response.stream is None else b"".join([chunk async for chunk in response.stream])
        return response, body, pool
    finally:
        transport.sock.close()
        transport.other.close()


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    ends = sorted({min(place, len(data)) for place in places} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False) if start < end]


@pytest.mark.parametrize("number", range(len(RESPONSES)))
@given(places=st.lists(st.integers(0, 150)), is_stream=st.booleans())
@example(places=list(range(150)), is_stream=False)
@example(places=list(range(150)), is_stream=True)
def test_a_response_reads_the_same_however_it_is_cut(number: int, places: list[int], is_stream: bool):
    response, body, pool = run(response_to(cut(RESPONSES[number], places), is_stream=is_stream))
    assert (response.status, body, list(response.headers)[-1][1] in {"a", "5"}) == (200, b"hello", True)
    assert response.headers.get("x-one") == "a"
    assert response.headers.get("x-two") is None
    assert pool.returned == (0 if number == 3 else 1)


WORDS = [
    *RESPONSES,
    b"HTTP/1.1 204 N\r\n",
    b"\r\n",
    b"\r\n\r\n",
    b"0\r\n",
    b"Content-Length: 9\r\n",
    b"Connection: close\r\n",
]


@given(
    chunks=st.lists(st.sampled_from(WORDS) | st.binary(min_size=1, max_size=300), max_size=12),
    method=st.sampled_from(["GET", "HEAD", "POST"]),
    is_stream=st.booleans(),
)
def test_arbitrary_bytes_are_a_response_or_unreachable(chunks: list[bytes], method: str, is_stream: bool):
    try:
        response, body, _ = run(response_to(chunks, method=method, is_stream=is_stream))
    except Unreachable as error:
        assert "http://test" in str(error)
    else:
        assert response.status >= 100
        assert isinstance(body, bytes)
