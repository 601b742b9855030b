"""TcpProxy: connections are forwarded to endpoints that change, and no data is lost."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

import pytest

from levelset_machine.network import free_port
from levelset_machine.proxy import CannotListen, Endpoint, TcpProxy

HOME = "127.0.0.1"
MB = 1024 * 1024

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Echoes all data, and half-closes when the client does."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


def answering(word: str) -> Serve:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.write(word.encode())

    return answer


@asynccontextmanager
async def serving(serve: Serve = echo, port: int = 0) -> AsyncIterator[Endpoint]:
    tasks: list[Any] = []

    async def safely(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.current_task())
        try:
            await serve(reader, writer)
        except ConnectionError:
            pass
        finally:
            await closed(writer)

    server = await asyncio.start_server(safely, HOME, port, backlog=1024)
    try:
        yield HOME, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


@asynccontextmanager
async def proxying(*endpoints: Endpoint, **options: Any) -> AsyncIterator[tuple[TcpProxy, int]]:
    proxy = TcpProxy(**options)
    port = await proxy.listen(HOME)
    proxy.endpoints = endpoints
    try:
        yield proxy, port
    finally:
        await proxy.close()
        assert proxy.stats.open == 0


async def request(port: int, text: bytes = b"") -> bytes:
    reader, writer = await asyncio.open_connection(HOME, port)
    try:
        writer.write(text)
        writer.write_eof()
        return await reader.read()
    finally:
        await closed(writer)


def reset(writer: asyncio.StreamWriter) -> None:
    """Resets a connection."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()


