"""UdpProxy: packets are forwarded to endpoints that change, and replies to the client."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from levelset_machine.network import free_port
from levelset_machine.proxy import CannotListen, Endpoint, UdpProxy

HOME = "127.0.0.1"


class Peer(asyncio.DatagramProtocol):
    """A socket that queues received packets, and answers each one with a prefix, if it has one."""

    def __init__(self, prefix: bytes | None = None) -> None:
        self.prefix = prefix
        self.received: asyncio.Queue[bytes] = asyncio.Queue()
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.received.put_nowait(data)
        if self.prefix is not None:
            self.transport.sendto(self.prefix + data, addr)

    async def receive(self) -> bytes:
        async with asyncio.timeout(60):
            return await self.received.get()


@asynccontextmanager
async def serving(prefix: bytes | None = b"") -> AsyncIterator[tuple[Peer, Endpoint]]:
    loop = asyncio.get_running_loop()
    transport, peer = await loop.create_datagram_endpoint(lambda: Peer(prefix), local_addr=(HOME, 0))
    try:
        yield peer, transport.get_extra_info("sockname")
    finally:
        transport.close()


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Peer]:
    loop = asyncio.get_running_loop()
    transport, peer = await loop.create_datagram_endpoint(Peer, remote_addr=(HOME, port))
    try:
        yield peer
    finally:
        transport.close()


@asynccontextmanager
async def proxying(*endpoints: Endpoint, **options: Any) -> AsyncIterator[tuple[UdpProxy, int]]:
    proxy = UdpProxy(**options)
    port = await proxy.listen(HOME)
    proxy.endpoints = endpoints
    try:
        yield proxy, port
    finally:
        await proxy.close()
        assert proxy.stats.open == 0


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 -- the condition has no event
            await asyncio.sleep(0)


async def test_a_packet_is_forwarded_and_its_reply_returned() -> None:
    async with serving(b"re: ") as (_, endpoint), proxying(endpoint) as (_, port), connected(port) as client:
        client.transport.sendto(b"hello")
        assert await client.receive() == b"re: hello"


async def test_a_client_keeps_its_endpoint_and_clients_are_distributed() -> None:
    replies = set()
    async with serving(b"a") as (_, a), serving(b"b") as (_, b), proxying(a, b) as (_, port):
        for _ in range(20):
            async with connected(port) as client:
                client.transport.sendto(b"!")
                first = await client.receive()
                client.transport.sendto(b"!")
                assert await client.receive() == first
                replies.add(first)
    assert replies == {b"a!", b"b!"}


async def test_the_newest_twenty_packets_are_queued_until_there_is_an_endpoint() -> None:
    async with serving(None) as (server, endpoint), proxying() as (proxy, port), connected(port) as client:
        for number in range(25):
            client.transport.sendto(b"%d" % number)
        await until(lambda: proxy.stats.dropped == 5)
        assert proxy.stats.parked == 1
        proxy.endpoints = [endpoint]
        assert [await server.receive() for _ in range(20)] == [b"%d" % number for number in range(5, 25)]


async def test_a_client_whose_endpoint_is_removed_gets_another_one_with_its_next_packet() -> None:
    async with (
        serving(b"a") as (_, a),
        serving(b"b") as (_, b),
        proxying(a) as (proxy, port),
        connected(port) as client,
    ):
        client.transport.sendto(b"!")
        assert await client.receive() == b"a!"
        proxy.endpoints = [b]
        client.transport.sendto(b"!")
        assert await client.receive() == b"b!"


async def test_a_client_keeps_its_endpoint_when_others_are_added() -> None:
    async with (
        serving(b"a") as (_, a),
        serving(b"b") as (_, b),
        proxying(a) as (proxy, port),
        connected(port) as client,
    ):
        client.transport.sendto(b"!")
        assert await client.receive() == b"a!"
        proxy.endpoints = [b, a]
        for _ in range(10):
            client.transport.sendto(b"!")
            assert await client.receive() == b"a!"


async def test_a_client_whose_endpoint_refuses_gets_another_one() -> None:
    closed_port = (HOME, free_port(udp=True))
    async with serving(b"a") as (_, a), proxying(closed_port) as (proxy, port), connected(port) as client:
        client.transport.sendto(b"lost")
        await until(lambda: proxy.stats.failed == 1)
        proxy.endpoints = [a]
        client.transport.sendto(b"found")
        assert await client.receive() == b"afound"


async def test_an_idle_client_is_removed() -> None:
    async with serving() as (_, endpoint), proxying(endpoint, idle=0.05) as (proxy, port), connected(port) as client:
        client.transport.sendto(b"x")
        await client.receive()
        assert proxy.stats.open == 1
        await until(lambda: proxy.stats.open == 0)


async def test_a_port_that_is_in_use_is_an_error_with_the_remedy() -> None:
    async with proxying() as (_, port):
        with pytest.raises(CannotListen, match="the address is already in use"):
            await UdpProxy().listen(HOME, port)


async def test_closing_frees_the_port_also_while_a_socket_is_being_opened() -> None:
    async with serving() as (_, endpoint):
        proxy = UdpProxy()
        port = await proxy.listen(HOME)
        async with connected(port) as client:
            client.transport.sendto(b"x")
            await until(lambda: proxy.stats.parked == 1)
            proxy.endpoints = [endpoint]
            await proxy.close()
        again = UdpProxy()
        assert await again.listen(HOME, port) == port
        await again.close()
