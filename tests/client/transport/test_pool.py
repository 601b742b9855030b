"""Which connection a call gets, and when one is closed."""

import asyncio

import pytest

from levelset.client.transport.pool import PoolLimits
from levelset.errors import ConfigError, TimedOut, Unreachable
from tests.client.transport.raw_server import (
    RawConnection,
    listen,
    loop_until,
    post,
    raw_server,
    send_call,
    transport_to,
)
from tests.client.transport.virtual_time import virtual


async def friendly(connection: RawConnection) -> None:
    """Responds with the number of the connection."""
    while True:
        await connection.request()
        connection.respond(b"%d" % connection.number)


async def test_a_connection_is_reused():
    async with raw_server(friendly) as server, transport_to(server.url) as transport:
        assert [(await send_call(transport)).body for _ in range(5)] == [b"1"] * 5
        assert (server.connections, transport._pool.idle) == (1, 1)


async def test_concurrent_calls_have_a_connection_each():
    async with raw_server(friendly) as server, transport_to(server.url) as transport:
        responses = await asyncio.gather(*[send_call(transport) for _ in range(10)])
        assert len({response.body for response in responses}) == 10
        assert server.connections == transport._pool.idle == 10


async def test_calls_beyond_the_connection_limit_wait():
    async with (
        raw_server(friendly) as server,
        transport_to(server.url, limits=PoolLimits(connections=3)) as transport,
    ):
        responses = await asyncio.gather(*[send_call(transport) for _ in range(50)])
        assert [response.status for response in responses] == [200] * 50
        assert server.connections == 3


async def test_no_more_than_the_limit_stay_idle():
    async with (
        raw_server(friendly) as server,
        transport_to(server.url, limits=PoolLimits(idle=2)) as transport,
    ):
        await asyncio.gather(*[send_call(transport) for _ in range(5)])
        await loop_until(lambda: transport._pool.size == 2)
        assert transport._pool.idle == 2


async def test_streams_do_not_block_other_calls():
    async def script(connection: RawConnection) -> None:
        while True:
            first, _, _ = await connection.request()
            if "watch" in first:
                connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            else:
                connection.respond()

    async with listen(script, limits=PoolLimits(connections=1)) as transport:
        streams = [await send_call(transport, "/watch", is_stream=True) for _ in range(5)]
        assert (await send_call(transport)).body == b"ok"
        for stream in streams:
            await stream.stream.aclose()


async def test_a_call_cancelled_while_waiting_does_not_consume_a_permit():
    gate = asyncio.Event()

    async def script(connection: RawConnection) -> None:
        while True:
            await connection.request()
            await gate.wait()
            connection.respond()

    async with listen(script, limits=PoolLimits(connections=1)) as transport:
        first, second, third = (asyncio.create_task(send_call(transport)) for _ in range(3))
        await loop_until(lambda: len(transport._pool._waiters) == 2)
        gate.set()
        second.cancel()
        assert (await first).status == (await third).status == 200
        assert transport._pool._busy == 0


@virtual
async def test_waiting_for_a_permit_counts_against_the_timeout():
    async with listen(RawConnection.wait_gone, limits=PoolLimits(connections=1)) as transport:
        first = asyncio.create_task(send_call(transport, timeout=10))
        await loop_until(lambda: transport._pool.size == 1)
        with pytest.raises(TimedOut, match="was not reached within 2 seconds") as caught:
            await send_call(transport, timeout=2)
        assert not caught.value.is_sent
        with pytest.raises(TimedOut, match="did not respond within 10 seconds"):
            await first


@virtual
async def test_a_connection_that_is_idle_for_too_long_is_closed():
    async with (
        raw_server(friendly) as server,
        transport_to(server.url, limits=PoolLimits(idle_within=50)) as transport,
    ):
        await send_call(transport)
        await asyncio.sleep(30)
        await asyncio.gather(send_call(transport), send_call(transport))
        await asyncio.sleep(30)
        await send_call(transport)
        assert transport._pool.size == 2
        await asyncio.sleep(30)
        assert transport._pool.size == 1
        await asyncio.sleep(30)
        assert transport._pool.size == 0
        assert transport._pool._timer is None


async def curt(connection: RawConnection) -> None:
    """Responds to one request as if the connection would stay open, and closes it."""
    await connection.request()
    connection.respond(b"%d" % connection.number)


async def test_a_connection_that_the_server_has_closed_is_not_reused():
    async with raw_server(curt) as server, transport_to(server.url) as transport:
        for number in range(1, 4):
            assert (await post(transport)).body == b"%d" % number
            await loop_until(lambda: transport._pool.size == 0)


async def test_not_even_if_the_event_loop_has_not_noticed_yet():
    closed = asyncio.Event()

    async def script(connection: RawConnection) -> None:
        await connection.request()
        connection.respond(b"%d" % connection.number)
        await connection.writer.drain()
        connection.writer.write_eof()
        closed.set()
        await connection.wait_gone()

    async with raw_server(script) as server, transport_to(server.url) as transport:
        for number in range(1, 4):
            closed.clear()
            # The event loop has not run between the disconnect and the next call.
            assert (await post(transport)).body == b"%d" % number
            await closed.wait()
        assert server.connections == 3


