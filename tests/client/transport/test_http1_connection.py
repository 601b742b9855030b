"""Connections to correct and to misbehaving servers."""

import asyncio

import pytest

from levelset.client.transport.pool import PoolLimits
from levelset.errors import TimedOut, Unreachable
from tests.client.transport.raw_server import RawConnection, listen, loop_until, post, read, send_call
from tests.client.transport.virtual_time import virtual

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def saying(*data: bytes):
    """Reads a request, writes bytes, and closes."""

    async def script(connection: RawConnection) -> None:
        await connection.request()
        connection.write(*data)

    return script


def staying(*data: bytes):
    """Sends the same response to every request, and never closes."""

    async def script(connection: RawConnection) -> None:
        while True:
            await connection.request()
            connection.write(*data)

    return script


async def silent(connection: RawConnection) -> None:
    await connection.wait_gone()


async def test_status_headers_and_body_come_back():
    script = saying(b"HTTP/1.1 418 Teapot\r\nX-One: 1\r\nWarning: a\r\nwarning: b \r\nContent-Length: 5\r\n\r\nhello")
    async with listen(script) as transport:
        response = await send_call(transport)
    assert (response.status, response.body, response.stream) == (418, b"hello", None)
    assert response.headers.get("x-one") == "1"
    assert response.headers.get_all("Warning") == ("a", "b")


async def test_a_body_in_tiny_chunks_is_complete():
    chunks = b"".join(b"1;ext=%d\r\n%c\r\n" % (number, number % 26 + 97) for number in range(5000))
    async with listen(staying(CHUNKED, chunks, b"0\r\nTrailer: x\r\n\r\n")) as transport:
        for _ in range(2):
            response = await send_call(transport)
            assert len(response.body) == 5000
            assert response.body.startswith(b"abcdef")
            assert response.headers.get("trailer") is None
        assert transport._pool.size == 1


async def test_a_response_that_arrives_byte_by_byte_is_read():
    async def script(connection: RawConnection) -> None:
        await connection.request()
        for byte in b"HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 3\r\n\r\nabc":
            connection.write(bytes([byte]))
            await asyncio.sleep(0)

    async with listen(script) as transport:
        response = await send_call(transport)
    assert (response.body, response.headers.get("x")) == (b"abc", "y")


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_a_body_may_last_until_the_connection_ends(version: bytes):
    async with listen(saying(b"HTTP/%b 200 OK\r\n\r\nto the end" % version)) as transport:
        assert (await send_call(transport)).body == b"to the end"
        assert await read(await send_call(transport, is_stream=True)) == b"to the end"
        assert transport._pool.idle == 0


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_some_responses_never_have_a_body(status: bytes):
    async with listen(staying(b"HTTP/1.1 %b\r\nContent-Length: 5\r\n\r\n" % status)) as transport:
        for _ in range(2):
            assert (await send_call(transport)).body == b""
        assert transport._pool.size == 1


