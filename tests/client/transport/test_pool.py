"""Which connection a call gets, and when one is closed."""

import asyncio

import pytest

from levelset.client.transport.pool import PoolLimits
from levelset.errors import ConfigError, TimedOut, Unreachable
from tests.client.clock import virtual
from tests.client.wires import Caller, ask, listen, post, raw_server, transport_to, turn_until


async def friendly(caller: Caller) -> None:
    """Tells in every answer which connection it came over."""
    while True:
        await caller.request()
        caller.answer(b"%d" % caller.number)


async def test_a_connection_is_used_again():
    async with raw_server(friendly) as server, transport_to(server.url) as transport:
        assert [(await ask(transport)).body for _ in range(5)] == [b"1"] * 5
        assert (server.connections, transport._pool.idle) == (1, 1)


async def test_calls_at_the_same_time_have_a_connection_each():
    async with raw_server(friendly) as server, transport_to(server.url) as transport:
        answers = await asyncio.gather(*[ask(transport) for _ in range(10)])
        assert len({answer.body for answer in answers}) == 10
        assert server.connections == transport._pool.idle == 10


async def test_more_calls_than_connections_take_turns():
    async with (
        raw_server(friendly) as server,
        transport_to(server.url, limits=PoolLimits(connections=3)) as transport,
    ):
        answers = await asyncio.gather(*[ask(transport) for _ in range(50)])
        assert [answer.status for answer in answers] == [200] * 50
        assert server.connections == 3


async def test_no_more_than_the_limit_stay_idle():
    async with (
        raw_server(friendly) as server,
        transport_to(server.url, limits=PoolLimits(idle=2)) as transport,
    ):
        await asyncio.gather(*[ask(transport) for _ in range(5)])
        await turn_until(lambda: transport._pool.size == 2)
        assert transport._pool.idle == 2


async def test_streams_do_not_keep_other_calls_waiting():
    async def talk(caller: Caller) -> None:
        while True:
            first, _, _ = await caller.request()
            if "watch" in first:
                caller.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            else:
                caller.answer()

    async with listen(talk, limits=PoolLimits(connections=1)) as transport:
        streams = [await ask(transport, "/watch", is_stream=True) for _ in range(5)]
        assert (await ask(transport)).body == b"ok"
        for stream in streams:
            await stream.pieces.aclose()


async def test_who_is_cancelled_while_he_waits_his_turn_takes_nobody_elses():
    gate = asyncio.Event()

    async def talk(caller: Caller) -> None:
        while True:
            await caller.request()
            await gate.wait()
            caller.answer()

    async with listen(talk, limits=PoolLimits(connections=1)) as transport:
        first, second, third = (asyncio.create_task(ask(transport)) for _ in range(3))
        await turn_until(lambda: len(transport._pool._turns) == 2)
        gate.set()
        second.cancel()
        assert (await first).status == (await third).status == 200
        assert transport._pool._busy == 0


@virtual
async def test_waiting_for_a_turn_counts_as_waiting_for_the_answer():
    async with listen(Caller.wait_gone, limits=PoolLimits(connections=1)) as transport:
        first = asyncio.create_task(ask(transport, timeout=10))
        await turn_until(lambda: transport._pool.size == 1)
        with pytest.raises(TimedOut, match="was not reached within 2 seconds") as caught:
            await ask(transport, timeout=2)
        assert not caught.value.is_sent
        with pytest.raises(TimedOut, match="did not answer within 10 seconds"):
            await first


@virtual
async def test_a_connection_that_was_idle_for_long_is_closed():
    async with (
        raw_server(friendly) as server,
        transport_to(server.url, limits=PoolLimits(idle_within=50)) as transport,
    ):
        await ask(transport)
        await asyncio.sleep(30)
        await asyncio.gather(ask(transport), ask(transport))
        await asyncio.sleep(30)
        await ask(transport)
        assert transport._pool.size == 2
        await asyncio.sleep(30)
        assert transport._pool.size == 1
        await asyncio.sleep(30)
        assert transport._pool.size == 0
        assert transport._pool._timer is None


async def curt(caller: Caller) -> None:
    """Answers one request as if the connection would stay, and closes it."""
    await caller.request()
    caller.answer(b"%d" % caller.number)


async def test_a_connection_that_the_server_has_closed_is_not_used_again():
    async with raw_server(curt) as server, transport_to(server.url) as transport:
        for number in range(1, 4):
            assert (await post(transport)).body == b"%d" % number
            await turn_until(lambda: transport._pool.size == 0)


async def test_not_even_if_nobody_has_noticed_yet():
    closed = asyncio.Event()

    async def talk(caller: Caller) -> None:
        await caller.request()
        caller.answer(b"%d" % caller.number)
        await caller.writer.drain()
        caller.writer.write_eof()
        closed.set()
        await caller.wait_gone()

    async with raw_server(talk) as server, transport_to(server.url) as transport:
        for number in range(1, 4):
            closed.clear()
            # The event loop has had no turn between the server's end and the next call.
            assert (await post(transport)).body == b"%d" % number
            await closed.wait()
        assert server.connections == 3


