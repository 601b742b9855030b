"""One request and its response over a real connection, with misbehaving servers."""

import asyncio

import pytest

from levelset.errors import Unreachable
from levelset.http import Destination, OutboundClient, PostResponse
from tests.http.peers import contexts, responding

LARGEST = 1000


async def send(to: Destination) -> PostResponse:
    poster = OutboundClient()
    try:
        return await poster.post(to, b"{}", tls=contexts()[1], largest=LARGEST)
    finally:
        poster.close()


async def test_a_request_has_its_path_host_and_json_body() -> None:
    async with responding(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") as peer:
        assert await send(peer.to) == PostResponse(200, b"ok")
    [head] = peer.heads
    assert head.startswith(b"POST /path?timeout=1s HTTP/1.1\r\nHost: localhost:")
    assert b"Content-Type: application/json\r\n" in head
    assert b"Content-Length: 2\r\n" in head


@pytest.mark.parametrize(
    ("response", "posted"),
    [
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
            PostResponse(200, b"abc"),
        ),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end", PostResponse(200, b"to the end")),
        (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", PostResponse(200, b"ok")),
        (b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n", PostResponse(302, b"")),
    ],
)
async def test_responses_are_read_completely_and_redirects_not_followed(response: bytes, posted: PostResponse) -> None:
    async with responding(response) as peer:
        assert await send(peer.to) == posted


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (b"", "closed the connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "closed the connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "closed the connection"),
        (b"SSH-2.0-nothing here\r\n\r\n", "is not HTTP"),
        (b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nx", "another protocol"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"a" * 2000, "larger than 1000 bytes"),
    ],
)
async def test_an_incomplete_response_is_unreachable(response: bytes, problem: str) -> None:
    async with responding(response) as peer:
        with pytest.raises(Unreachable, match=problem):
            await send(peer.to)


async def test_a_server_with_another_certificate_name_is_not_trusted() -> None:
    async with responding(b"") as peer:
        with pytest.raises(Unreachable, match="not trusted") as caught:
            await send(peer.to._replace(name="example.com"))
    assert not caught.value.is_sent
    assert not peer.heads


async def test_a_refused_connection_is_reported_without_errno() -> None:
    await asyncio.to_thread(contexts)
    with pytest.raises(Unreachable) as caught:
        await send(Destination("127.0.0.1", 1, "localhost:1", "/", "localhost"))
    assert not caught.value.is_sent
