"""Connections are led to endpoints that come and go; nothing that was said is lost."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

import pytest

from levelset_machine.ports import free_port
from levelset_machine.proxy import TcpProxy
from levelset_machine.proxy_choosing import CannotListen, Endpoint

HOME = "127.0.0.1"
MB = 1024 * 1024

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Says everything again, and ends when the other does."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


def saying(word: str) -> Serve:
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.write(word.encode())

    return say


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


async def ask(port: int, text: bytes = b"") -> bytes:
    reader, writer = await asyncio.open_connection(HOME, port)
    try:
        writer.write(text)
        writer.write_eof()
        return await reader.read()
    finally:
        await closed(writer)


def break_off(writer: asyncio.StreamWriter) -> None:
    """Resets a connection."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()


class Tries:
    """Chooses the first, and counts how often."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, endpoints: Sequence[Endpoint]) -> Endpoint:
        self.count += 1
        return endpoints[0]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 -- what it waits for is the system's doing
            await asyncio.sleep(0)


async def test_what_one_side_says_the_other_hears_and_the_end_of_it_too() -> None:
    async with serving() as endpoint, proxying(endpoint) as (_, port):
        assert await ask(port, b"hello") == b"hello"


async def test_each_connection_is_led_to_any_of_the_endpoints() -> None:
    async with serving(saying("a")) as a, serving(saying("b")) as b, proxying(a, b) as (proxy, port):
        assert {await ask(port) for _ in range(40)} == {b"a", b"b"}
        assert proxy.stats.opened == 40


async def test_the_choice_can_be_repeated_with_a_seed() -> None:
    found = []
    async with serving(saying("a")) as a, serving(saying("b")) as b:
        for _ in range(2):
            async with proxying(a, b, choose=Random(3).choice) as (_, port):
                found.append([await ask(port) for _ in range(10)])
    assert found[0] == found[1]


async def test_a_sticky_client_is_led_to_where_it_was() -> None:
    async with serving(saying("a")) as a, serving(saying("b")) as b, proxying(a, b, sticky=60.0) as (_, port):
        assert len({await ask(port) for _ in range(20)}) == 1


async def test_the_answer_may_end_before_the_question_does() -> None:
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


async def test_what_is_said_before_there_is_an_endpoint_is_delivered_later() -> None:
    async with serving() as endpoint, proxying() as (proxy, port):
        asking = asyncio.create_task(ask(port, b"early"))
        await until(lambda: proxy.stats.parked == 1)
        proxy.endpoints = [endpoint]
        assert await asking == b"early"


async def test_of_more_than_twenty_that_wait_the_oldest_is_dropped() -> None:
    async with serving() as endpoint, proxying() as (proxy, port):
        asking = []
        for number in range(21):
            asking.append(asyncio.create_task(ask(port, b"%d" % number)))
            await until(lambda: proxy.stats.opened == len(asking))
        await until(lambda: proxy.stats.parked == 20)
        proxy.endpoints = [endpoint]
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert isinstance(found[0], ConnectionError) or found[0] == b""
        assert found[1:] == [b"%d" % number for number in range(1, 21)]
        assert proxy.stats.dropped == 1


async def test_of_who_waits_a_megabyte_is_held_and_the_rest_waits_with_him_and_nothing_is_lost() -> None:
    async with serving() as endpoint, proxying() as (proxy, port):
        asking = asyncio.create_task(ask(port, b"x" * (16 * MB)))
        await until(lambda: proxy.stats.parked == 1)
        link = next(iter(proxy._links))
        await until(lambda: not link.client.transport.is_reading())
        assert sum(map(len, link._held)) <= MB
        proxy.endpoints = [endpoint]
        assert len(await asking) == 16 * MB


async def test_a_client_that_goes_while_it_waits_is_forgotten() -> None:
    async with proxying() as (proxy, port):
        _, writer = await asyncio.open_connection(HOME, port)
        await until(lambda: proxy.stats.parked == 1)
        break_off(writer)
        await until(lambda: proxy.stats.open == 0)
        assert proxy.stats.parked == 0


async def test_an_endpoint_that_refuses_is_left_for_another() -> None:
    nobody = (HOME, free_port())
    async with serving() as endpoint, proxying(nobody, endpoint) as (_, port):
        assert [await ask(port, b"x") for _ in range(10)] == [b"x"] * 10


async def test_when_all_refuse_they_are_tried_again_until_one_does_not() -> None:
    late = free_port()
    tries = Tries()
    async with proxying((HOME, late), choose=tries) as (_, port):
        asking = asyncio.create_task(ask(port, b"x"))
        await until(lambda: tries.count == 2)
        async with serving(port=late):
            assert await asking == b"x"


async def test_a_change_of_the_endpoints_is_tried_at_once() -> None:
    tries = Tries()
    async with serving() as endpoint, proxying((HOME, free_port()), choose=tries) as (proxy, port):
        asking = asyncio.create_task(ask(port, b"x"))
        await until(lambda: tries.count == 1)
        proxy.endpoints = []
        await until(lambda: proxy.stats.parked == 1)
        proxy.endpoints = [endpoint]
        assert await asking == b"x"


async def test_whoever_has_waited_too_long_is_dropped() -> None:
    async with proxying((HOME, free_port()), patience=0.05) as (proxy, port):
        reader, writer = await asyncio.open_connection(HOME, port)
        assert await reader.read() == b""
        await closed(writer)
        assert proxy.stats.failed == 1


async def test_an_endpoint_that_does_not_answer_is_given_up_in_time() -> None:
    with socket.socket() as deaf:
        deaf.bind((HOME, 0))
        deaf.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        for one in fillers:
            one.setblocking(False)
            one.connect_ex(deaf.getsockname())
        tries = Tries()
        async with serving() as endpoint, proxying(deaf.getsockname(), endpoint, dial=0.1, choose=tries) as (_, port):
            assert await ask(port, b"x") == b"x"
            assert tries.count == 2
        for one in fillers:
            one.close()


async def test_a_change_of_the_endpoints_leaves_what_is_under_way_alone() -> None:
    async with serving() as old, serving(saying("new")) as new, proxying(old) as (proxy, port):
        reader, writer = await asyncio.open_connection(HOME, port)
        writer.write(b"before ")
        assert await reader.readexactly(7) == b"before "
        proxy.endpoints = [new]
        assert await ask(port) == b"new"
        writer.write(b"and after")
        writer.write_eof()
        assert await reader.read() == b"and after"
        await closed(writer)


async def test_a_slow_reader_slows_the_writer_down_and_nothing_piles_up() -> None:
    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(64):
            writer.write(b"x" * MB)
            await writer.drain()
            poured.append(1)

    poured: list[int] = []
    async with serving(pour) as endpoint, proxying(endpoint) as (proxy, port):
        reader, writer = await asyncio.open_connection(HOME, port, limit=65536)
        await until(lambda: bool(proxy._links))
        link = next(iter(proxy._links))
        await until(lambda: link.server is not None and not link.server.transport.is_reading())
        assert len(poured) < 64
        assert link.client.transport.get_write_buffer_size() < 2 * MB
        total = 0
        while data := await reader.read(MB):
            total += len(data)
        assert total == 64 * MB
        await closed(writer)


async def test_hundreds_of_connections_at_once_all_get_their_answer() -> None:
    async with serving() as endpoint, proxying(endpoint) as (proxy, port):
        found = await asyncio.gather(*(ask(port, b"%d" % one) for one in range(500)))
        assert found == [b"%d" % one for one in range(500)]
        await until(lambda: proxy.stats.open == 0)


async def test_an_endpoint_that_breaks_off_breaks_the_client_off() -> None:
    async def fall_over(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        break_off(writer)

    async with serving(fall_over) as endpoint, proxying(endpoint) as (proxy, port):
        reader, writer = await asyncio.open_connection(HOME, port)
        writer.write(b"x")
        with suppress(ConnectionError):
            assert await reader.read() == b""
        await until(lambda: proxy.stats.open == 0)
        await closed(writer)


async def test_closing_cuts_everything_and_frees_the_port() -> None:
    async with serving() as endpoint:
        proxy = TcpProxy()
        port = await proxy.listen(HOME)
        reader, writer = await asyncio.open_connection(HOME, port)
        proxy.endpoints = [endpoint]
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        async with asyncio.timeout(2):
            await proxy.close()
        assert await reader.read() == b""
        await closed(writer)
        again = TcpProxy()
        assert await again.listen(HOME, port) == port
        await again.close()
        await again.close()


async def test_closing_also_cuts_who_waits_and_who_is_being_led() -> None:
    tries = Tries()
    async with proxying((HOME, free_port()), choose=tries) as (proxy, port):
        asking = [asyncio.create_task(ask(port)) for _ in range(3)]
        await until(lambda: tries.count >= 3)
        proxy.endpoints = []
        await until(lambda: proxy.stats.parked == 3)
        proxy.endpoints = [(HOME, free_port())]
        async with asyncio.timeout(2):
            await proxy.close()
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert all(one == b"" or isinstance(one, ConnectionError) for one in found)


async def test_one_proxy_listens_in_several_places() -> None:
    async with serving() as endpoint, proxying(endpoint) as (proxy, port):
        assert await proxy.listen("127.0.0.2", port) == port
        reader, writer = await asyncio.open_connection("127.0.0.2", port)
        writer.write_eof()
        assert await reader.read() == b""
        await closed(writer)


async def test_a_port_that_is_taken_is_an_error_in_words() -> None:
    async with proxying() as (_, port):
        with pytest.raises(CannotListen, match=f"127.0.0.1:{port}: somebody else listens there") as caught:
            await TcpProxy().listen(HOME, port)
        assert (caught.value.address, caught.value.port) == (HOME, port)
    for address, number in (("192.0.2.1", 80), (HOME, 70000), ("nonsense.invalid", 80)):
        with pytest.raises(CannotListen, match=f"cannot listen on {address}:{number}"):
            await TcpProxy().listen(address, number)