async def test_a_server_that_says_408_while_nobody_asks_closes_only_an_idle_connection():
    said = asyncio.Event()

    async def talk(caller: Caller) -> None:
        await caller.request()
        caller.answer(b"%d" % caller.number)
        caller.answer(b"", "408 Request Timeout", "Connection: close")
        said.set()

    async with raw_server(talk) as server, transport_to(server.url) as transport:
        for number in range(1, 4):
            assert (await post(transport)).body == b"%d" % number
        assert server.connections == 3


def after_the_first(second: bytes):
    """Answers the first request on the first connection; hears a second one, says something else, and closes."""

    async def talk(caller: Caller) -> None:
        await caller.request()
        caller.answer(b"%d" % caller.number)
        await caller.request()
        if caller.number > 1:
            caller.answer(b"%d" % caller.number)
        caller.say(second)

    return talk


async def test_a_kept_connection_that_dies_under_a_read_is_replaced_without_a_word():
    async with listen(after_the_first(b"")) as transport:
        assert [(await ask(transport)).body for _ in range(2)] == [b"1", b"2"]


async def test_a_kept_connection_that_dies_under_a_write_is_told_because_it_may_have_been_done():
    async with listen(after_the_first(b"")) as transport:
        await post(transport)
        with pytest.raises(Unreachable, match="may have been done or not") as caught:
            await post(transport)
        assert caught.value.is_sent


async def test_a_kept_connection_that_answers_408_has_not_read_the_request():
    late = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    async with listen(after_the_first(late)) as transport:
        assert [(await post(transport)).body for _ in range(2)] == [b"1", b"2"]


async def test_a_read_that_was_answered_in_part_is_not_repeated_in_secret():
    async with listen(after_the_first(b"HTTP/1.1 200 OK\r\n")) as transport:
        await ask(transport)
        with pytest.raises(Unreachable, match="in the middle of its answer"):
            await ask(transport)


async def test_a_new_connection_that_dies_is_told_at_once():
    async def talk(caller: Caller) -> None:
        await caller.request()

    async with raw_server(talk) as server, transport_to(server.url) as transport:
        with pytest.raises(Unreachable, match="before it answered"):
            await ask(transport)
        assert server.connections == 1


# --- the end ----------------------------------------------------------------------------------------------------------


async def test_closing_ends_what_is_under_way():
    heard = asyncio.Event()

    async def talk(caller: Caller) -> None:
        first, _, _ = await caller.request()
        if "watch" in first:
            caller.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        else:
            heard.set()
        await caller.wait_gone()

    async with listen(talk, limits=PoolLimits(connections=1)) as transport:
        stream = await ask(transport, "/watch", is_stream=True)
        calls = [asyncio.create_task(ask(transport)) for _ in range(2)]
        await heard.wait()
        await transport.aclose()
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(outcome, Unreachable)
            assert "the client was closed" in str(outcome)
        with pytest.raises(Unreachable, match="the client was closed"):
            await anext(aiter(stream.pieces))
        assert transport._pool.size == 0


async def test_after_closing_nothing_is_sent():
    async with raw_server(friendly) as server, transport_to(server.url) as transport:
        await transport.aclose()
        await transport.aclose()
        with pytest.raises(Unreachable, match="the client was closed") as caught:
            await ask(transport)
        assert not caught.value.is_sent
        assert server.connections == 0


async def test_closing_ends_an_attempt_to_connect():
    # Nobody answers a handshake here: the connection is taken by the system, and no word is ever said.
    async with (
        raw_server(Caller.wait_gone) as server,
        transport_to(f"https://127.0.0.1:{server.port}", insecure=True) as transport,
    ):
        call = asyncio.create_task(ask(transport))
        await turn_until(lambda: server.connections == 1)
        await transport.aclose()
        with pytest.raises(Unreachable, match="the client was closed"):
            await call


async def test_a_cancelled_call_takes_its_connection_with_it():
    gone = asyncio.Event()

    async def talk(caller: Caller) -> None:
        await caller.request()
        await caller.wait_gone()
        gone.set()

    async with raw_server(talk) as server, transport_to(server.url) as transport:
        call = asyncio.create_task(ask(transport))
        await turn_until(lambda: server.connections == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await gone.wait()
        await turn_until(lambda: transport._pool.size == 0)


async def test_a_call_that_is_cancelled_when_its_answer_is_there_leaves_the_connection_to_others():
    async with raw_server(friendly) as server, transport_to(server.url) as transport:
        await ask(transport)
        call = asyncio.create_task(ask(transport))
        await turn_until(lambda: transport._pool.idle == 0)
        await turn_until(lambda: transport._pool.idle == 1 or call.done())
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert (await ask(transport)).body == b"1"


@pytest.mark.parametrize("limit", ["connections", "idle_within", "connect_within", "close_within", "head_bytes"])
def test_a_limit_of_nothing_makes_no_sense(limit: str):
    with pytest.raises(ConfigError, match=limit):
        PoolLimits(**{limit: 0})
    assert PoolLimits(idle=0).idle == 0