async def test_the_response_to_head_has_no_body():
    async with listen(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n")) as transport:
        response = await send_call(transport, method="HEAD")
        assert (response.status, response.body) == (200, b"")
        await loop_until(lambda: transport._pool.size == 0)


async def test_interim_responses_are_ignored():
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    async with listen(staying(early, b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok")) as transport:
        for _ in range(2):
            response = await post(transport)
            assert (response.status, response.body, response.headers.get("link")) == (201, b"ok", None)


BROKEN = {
    "nothing": (b"", "closed the connection before it responded"),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent-", "in the middle of its response"),
    "a part of the body": (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "in the middle of its response"),
    "a part of a chunk": (CHUNKED + b"5\r\nab", "in the middle of its response"),
    "no last chunk": (CHUNKED + b"2\r\nab\r\n", "in the middle of its response"),
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
async def test_a_broken_response_is_reported_with_the_call_and_the_server(name: str):
    data, words = BROKEN[name]
    async with listen(saying(data)) as transport:
        with pytest.raises(Unreachable, match=words) as caught:
            await send_call(transport, about="get Website/default/blog")
        assert str(caught.value).startswith(f"get Website/default/blog: {transport.server} ")
        assert caught.value.is_sent
        await loop_until(lambda: transport._pool.size == 0)


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 ", b"HTTP/1.1 200 OK\r\nX: ", CHUNKED + b"0\r\nTrailer: "])
async def test_endless_headers_are_refused(start: bytes):
    async def script(connection: RawConnection) -> None:
        await connection.request()
        connection.write(start)
        while True:
            connection.write(b"x" * 10_000)
            await connection.writer.drain()

    async with listen(script) as transport:
        with pytest.raises(Unreachable, match="bytes of headers"):
            await send_call(transport)


async def test_a_complete_body_has_a_limit_and_a_stream_has_none():
    script = saying(CHUNKED, b"5\r\nhello\r\n" * 100_000, b"0\r\n\r\n")
    async with listen(script, limits=PoolLimits(body_bytes=300_000)) as transport:
        with pytest.raises(Unreachable, match="more than 300000 bytes"):
            await send_call(transport)
        assert await read(await send_call(transport, is_stream=True)) == b"hello" * 100_000


async def test_surplus_bytes_are_never_taken_for_the_next_response():
    surplus = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    async with listen(staying(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood", surplus)) as transport:
        for _ in range(3):
            assert (await send_call(transport)).body == b"good"
            assert transport._pool.idle == 0


async def test_connection_close_of_the_server_is_obeyed():
    script = saying(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
    async with listen(script) as transport:
        assert (await send_call(transport)).body == b"ok"
        assert transport._pool.idle == 0


async def test_an_early_response_to_a_large_body_closes_the_connection():
    async def script(connection: RawConnection) -> None:
        await connection.reader.readuntil(b"\r\n\r\n")
        connection.respond(b"too big", "413 Content Too Large")
        await connection.wait_gone()

    async with listen(script) as transport:
        response = await post(transport, b"x" * 30_000_000)
        assert (response.status, transport._pool.idle) == (413, 0)


# --- streams ----------------------------------------------------------------------------------------------------------


async def test_chunks_are_delivered_as_soon_as_they_arrive():
    more = asyncio.Event()

    async def script(connection: RawConnection) -> None:
        await connection.request()
        connection.write(CHUNKED)
        for number in range(3):
            await more.wait()
            more.clear()
            connection.write(b"1\r\n%d\r\n" % number)
        connection.write(b"0\r\n\r\n")
        await connection.wait_gone()

    async with listen(script) as transport:
        response = await send_call(transport, is_stream=True)
        assert response.stream is not None
        got: list[bytes] = []
        more.set()
        async for chunk in response.stream:
            got.append(chunk)
            more.set()
        assert got == [b"0", b"1", b"2"]
        assert transport._pool.idle == 1
        await response.stream.aclose()
        assert transport._pool.idle == 1


async def test_no_repr_of_a_stream_shows_its_content():
    async with listen(staying(CHUNKED, b"3\r\nfoo\r\n")) as transport:
        response = await post(transport, b"s3cret", is_stream=True, about="watch pods", headers={"X": "s3cret"})
        assert repr(response.stream) == "<Exchange of 'watch pods'>"
        assert "s3cret" not in repr(response)
        await response.stream.aclose()


async def test_a_line_of_many_megabytes_passes():
    line = b'{"type":"ADDED","object":"' + b"x" * 5_000_000 + b'"}\n'
    framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(line), line)
    async with listen(staying(CHUNKED, framed)) as transport:
        assert await read(await send_call(transport, is_stream=True)) == line
        assert (await send_call(transport)).body == line


async def test_an_error_response_to_a_stream_has_a_complete_body():
    async with listen(staying(b"HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\nlate")) as transport:
        response = await send_call(transport, is_stream=True)
        assert (response.status, response.body, response.stream) == (410, b"late", None)
        assert transport._pool.idle == 1


@pytest.mark.parametrize("end", [b"", b"zz\r\n"])
async def test_a_broken_stream_delivers_what_arrived_and_then_raises(end: bytes):
    async with listen(saying(CHUNKED, b"5\r\nhello\r\n", end)) as transport:
        response = await send_call(transport, is_stream=True, about="watch websites")
        assert response.stream is not None
        chunks = aiter(response.stream)
        assert await anext(chunks) == b"hello"
        with pytest.raises(Unreachable, match="watch websites"):
            await anext(chunks)


async def test_a_slow_reader_pauses_the_connection():
    sent = 0

    async def script(connection: RawConnection) -> None:
        nonlocal sent
        while await connection.request():
            connection.write(CHUNKED)
            for _ in range(400):
                connection.write(b"10000\r\n", b"x" * 65536, b"\r\n")
                await connection.writer.drain()
                sent += 65536
            connection.write(b"0\r\n\r\n")

    async with listen(script, limits=PoolLimits(unread_bytes=100_000)) as transport:
        response = await send_call(transport, is_stream=True)
        exchange = response.stream
        await loop_until(lambda: exchange._is_paused)
        for _ in range(100):
            await asyncio.sleep(0)
        assert exchange._unread < 1_000_000
        assert sent < 400 * 65536
        assert len(await read(response)) == 400 * 65536
        assert transport._pool.idle == 1
        assert (await send_call(transport, is_stream=True)).status == 200


async def test_closing_a_stream_ends_its_connection_and_its_reader():
    gone = asyncio.Event()

    async def script(connection: RawConnection) -> None:
        await connection.request()
        connection.write(CHUNKED, b"1\r\nx\r\n")
        await connection.wait_gone()
        gone.set()

    async with listen(script) as transport:
        response = await send_call(transport, is_stream=True)
        reader = asyncio.create_task(read(response))
        await asyncio.sleep(0)
        await response.stream.aclose()
        assert await reader in {b"", b"x"}
        await gone.wait()
        await loop_until(lambda: transport._pool.size == 0)
        await response.stream.aclose()


async def test_a_stream_has_one_reader():
    async with listen(staying(CHUNKED)) as transport:
        response = await send_call(transport, is_stream=True)
        reader = asyncio.create_task(read(response))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="two tasks"):
            await read(response)
        await response.stream.aclose()
        await reader


# --- time -------------------------------------------------------------------------------------------------------------


@virtual
async def test_a_server_that_never_responds_times_out():
    async with listen(silent) as transport:
        start = asyncio.get_running_loop().time()
        with pytest.raises(TimedOut, match=r"list pods: http://127\S+ did not respond within 7 seconds") as caught:
            await send_call(transport, timeout=7, about="list pods")
        assert asyncio.get_running_loop().time() - start == pytest.approx(7)
        assert caught.value.is_sent
        await loop_until(lambda: transport._pool.size == 0)


@virtual
async def test_a_response_that_never_completes_times_out():
    async with listen(staying(CHUNKED, b"1\r\nx\r\n")) as transport:
        with pytest.raises(TimedOut):
            await send_call(transport, timeout=3)


@virtual
async def test_the_timeout_of_a_stream_is_for_its_head():
    async with listen(staying(CHUNKED, b"1\r\nx\r\n")) as transport:
        response = await send_call(transport, is_stream=True, timeout=3)
        assert await anext(aiter(response.stream)) == b"x"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(100):
                await anext(aiter(response.stream))
        assert transport._pool.size == 1
    async with listen(silent) as transport:
        with pytest.raises(TimedOut):
            await send_call(transport, is_stream=True, timeout=3)


@virtual
async def test_concurrent_calls_time_out_individually():
    async with listen(silent) as transport:
        loop = asyncio.get_running_loop()

        async def late(within):
            with pytest.raises(TimedOut, match=f"within {within} seconds"):
                await send_call(transport, timeout=within)
            return loop.time()

        start = loop.time()
        ends = await asyncio.gather(*[late(within) for within in (5, 2, 9, 2)])
        assert [end - start for end in ends] == pytest.approx([5, 2, 9, 2], abs=0.01)


@virtual
@pytest.mark.parametrize("is_first", [False, True])
async def test_a_cancellation_in_the_same_moment_wins_over_the_timeout(is_first: bool):
    async with listen(silent) as transport:
        call = asyncio.create_task(send_call(transport, timeout=3))
        await loop_until(transport._pool.exchanges)
        (exchange,) = transport._pool.exchanges()
        for end in (call.cancel, exchange.expire) if is_first else (exchange.expire, call.cancel):
            end()
        with pytest.raises(asyncio.CancelledError):
            await call
        await loop_until(lambda: transport._pool.size == 0)


async def test_a_response_in_the_same_moment_wins_over_the_timeout():
    async with listen(staying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")) as transport:
        call = asyncio.create_task(send_call(transport))
        await loop_until(transport._pool.exchanges)
        (exchange,) = transport._pool.exchanges()
        await loop_until(exchange.response.done)
        exchange.expire()
        assert (await call).body == b"ok"
