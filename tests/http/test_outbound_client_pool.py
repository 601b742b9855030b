"""Connections are pooled for the next request to the same destination, and no request is sent twice."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from levelset.errors import Unreachable
from levelset.http import CertificateAuthority, Destination, OutboundClient, PostResponse
from tests.http.peers import contexts, responding

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@contextmanager
def open_outbound_client(
    *, idle_within: float = 60.0, max_idle: int = 64, max_idle_per_host: int = 8
) -> Generator[OutboundClient, None, None]:
    client = OutboundClient(idle_within=idle_within, max_idle=max_idle, max_idle_per_host=max_idle_per_host)
    try:
        yield client
    finally:
        client.close()


async def send(client: OutboundClient, to: Destination) -> PostResponse:
    return await client.post(to, b"{}", tls=contexts()[1], largest=1000)


async def test_a_connection_is_reused_for_the_next_request_to_the_same_destination() -> None:
    async with responding(OK, OK, OK, stays=True) as peer:
        with open_outbound_client() as client:
            for path in ("/a", "/b", "/a"):
                assert await send(client, peer.to._replace(path=path)) == PostResponse(200, b"ok")
        await peer.ended.acquire()
    assert peer.connections == 1
    assert [head.split()[1] for head in peer.heads] == [b"/a", b"/b", b"/a"]


async def test_concurrent_requests_have_a_connection_each_and_only_some_are_pooled() -> None:
    async with responding(*[OK] * 4, stays=True) as peer:
        with open_outbound_client(max_idle_per_host=2) as client:
            await asyncio.gather(*[send(client, peer.to) for _ in range(4)])
            assert (peer.connections, client.idle_connections) == (4, 2)


async def test_all_destinations_together_pool_at_most_max_idle() -> None:
    async with responding(OK, stays=True) as first, responding(OK, stays=True) as second:
        with open_outbound_client(max_idle=1) as client:
            await send(client, first.to)
            await send(client, second.to)
            assert client.idle_connections == 1
            await first.ended.acquire()


async def test_a_connection_is_not_reused_for_another_name_or_tls_context() -> None:
    async with responding(OK, OK, stays=True) as peer:
        with open_outbound_client() as client:
            await send(client, peer.to)
            with pytest.raises(Unreachable, match="not trusted"):
                await send(client, peer.to._replace(name="example.com"))
            other = (await asyncio.to_thread(CertificateAuthority.create, "others")).client_context()
            with pytest.raises(Unreachable, match="not trusted"):
                await client.post(peer.to, b"{}", tls=other, largest=1000)
    assert len(peer.heads) == 1


async def test_an_idle_connection_is_closed_after_idle_within() -> None:
    async with responding(OK, stays=True) as peer:
        with open_outbound_client(idle_within=0.01) as client:
            await send(client, peer.to)
            await peer.ended.acquire()
            assert client.idle_connections == 0


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: timeout=1\r\n\r\nok",
        OK + OK,
        OK + b"and more",
    ],
)
async def test_an_unreliable_connection_is_not_pooled(response: bytes) -> None:
    async with responding(response, stays=True) as peer:
        with open_outbound_client() as client:
            assert await send(client, peer.to) == PostResponse(200, b"ok")
            assert client.idle_connections == 0
            await peer.ended.acquire()


async def test_a_pooled_connection_that_the_server_has_closed_is_not_reused() -> None:
    async with responding(OK, OK) as peer:
        with open_outbound_client() as client:
            await send(client, peer.to)
            await peer.ended.acquire()
            while client.idle_connections:  # noqa: ASYNC110 - there is no event for the close
                await asyncio.sleep(0)
            assert await send(client, peer.to) == PostResponse(200, b"ok")
    assert peer.connections == 2


async def test_a_sent_request_is_not_repeated_when_the_server_closes() -> None:
    async with responding(OK, b"", OK, stays=True) as peer:
        with open_outbound_client() as client:
            await send(client, peer.to)
            with pytest.raises(Unreachable, match="closed the connection") as caught:
                await send(client, peer.to)
            assert caught.value.is_sent
            assert len(peer.heads) == 2
            assert await send(client, peer.to) == PostResponse(200, b"ok")
    assert peer.connections == 2


async def test_a_cancelled_request_closes_its_connection() -> None:
    async with responding(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", stays=True) as peer:
        with open_outbound_client() as client:
            sending = asyncio.create_task(send(client, peer.to))
            await peer.responded.acquire()  # in part, so that the request waits for the rest
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            await peer.ended.acquire()
            assert client.idle_connections == 0


async def test_a_connection_in_use_during_close_is_not_pooled() -> None:
    async with responding(OK, stays=True) as peer:
        with open_outbound_client() as client:
            sending = asyncio.create_task(send(client, peer.to))
            await asyncio.sleep(0)
            client.close()
            await sending
            assert client.idle_connections == 0
            await peer.ended.acquire()
