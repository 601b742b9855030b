"""One request, one answer, over a real connection; whatever the other end does."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache

import pytest

from levelset.errors import Unreachable
from levelset.web import Authority, Destination, Posted, post

LARGEST = 1000


@cache
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority = Authority.create("tests")
    return authority.server_context(authority.issue_server(["localhost"], ["127.0.0.1"])), authority.client_context()


@asynccontextmanager
async def answering(answer: bytes) -> AsyncGenerator[tuple[Destination, list[bytes]], None]:
    """A server that reads a request and says this, whatever it is."""
    server_side, _ = await asyncio.to_thread(contexts)
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        seen.append(await reader.readexactly(2))
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_side)
    port = server.sockets[0].getsockname()[1]
    try:
        yield Destination("127.0.0.1", port, f"localhost:{port}", "/path?timeout=1s", "localhost"), seen
    finally:
        server.close()


async def send(to: Destination) -> Posted:
    return await post(to, b"{}", tls=contexts()[1], largest=LARGEST)


async def test_a_request_says_what_it_brings_and_where() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") as (to, seen):
        assert await send(to) == Posted(200, b"ok")
    head, body = seen
    assert head.startswith(b"POST /path?timeout=1s HTTP/1.1\r\nHost: localhost:")
    assert b"Content-Type: application/json\r\n" in head
    assert body == b"{}"


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
    async with answering(answer) as (to, _):
        assert await send(to) == posted


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"", "hung up"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "hung up"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "hung up"),
        (b"SSH-2.0-nothing here\r\n\r\n", "is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"a" * 2000, "larger than 1000 bytes"),
    ],
)
async def test_what_is_no_whole_answer_is_none(answer: bytes, problem: str) -> None:
    async with answering(answer) as (to, _):
        with pytest.raises(Unreachable, match=problem):
            await send(to)


async def test_somebody_else_is_not_spoken_to() -> None:
    async with answering(b"") as (to, seen):
        with pytest.raises(Unreachable, match="not trusted") as caught:
            await send(to._replace(name="example.com"))
    assert not caught.value.is_sent
    assert not seen


async def test_nobody_there_is_said_without_numbers() -> None:
    await asyncio.to_thread(contexts)
    with pytest.raises(Unreachable) as caught:
        await send(Destination("127.0.0.1", 1, "localhost:1", "/", "localhost"))
    assert not caught.value.is_sent
