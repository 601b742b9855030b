"""What a connection makes of servers that behave, and of those that do not."""

import asyncio

import pytest

from levelset.client.transport.pool import PoolLimits
from levelset.errors import TimedOut, Unreachable
from tests.client.clock import virtual
from tests.client.wires import Caller, ask, listen, post, read, turn_until

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def saying(*data: bytes):
    """Hears a request, says something, and closes."""

    async def talk(caller: Caller) -> None:
        await caller.request()
        caller.say(*data)

    return talk


def staying(*data: bytes):
    """Says the same in answer to every request, and never closes."""

    async def talk(caller: Caller) -> None:
        while True:
            await caller.request()
            caller.say(*data)

    return talk


async def silent(caller: Caller) -> None:
    await caller.wait_gone()


async def test_status_headers_and_body_come_back():
    talk = saying(b"HTTP/1.1 418 Teapot\r\nX-One: 1\r\nWarning: a\r\nwarning: b \r\nContent-Length: 5\r\n\r\nhello")
    async with listen(talk) as transport:
        answer = await ask(transport)
    assert (answer.status, answer.body, answer.pieces) == (418, b"hello", None)
    assert answer.headers.get("x-one") == "1"
    assert answer.headers.get_all("Warning") == ("a", "b")


async def test_a_body_in_tiny_chunks_is_whole_in_the_end():
    chunks = b"".join(b"1;ext=%d\r\n%c\r\n" % (number, number % 26 + 97) for number in range(5000))
    async with listen(staying(CHUNKED, chunks, b"0\r\nTrailer: x\r\n\r\n")) as transport:
        for _ in range(2):
            answer = await ask(transport)
            assert len(answer.body) == 5000
            assert answer.body.startswith(b"abcdef")
            assert answer.headers.get("trailer") is None
        assert transport._pool.size == 1


async def test_an_answer_that_comes_byte_by_byte_is_understood():
    async def talk(caller: Caller) -> None:
        await caller.request()
        for byte in b"HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 3\r\n\r\nabc":
            caller.say(bytes([byte]))
            await asyncio.sleep(0)

    async with listen(talk) as transport:
        answer = await ask(transport)
    assert (answer.body, answer.headers.get("x")) == (b"abc", "y")


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_a_body_may_last_until_the_connection_ends(version: bytes):
    async with listen(saying(b"HTTP/%b 200 OK\r\n\r\nto the end" % version)) as transport:
        assert (await ask(transport)).body == b"to the end"
        assert await read(await ask(transport, is_stream=True)) == b"to the end"
        assert transport._pool.idle == 0


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_some_answers_have_no_body_whatever_they_say(status: bytes):
    async with listen(staying(b"HTTP/1.1 %b\r\nContent-Length: 5\r\n\r\n" % status)) as transport:
        for _ in range(2):
            assert (await ask(transport)).body == b""
        assert transport._pool.size == 1


