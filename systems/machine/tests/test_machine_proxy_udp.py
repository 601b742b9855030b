"""Packets are led to endpoints that come and go, and answers find the way back."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from levelset_machine.ports import free_port
from levelset_machine.proxy_choosing import CannotListen, Endpoint
from levelset_machine.proxy_udp import UdpProxy

HOME = "127.0.0.1"


class Peer(asyncio.DatagramProtocol):
    """A socket that remembers what it got, and answers each packet with a word in front, if it has one."""

    def __init__(self, word: bytes | None = None) -> None:
        self.word = word
        self.got: asyncio.Queue[bytes] = asyncio.Queue()
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.got.put_nowait(data)
        if self.word is not None:
            self.transport.sendto(self.word + data, addr)

    async def hear(self) -> bytes:
        async with asyncio.timeout(5):
            return await self.got.get()


@asynccontextmanager
async def serving(word: bytes | None = b"") -> AsyncIterator[tuple[Peer, Endpoint]]:
    loop = asyncio.get_running_loop()
    transport, peer = await loop.create_datagram_endpoint(lambda: Peer(word), local_addr=(HOME, 0))
    try:
        yield peer, transport.get_extra_info("sockname")
    finally:
        transport.close()


@asynccontextmanager
async def asking(port: int) -> AsyncIterator[Peer]:
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
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 -- what it waits for is the system's doing
            await asyncio.sleep(0)


async def test_a_packet_goes_there_and_its_answer_comes_back() -> None:
    async with serving(b"re: ") as (_, endpoint), proxying(endpoint) as (_, port), asking(port) as client:
        client.transport.sendto(b"hello")
        assert await client.hear() == b"re: hello"


async def test_a_client_stays_with_its_endpoint_and_clients_are_led_to_all_of_them() -> None:
    words = set()
    async with serving(b"a") as (_, a), serving(b"b") as (_, b), proxying(a, b) as (_, port):
        for _ in range(20):
            async with asking(port) as client:
                client.transport.sendto(b"!")
                first = await client.hear()
                client.transport.sendto(b"!")
                assert await client.hear() == first
                words.add(first)
    assert words == {b"a!", b"b!"}


async def test_packets_that_come_too_early_are_queued_the_newest_twenty_of_them() -> None:
    async with serving(None) as (server, endpoint), proxying() as (proxy, port), asking(port) as client:
        for number in range(25):
            client.transport.sendto(b"%d" % number)
        await until(lambda: proxy.stats.dropped == 5)
        assert proxy.stats.parked == 1
        proxy.endpoints = [endpoint]
        assert [await server.hear() for _ in range(20)] == [b"%d" % number for number in range(5, 25)]


async def test_whose_endpoint_is_removed_is_led_to_another_with_the_next_packet() -> None:
    async with serving(b"a") as (_, a), serving(b"b") as (_, b), proxying(a) as (proxy, port), asking(port) as client:
        client.transport.sendto(b"!")
        assert await client.hear() == b"a!"
        proxy.endpoints = [b]
        client.transport.sendto(b"!")
        assert await client.hear() == b"b!"


async def test_whose_endpoint_stays_stays_with_it_when_others_come() -> None:
    async with serving(b"a") as (_, a), serving(b"b") as (_, b), proxying(a) as (proxy, port), asking(port) as client:
        client.transport.sendto(b"!")
        assert await client.hear() == b"a!"
        proxy.endpoints = [b, a]
        for _ in range(10):
            client.transport.sendto(b"!")
            assert await client.hear() == b"a!"


async def test_an_endpoint_that_refuses_is_left_for_another() -> None:
    nobody = (HOME, free_port(udp=True))
    async with serving(b"a") as (_, a), proxying(nobody) as (proxy, port), asking(port) as client:
        client.transport.sendto(b"lost")
        await until(lambda: proxy.stats.failed == 1)
        proxy.endpoints = [a]
        client.transport.sendto(b"found")
        assert await client.hear() == b"afound"


async def test_a_silent_client_is_forgotten() -> None:
    async with serving() as (_, endpoint), proxying(endpoint, idle=0.05) as (proxy, port), asking(port) as client:
        client.transport.sendto(b"x")
        await client.hear()
        assert proxy.stats.open == 1
        await until(lambda: proxy.stats.open == 0)


async def test_a_port_that_is_taken_is_an_error_in_words() -> None:
    async with proxying() as (_, port):
        with pytest.raises(CannotListen, match="somebody else listens there"):
            await UdpProxy().listen(HOME, port)


async def test_closing_frees_the_port_also_while_a_socket_is_being_opened() -> None:
    async with serving() as (_, endpoint):
        proxy = UdpProxy()
        port = await proxy.listen(HOME)
        async with asking(port) as client:
            client.transport.sendto(b"x")
            await until(lambda: proxy.stats.parked == 1)
            proxy.endpoints = [endpoint]
            await proxy.close()
        again = UdpProxy()
        assert await again.listen(HOME, port) == port
        await again.close()