class Tries:
    """Chooses the first endpoint, and counts the calls."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, endpoints: Sequence[Endpoint]) -> Endpoint:
        self.count += 1
        return endpoints[0]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 -- the condition has no event
            await asyncio.sleep(0)


async def test_data_and_half_close_are_forwarded() -> None:
    async with serving() as endpoint, proxying(endpoint) as (_, port):
        assert await request(port, b"hello") == b"hello"


async def test_connections_are_distributed_over_the_endpoints() -> None:
    async with serving(answering("a")) as a, serving(answering("b")) as b, proxying(a, b) as (proxy, port):
        assert {await request(port) for _ in range(40)} == {b"a", b"b"}
        assert proxy.stats.opened == 40


async def test_the_choice_is_reproducible_with_a_seed() -> None:
    found = []
    async with serving(answering("a")) as a, serving(answering("b")) as b:
        for _ in range(2):
            async with proxying(a, b, choose=Random(3).choice) as (_, port):
                found.append([await request(port) for _ in range(10)])
    assert found[0] == found[1]


async def test_a_sticky_client_keeps_its_endpoint() -> None:
    async with serving(answering("a")) as a, serving(answering("b")) as b, proxying(a, b, sticky=60.0) as (_, port):
        assert len({await request(port) for _ in range(20)}) == 1


async def test_the_server_may_half_close_before_the_client() -> None:
    async def impatient(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"enough")
        writer.write_eof()
        assert await reader.read() == b"still talking"

    async with serving(impatient) as endpoint, proxying(endpoint) as (proxy, port):
        reader, writer = await asyncio.open_connection(HOME, port)
        assert await reader.read() == b"enough"
        writer.write(b"still talking")
        await closed(writer)
        await until(lambda: proxy.stats.open == 0)


async def test_data_sent_before_there_is_an_endpoint_is_delivered_later() -> None:
    async with serving() as endpoint, proxying() as (proxy, port):
        pending = asyncio.create_task(request(port, b"early"))
        await until(lambda: proxy.stats.parked == 1)
        proxy.endpoints = [endpoint]
        assert await pending == b"early"


async def test_of_more_than_twenty_parked_connections_the_oldest_is_dropped() -> None:
    async with serving() as endpoint, proxying() as (proxy, port):
        pending = []
        for number in range(21):
            pending.append(asyncio.create_task(request(port, b"%d" % number)))
            await until(lambda: proxy.stats.opened == len(pending))
        await until(lambda: proxy.stats.parked == 20)
        proxy.endpoints = [endpoint]
        found = await asyncio.gather(*pending, return_exceptions=True)
        assert isinstance(found[0], ConnectionError) or found[0] == b""
        assert found[1:] == [b"%d" % number for number in range(1, 21)]
        assert proxy.stats.dropped == 1


async def test_a_parked_client_is_read_up_to_a_megabyte_and_nothing_is_lost() -> None:
    async with serving() as endpoint, proxying() as (proxy, port):
        pending = asyncio.create_task(request(port, b"x" * (16 * MB)))
        await until(lambda: proxy.stats.parked == 1)
        connection = next(iter(proxy._connections))
        await until(lambda: not connection.client.transport.is_reading())
        assert sum(map(len, connection._buffer)) <= MB
        proxy.endpoints = [endpoint]
        assert len(await pending) == 16 * MB


async def test_a_parked_client_that_disconnects_is_removed() -> None:
    async with proxying() as (proxy, port):
        _, writer = await asyncio.open_connection(HOME, port)
        await until(lambda: proxy.stats.parked == 1)
        reset(writer)
        await until(lambda: proxy.stats.open == 0)
        assert proxy.stats.parked == 0


async def test_if_an_endpoint_refuses_another_one_is_tried() -> None:
    closed_port = (HOME, free_port())
    async with serving() as endpoint, proxying(closed_port, endpoint) as (_, port):
        assert [await request(port, b"x") for _ in range(10)] == [b"x"] * 10


async def test_when_all_endpoints_refuse_they_are_retried() -> None:
    late = free_port()
    tries = Tries()
    async with proxying((HOME, late), choose=tries) as (_, port):
        pending = asyncio.create_task(request(port, b"x"))
        await until(lambda: tries.count == 2)
        async with serving(port=late):
            assert await pending == b"x"


async def test_changed_endpoints_are_tried_at_once() -> None:
    tries = Tries()
    async with serving() as endpoint, proxying((HOME, free_port()), choose=tries) as (proxy, port):
        pending = asyncio.create_task(request(port, b"x"))
        await until(lambda: tries.count == 1)
        proxy.endpoints = []
        await until(lambda: proxy.stats.parked == 1)
        proxy.endpoints = [endpoint]
        assert await pending == b"x"


async def test_a_client_is_dropped_after_the_retry_timeout() -> None:
    async with proxying((HOME, free_port()), retry_timeout=0.05) as (proxy, port):
        reader, writer = await asyncio.open_connection(HOME, port)
        assert await reader.read() == b""
        await closed(writer)
        assert proxy.stats.failed == 1


async def test_an_endpoint_that_does_not_accept_is_given_up_after_the_dial_timeout() -> None:
    with socket.socket() as unresponsive:
        unresponsive.bind((HOME, 0))
        unresponsive.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for one in fillers:
            one.setblocking(False)
            one.connect_ex(unresponsive.getsockname())
        tries = Tries()
        async with (
            serving() as endpoint,
            proxying(unresponsive.getsockname(), endpoint, dial_timeout=0.1, choose=tries) as (_, port),
        ):
            assert await request(port, b"x") == b"x"
            assert tries.count == 2
        for one in fillers:
            one.close()


async def test_a_change_of_the_endpoints_does_not_affect_open_connections() -> None:
    async with serving() as old, serving(answering("new")) as new, proxying(old) as (proxy, port):
        reader, writer = await asyncio.open_connection(HOME, port)
        writer.write(b"before ")
        assert await reader.readexactly(7) == b"before "
        proxy.endpoints = [new]
        assert await request(port) == b"new"
        writer.write(b"and after")
        writer.write_eof()
        assert await reader.read() == b"and after"
        await closed(writer)


async def test_a_slow_reader_slows_the_writer_down_and_buffers_stay_bounded() -> None:
    async def send_much(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(64):
            writer.write(b"x" * MB)
            await writer.drain()
            sent.append(1)

    sent: list[int] = []
    async with serving(send_much) as endpoint, proxying(endpoint) as (proxy, port):
        reader, writer = await asyncio.open_connection(HOME, port, limit=65536)
        await until(lambda: bool(proxy._connections))
        connection = next(iter(proxy._connections))
        await until(lambda: connection.server is not None and not connection.server.transport.is_reading())
        assert len(sent) < 64
        assert connection.client.transport.get_write_buffer_size() < 2 * MB
        total = 0
        while data := await reader.read(MB):
            total += len(data)
        assert total == 64 * MB
        await closed(writer)


async def test_hundreds_of_concurrent_connections_get_their_answers() -> None:
    patient = {"dial_timeout": 300.0, "retry_timeout": 300.0}  # one event loop is client, proxy and server of all
    async with serving() as endpoint, proxying(endpoint, **patient) as (proxy, port):
        found = await asyncio.gather(*(request(port, b"%d" % one) for one in range(500)))
        assert found == [b"%d" % one for one in range(500)]
        await until(lambda: proxy.stats.open == 0)


async def test_a_reset_by_the_endpoint_resets_the_client() -> None:
    async def reset_after_one_byte(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        reset(writer)

    async with serving(reset_after_one_byte) as endpoint, proxying(endpoint) as (proxy, port):
        reader, writer = await asyncio.open_connection(HOME, port)
        writer.write(b"x")
        with suppress(ConnectionError):
            assert await reader.read() == b""
        await until(lambda: proxy.stats.open == 0)
        await closed(writer)


async def test_closing_aborts_connections_and_frees_the_port() -> None:
    async with serving() as endpoint:
        proxy = TcpProxy()
        port = await proxy.listen(HOME)
        reader, writer = await asyncio.open_connection(HOME, port)
        proxy.endpoints = [endpoint]
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        async with asyncio.timeout(60):
            await proxy.close()
        assert await reader.read() == b""
        await closed(writer)
        again = TcpProxy()
        assert await again.listen(HOME, port) == port
        await again.close()
        await again.close()


async def test_closing_aborts_parked_and_dialing_connections() -> None:
    tries = Tries()
    async with proxying((HOME, free_port()), choose=tries) as (proxy, port):
        pending = [asyncio.create_task(request(port)) for _ in range(3)]
        await until(lambda: tries.count >= 3)
        proxy.endpoints = []
        await until(lambda: proxy.stats.parked == 3)
        proxy.endpoints = [(HOME, free_port())]
        async with asyncio.timeout(60):
            await proxy.close()
        found = await asyncio.gather(*pending, return_exceptions=True)
        assert all(one == b"" or isinstance(one, ConnectionError) for one in found)


async def test_one_proxy_listens_on_several_addresses() -> None:
    async with serving() as endpoint, proxying(endpoint) as (proxy, port):
        assert await proxy.listen("127.0.0.2", port) == port
        reader, writer = await asyncio.open_connection("127.0.0.2", port)
        writer.write_eof()
        assert await reader.read() == b""
        await closed(writer)


async def test_a_port_that_is_in_use_is_an_error_with_the_remedy() -> None:
    async with proxying() as (_, port):
        with pytest.raises(CannotListen, match=f"127.0.0.1:{port}: the address is already in use") as caught:
            await TcpProxy().listen(HOME, port)
        assert (caught.value.address, caught.value.port) == (HOME, port)
    for address, number in (("192.0.2.1", 80), (HOME, 70000), ("nonsense.invalid", 80)):
        with pytest.raises(CannotListen, match=f"cannot listen on {address}:{number}"):
            await TcpProxy().listen(address, number)