async def test_the_answer_to_head_has_no_body():
    async with listen(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n")) as transport:
        answer = await ask(transport, method="HEAD")
        assert (answer.status, answer.body) == (200, b"")
        await turn_until(lambda: transport._pool.size == 0)


async def test_answers_that_are_not_the_final_one_are_passed_over():
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    async with listen(staying(early, b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok")) as transport:
        for _ in range(2):
            answer = await post(transport)
            assert (answer.status, answer.body, answer.headers.get("link")) == (201, b"ok", None)


BROKEN = {
    "nothing": (b"", "closed the connection before it answered"),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent-", "in the middle of its answer"),
    "a part of the body": (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "in the middle of its answer"),
    "a part of a chunk": (CHUNKED + b"5\r\nab", "in the middle of its answer"),
    "no last chunk": (CHUNKED + b"2\r\nab\r\n", "in the middle of its answer"),
    "garbage": (b"\x16\x03\x01 hello", "not HTTP"),
    "a mail server": (b"220 mail.example.org ESMTP\r\n", "not HTTP"),
    "HTTP/2": (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00", "not HTTP"),
    "a chunk of no length": (CHUNKED + b"zz\r\n", "not HTTP"),
    "two lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc", "not HTTP"),
    "length and chunks": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + CHUNKED[17:] + b"0\r\n\r\n", "not HTTP"),
    "a negative length": (b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n", "not HTTP"),
    "a length beyond all bounds": (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "more than 1073741824"),
    "another protocol": (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "another protocol"),
}


@pytest.mark.parametrize("name", sorted(BROKEN))
async def test_a_broken_answer_is_told_with_the_call_and_the_server(name: str):
    data, words = BROKEN[name]
    async with listen(saying(data)) as transport:
        with pytest.raises(Unreachable, match=words) as caught:
            await ask(transport, words="get Website/default/blog")
        assert str(caught.value).startswith(f"get Website/default/blog: {transport.server} ")
        assert caught.value.is_sent
        await turn_until(lambda: transport._pool.size == 0)


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 ", b"HTTP/1.1 200 OK\r\nX: ", CHUNKED + b"0\r\nTrailer: "])
async def test_headers_without_an_end_are_cut_off(start: bytes):
    async def talk(caller: Caller) -> None:
        await caller.request()
        caller.say(start)
        while True:
            caller.say(b"x" * 10_000)
            await caller.writer.drain()

    async with listen(talk) as transport:
        with pytest.raises(Unreachable, match="bytes of headers"):
            await ask(transport)


async def test_a_whole_body_has_a_limit_and_a_stream_has_none():
    talk = saying(CHUNKED, b"5\r\nhello\r\n" * 100_000, b"0\r\n\r\n")
    async with listen(talk, limits=PoolLimits(body_bytes=300_000)) as transport:
        with pytest.raises(Unreachable, match="more than 300000 bytes"):
            await ask(transport)
        assert await read(await ask(transport, is_stream=True)) == b"hello" * 100_000


async def test_what_follows_an_answer_unasked_is_never_taken_for_the_next_one():
    surplus = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    async with listen(staying(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood", surplus)) as transport:
        for _ in range(3):
            assert (await ask(transport)).body == b"good"
            assert transport._pool.idle == 0


async def test_a_server_that_closes_after_its_answer_says_so_and_is_believed():
    talk = saying(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
    async with listen(talk) as transport:
        assert (await ask(transport)).body == b"ok"
        assert transport._pool.idle == 0


async def test_an_early_answer_to_a_big_body_ends_the_connection():
    async def talk(caller: Caller) -> None:
        await caller.reader.readuntil(b"\r\n\r\n")
        caller.answer(b"too big", "413 Content Too Large")
        await caller.wait_gone()

    async with listen(talk) as transport:
        answer = await post(transport, b"x" * 30_000_000)
        assert (answer.status, transport._pool.idle) == (413, 0)


# --- streams ----------------------------------------------------------------------------------------------------------


async def test_pieces_come_as_soon_as_they_are_there():
    more = asyncio.Event()

    async def talk(caller: Caller) -> None:
        await caller.request()
        caller.say(CHUNKED)
        for number in range(3):
            await more.wait()
            more.clear()
            caller.say(b"1\r\n%d\r\n" % number)
        caller.say(b"0\r\n\r\n")
        await caller.wait_gone()

    async with listen(talk) as transport:
        answer = await ask(transport, is_stream=True)
        assert answer.pieces is not None
        got: list[bytes] = []
        more.set()
        async for piece in answer.pieces:
            got.append(piece)
            more.set()
        assert got == [b"0", b"1", b"2"]
        assert transport._pool.idle == 1
        await answer.pieces.aclose()
        assert transport._pool.idle == 1


async def test_no_repr_of_a_stream_shows_what_was_said():
    async with listen(staying(CHUNKED, b"3\r\nfoo\r\n")) as transport:
        answer = await post(transport, b"s3cret", is_stream=True, words="watch pods", headers={"X": "s3cret"})
        assert repr(answer.pieces) == "<Exchange of 'watch pods'>"
        assert "s3cret" not in repr(answer)
        await answer.pieces.aclose()


async def test_a_line_of_many_megabytes_passes():
    line = b'{"type":"ADDED","object":"' + b"x" * 5_000_000 + b'"}\n'
    framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(line), line)
    async with listen(staying(CHUNKED, framed)) as transport:
        assert await read(await ask(transport, is_stream=True)) == line
        assert (await ask(transport)).body == line


async def test_a_refused_stream_has_a_whole_body():
    async with listen(staying(b"HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\nlate")) as transport:
        answer = await ask(transport, is_stream=True)
        assert (answer.status, answer.body, answer.pieces) == (410, b"late", None)
        assert transport._pool.idle == 1


@pytest.mark.parametrize("end", [b"", b"zz\r\n"])
async def test_a_stream_that_is_cut_gives_what_there_was_and_then_says_so(end: bytes):
    async with listen(saying(CHUNKED, b"5\r\nhello\r\n", end)) as transport:
        answer = await ask(transport, is_stream=True, words="watch websites")
        assert answer.pieces is not None
        pieces = aiter(answer.pieces)
        assert await anext(pieces) == b"hello"
        with pytest.raises(Unreachable, match="watch websites"):
            await anext(pieces)


async def test_nobody_reads_ahead_of_a_slow_reader():
    sent = 0

    async def talk(caller: Caller) -> None:
        nonlocal sent
        while await caller.request():
            caller.say(CHUNKED)
            for _ in range(400):
                caller.say(b"10000\r\n", b"x" * 65536, b"\r\n")
                await caller.writer.drain()
                sent += 65536
            caller.say(b"0\r\n\r\n")

    async with listen(talk, limits=PoolLimits(unread_bytes=100_000)) as transport:
        answer = await ask(transport, is_stream=True)
        exchange = answer.pieces
        await turn_until(lambda: exchange._is_paused)
        for _ in range(100):
            await asyncio.sleep(0)
        assert exchange._unread < 1_000_000
        assert sent < 400 * 65536
        assert len(await read(answer)) == 400 * 65536
        assert transport._pool.idle == 1
        assert (await ask(transport, is_stream=True)).status == 200


async def test_closing_a_stream_ends_its_connection_and_its_reader():
    gone = asyncio.Event()

    async def talk(caller: Caller) -> None:
        await caller.request()
        caller.say(CHUNKED, b"1\r\nx\r\n")
        await caller.wait_gone()
        gone.set()

    async with listen(talk) as transport:
        answer = await ask(transport, is_stream=True)
        reader = asyncio.create_task(read(answer))
        await asyncio.sleep(0)
        await answer.pieces.aclose()
        assert await reader in {b"", b"x"}
        await gone.wait()
        await turn_until(lambda: transport._pool.size == 0)
        await answer.pieces.aclose()


async def test_a_stream_has_one_reader():
    async with listen(staying(CHUNKED)) as transport:
        answer = await ask(transport, is_stream=True)
        reader = asyncio.create_task(read(answer))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="two tasks"):
            await read(answer)
        await answer.pieces.aclose()
        await reader


# --- time -------------------------------------------------------------------------------------------------------------


@virtual
async def test_a_server_that_never_answers_is_given_up_at_the_timeout():
    async with listen(silent) as transport:
        start = asyncio.get_running_loop().time()
        with pytest.raises(TimedOut, match=r"list pods: http://127\S+ did not answer within 7 seconds") as caught:
            await ask(transport, timeout=7, words="list pods")
        assert asyncio.get_running_loop().time() - start == pytest.approx(7)
        assert caught.value.is_sent
        await turn_until(lambda: transport._pool.size == 0)


@virtual
async def test_an_answer_that_does_not_get_done_is_given_up_too():
    async with listen(staying(CHUNKED, b"1\r\nx\r\n")) as transport:
        with pytest.raises(TimedOut):
            await ask(transport, timeout=3)


@virtual
async def test_the_timeout_of_a_stream_is_for_its_head():
    async with listen(staying(CHUNKED, b"1\r\nx\r\n")) as transport:
        answer = await ask(transport, is_stream=True, timeout=3)
        assert await anext(aiter(answer.pieces)) == b"x"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(100):
                await anext(aiter(answer.pieces))
        assert transport._pool.size == 1
    async with listen(silent) as transport:
        with pytest.raises(TimedOut):
            await ask(transport, is_stream=True, timeout=3)


@virtual
async def test_calls_at_the_same_time_end_each_at_its_own():
    async with listen(silent) as transport:
        loop = asyncio.get_running_loop()

        async def late(within):
            with pytest.raises(TimedOut, match=f"within {within} seconds"):
                await ask(transport, timeout=within)
            return loop.time()

        start = loop.time()
        ends = await asyncio.gather(*[late(within) for within in (5, 2, 9, 2)])
        assert [end - start for end in ends] == pytest.approx([5, 2, 9, 2], abs=0.01)


@virtual
@pytest.mark.parametrize("is_first", [False, True])
async def test_a_cancellation_in_the_same_moment_wins_over_the_timeout(is_first: bool):
    async with listen(silent) as transport:
        call = asyncio.create_task(ask(transport, timeout=3))
        await turn_until(transport._pool.exchanges)
        (exchange,) = transport._pool.exchanges()
        for end in (call.cancel, exchange.expire) if is_first else (exchange.expire, call.cancel):
            end()
        with pytest.raises(asyncio.CancelledError):
            await call
        await turn_until(lambda: transport._pool.size == 0)


async def test_an_answer_in_the_same_moment_wins_over_the_timeout():
    async with listen(staying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")) as transport:
        call = asyncio.create_task(ask(transport))
        await turn_until(transport._pool.exchanges)
        (exchange,) = transport._pool.exchanges()
        await turn_until(exchange.answer.done)
        exchange.expire()
        assert (await call).body == b"ok"