async def test_an_unsolicited_408_closes_only_the_idle_connection():
    said = asyncio.Event()

    async def script(connection: RawConnection) -> None:
        await connection.request()
        connection.respond(b"%d" % connection.number)
        connection.respond(b"", "408 Request Timeout", "Connection: close")
        said.set()

    async with raw_server(script) as server, transport_to(server.url) as transport:
        for number in range(1, 4):
            assert (await post(transport)).body == b"%d" % number
        assert server.connections == 3


def after_the_first(second: bytes):
    """Responds to the first request on the first connection; reads a second one, writes other bytes, and closes."""

    async def script(connection: RawConnection) -> None:
        await connection.request()
        connection.respond(b"%d" % connection.number)
        await connection.request()
        if connection.number > 1:
            connection.respond(b"%d" % connection.number)
        connection.write(second)

    return script


async def test_a_read_on_a_dead_pooled_connection_is_repeated_on_a_new_one():
    async with listen(after_the_first(b"")) as transport:
        assert [(await send_call(transport)).body for _ in range(2)] == [b"1", b"2"]


async def test_a_write_on_a_dead_pooled_connection_is_reported_because_it_may_have_taken_effect():
    async with listen(after_the_first(b"")) as transport:
        await post(transport)
        with pytest.raises(Unreachable, match="may have taken effect") as caught:
            await post(transport)
        assert caught.value.is_sent


async def test_a_pooled_connection_with_a_408_has_not_read_the_request():
    late = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    async with listen(after_the_first(late)) as transport:
        assert [(await post(transport)).body for _ in range(2)] == [b"1", b"2"]


async def test_a_read_with_a_partial_response_is_not_repeated():
    async with listen(after_the_first(b"HTTP/1.1 200 OK\r\n")) as transport:
        await send_call(transport)
        with pytest.raises(Unreachable, match="in the middle of its response"):
            await send_call(transport)


async def test_a_new_connection_that_dies_is_reported_at_once():
    async def script(connection: RawConnection) -> None:
        await connection.request()

    async with raw_server(script) as server, transport_to(server.url) as transport:
        with pytest.raises(Unreachable, match="before it responded"):
            await send_call(transport)
        assert server.connections == 1


# --- the end ----------------------------------------------------------------------------------------------------------


async def test_closing_ends_calls_in_flight():
    received = asyncio.Event()

    async def script(connection: RawConnection) -> None:
        first, _, _ = await connection.request()
        if "watch" in first:
            connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        else:
            received.set()
        await connection.wait_gone()

    async with listen(script, limits=PoolLimits(connections=1)) as transport:
        stream = await send_call(transport, "/watch", is_stream=True)
        calls = [asyncio.create_task(send_call(transport)) for _ in range(2)]
        await received.wait()
        await transport.aclose()
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(outcome, Unreachable)
            assert "the client was closed" in str(outcome)
        with pytest.raises(Unreachable, match="the client was closed"):
            await anext(aiter(stream.stream))
        assert transport._pool.size == 0


async def test_after_closing_nothing_is_sent():
    async with raw_server(friendly) as server, transport_to(server.url) as transport:
        await transport.aclose()
        await transport.aclose()
        with pytest.raises(Unreachable, match="the client was closed") as caught:
            await send_call(transport)
        assert not caught.value.is_sent
        assert server.connections == 0


async def test_closing_ends_an_attempt_to_connect():
    # The handshake never completes: the system accepts the connection, and the server never reads.
    async with (
        raw_server(RawConnection.wait_gone) as server,
        transport_to(f"https://127.0.0.1:{server.port}", insecure=True) as transport,
    ):
        call = asyncio.create_task(send_call(transport))
        await loop_until(lambda: server.connections == 1)
        await transport.aclose()
        with pytest.raises(Unreachable, match="the client was closed"):
            await call


async def test_a_cancelled_call_closes_its_connection():
    gone = asyncio.Event()

    async def script(connection: RawConnection) -> None:
        await connection.request()
        await connection.wait_gone()
        gone.set()

    async with raw_server(script) as server, transport_to(server.url) as transport:
        call = asyncio.create_task(send_call(transport))
        await loop_until(lambda: server.connections == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await gone.wait()
        await loop_until(lambda: transport._pool.size == 0)


async def test_a_call_cancelled_after_its_response_returns_the_connection_to_the_pool():
    async with raw_server(friendly) as server, transport_to(server.url) as transport:
        await send_call(transport)
        call = asyncio.create_task(send_call(transport))
        await loop_until(lambda: transport._pool.idle == 0)
        await loop_until(lambda: transport._pool.idle == 1 or call.done())
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert (await send_call(transport)).body == b"1"


@pytest.mark.parametrize("limit", ["connections", "idle_within", "connect_within", "close_within", "head_bytes"])
def test_a_limit_of_zero_is_refused(limit: str):
    with pytest.raises(ConfigError, match=limit):
        PoolLimits(**{limit: 0})
    assert PoolLimits(idle=0).idle == 0
