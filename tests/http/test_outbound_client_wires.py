"""One request, one answer, over a real connection; whatever the other end does."""

import asyncio

import pytest

from levelset.errors import Unreachable
from levelset.http import Destination, Posted, Poster
from tests.http.peers import answering, contexts

LARGEST = 1000


async def send(to: Destination) -> Posted:
    poster = Poster()
    try:
        return await poster.post(to, b"{}", tls=contexts()[1], largest=LARGEST)
    finally:
        poster.close()


async def test_a_request_says_what_it_brings_and_where() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") as peer:
        assert await send(peer.to) == Posted(200, b"ok")
    [head] = peer.heads
    assert head.startswith(b"POST /path?timeout=1s HTTP/1.1\r\nHost: localhost:")
    assert b"Content-Type: application/json\r\n" in head
    assert b"Content-Length: 2\r\n" in head


@pytest.mark.parametrize(
    ("answer", "posted"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", Posted(200, b"abc")),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end", Posted(200, b"to the end")),
        (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", Posted(200, b"ok")),
        (b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n", Posted(302, b"")),
    ],
)
async def test_answers_are_read_to_their_end_and_redirects_are_not_followed(answer: bytes, posted: Posted) -> None:
    async with answering(answer) as peer:
        assert await send(peer.to) == posted


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"", "hung up"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "hung up"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "hung up"),
        (b"SSH-2.0-nothing here\r\n\r\n", "is not HTTP"),
        (b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nx", "something else"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"a" * 2000, "larger than 1000 bytes"),
    ],
)
async def test_what_is_no_whole_answer_is_none(answer: bytes, problem: str) -> None:
    async with answering(answer) as peer:
        with pytest.raises(Unreachable, match=problem):
            await send(peer.to)


async def test_somebody_else_is_not_spoken_to() -> None:
    async with answering(b"") as peer:
        with pytest.raises(Unreachable, match="not trusted") as caught:
            await send(peer.to._replace(name="example.com"))
    assert not caught.value.is_sent
    assert not peer.heads


async def test_nobody_there_is_said_without_numbers() -> None:
    await asyncio.to_thread(contexts)
    with pytest.raises(Unreachable) as caught:
        await send(Destination("127.0.0.1", 1, "localhost:1", "/", "localhost"))
    assert not caught.value.is_sent
