import asyncio
import json
import random

import pytest

from levelset.http import Failure, Limits, Pieces, Request, Response, Server


def echo(request: Request) -> Response:
    return Response(200, (("X-Path", request.path),), request.body or request.path.encode())


async def test_a_request_gets_a_response_and_the_connection_stays_open(serve, connect):
    client = await connect(await serve(echo))
    for path in ("/1", "/2"):
        client.send_request("GET", path)
        status, headers, body = await client.read()
        assert (status, headers["x-path"], body) == (200, path, path.encode())
        assert "connection" not in headers
        assert "date" in headers


async def test_a_coroutine_handler_may_respond_later(serve, connect):
    async def handle(request: Request) -> Response:
        await asyncio.sleep(0)
        return Response(201, body=request.body)

    client = await connect(await serve(handle))
    client.send_request("POST", "/", body=b"later")
    assert (await client.read())[::2] == (201, b"later")


async def test_a_handler_that_responds_at_once_needs_no_task(serve, connect):
    tasks: list[object] = []

    def handle(request: Request) -> Response:
        tasks.append(asyncio.current_task())
        return Response()

    client = await connect(await serve(handle))
    client.send_request()
    await client.read()
    assert tasks == [None]


async def test_pipelined_requests_get_responses_in_order(serve, connect):
    gates = {f"/{number}": asyncio.Event() for number in range(0, 6, 2)}

    async def wait(request: Request) -> Response:
        await gates[request.path].wait()
        return echo(request)

    client = await connect(await serve(lambda request: wait(request) if request.path in gates else echo(request)))
    client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(6)))
    for gate in reversed(gates.values()):
        gate.set()
        await asyncio.sleep(0)
    assert [(await client.read())[2] for _ in range(6)] == [b"/%d" % number for number in range(6)]


async def test_a_chunked_body_is_read_completely(serve, connect):
    client = await connect(await serve(echo))
    client.send(
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
    )
    assert (await client.read())[2] == b"hello world"


async def test_expect_100_continue_gets_a_continue(serve, connect):
    client = await connect(await serve(echo))
    client.send_request("POST", "/", "Expect: 100-continue", "Content-Length: 5")
    assert await client.read_head() == (100, {})
    client.send(b"hello")
    assert (await client.read())[::2] == (200, b"hello")


async def test_a_continue_waits_for_the_response_before_it(serve, connect, until):
    gate = asyncio.Event()

    async def handle(request: Request) -> Response:
        await gate.wait()
        return echo(request)

    client = await connect(await serve(handle))
    client.send_request("GET", "/first")
    client.send_request("POST", "/", "Expect: 100-continue", "Content-Length: 1")
    gate.set()
    assert (await client.read())[2] == b"/first"
    assert (await client.read_head())[0] == 100
    client.send(b"x")
    assert (await client.read())[2] == b"x"


async def test_head_has_the_length_and_no_body(serve, connect):
    client = await connect(await serve(lambda request: Response(200, body=b"12345")))
    client.send_request("HEAD")
    status, headers = await client.read_head()
    assert (status, headers["content-length"]) == (200, "5")
    client.send_request("GET")
    assert (await client.read())[2] == b"12345"


@pytest.mark.parametrize("status", [204, 304])
async def test_a_204_has_no_body_whatever_the_handler_returns(status: int, serve, connect):
    client = await connect(await serve(lambda request: Response(status, body=b"surprise")))
    client.send_request()
    assert "content-length" not in (await client.read_head())[1]
    client.send_request()
    assert (await client.read_head())[0] == status


async def test_connection_close_is_obeyed(serve, connect):
    client = await connect(await serve(echo))
    client.send_request("GET", "/", "Connection: close")
    response = await client.read_to_end()
    assert b"\r\nConnection: close\r\n" in response
    assert response.endswith(b"\r\n\r\n/")


async def test_http_1_0_gets_a_response_and_is_closed(serve, connect):
    client = await connect(await serve(echo))
    client.send(b"GET /old HTTP/1.0\r\n\r\n")
    assert (await client.read_to_end()).endswith(b"\r\n\r\n/old")


async def test_http_1_0_with_keep_alive_stays_open(serve, connect):
    client = await connect(await serve(echo))
    for _ in range(2):
        client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert (await client.read())[1]["connection"] == "keep-alive"


async def test_a_malformed_request_gets_a_400_and_is_closed(serve, connect):
    client = await connect(await serve(echo))
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nNONSENSE\r\n\r\n")
    assert (await client.read())[0] == 200
    status, headers, body = await client.read()
    assert (status, headers["connection"]) == (400, "close")
    assert json.loads(body)["reason"] == "BadRequest"
    assert await client.read_to_end() == b""


async def test_a_body_that_is_too_large_is_refused_while_the_client_still_sends(serve, connect):
    client = await connect(await serve(echo, limits=Limits(body_bytes=1000)))
    client.send_request("POST", "/", "Content-Length: 3000000")
    client.send(b"x" * 3_000_000)
    status, _, body = await client.read()
    assert (status, json.loads(body)["reason"]) == (413, "RequestEntityTooLarge")
    assert await client.read_to_end() == b""


async def test_a_body_that_is_too_large_gets_no_continue(serve, connect):
    client = await connect(await serve(echo, limits=Limits(body_bytes=1000)))
    client.send_request("POST", "/", "Expect: 100-continue", "Content-Length: 1001")
    assert (await client.read())[0] == 413


def failing(request: Request) -> Response:
    raise RuntimeError("a secret")


async def failing_later(request: Request) -> Response:
    await asyncio.sleep(0)
    raise RuntimeError("a secret")


async def cancelled_inside(request: Request) -> Response:
    raise asyncio.CancelledError


def no_response(request: Request) -> Response:
    return "text"  # type: ignore[return-value]


async def no_response_later(request: Request) -> Response:
    return "text"  # type: ignore[return-value]


def bad_header(request: Request) -> Response:
    return Response(200, (("X", "a\r\nSet-Cookie: b"),))


def no_answer(request: Request) -> Response:
    return Response(101, upgrade=lambda tunnel: None)


@pytest.mark.parametrize(
    "handler", [failing, failing_later, cancelled_inside, no_response, no_response_later, bad_header, no_answer]
)
async def test_a_failing_handler_gives_a_500_without_details(handler, serve, connect, caplog):
    client = await connect(await serve(handler))
    for _ in range(2):
        client.send_request()
        status, headers, body = await client.read()
        assert (status, headers["content-type"]) == (500, "application/json")
        assert json.loads(body)["reason"] == "InternalError"
        assert b"secret" not in body
        assert "set-cookie" not in headers
    assert [record.message for record in caplog.records] == ["handler failed"] * 2


async def test_on_error_makes_the_response_to_a_failure(serve, connect, caplog):
    def on_error(failure: Failure) -> Response:
        assert isinstance(failure.cause, RuntimeError)
        assert failure.request is not None
        return Response(failure.status, body=failure.request.path.encode())

    client = await connect(await serve(failing, on_error=on_error))
    client.send_request("GET", "/that")
    assert (await client.read())[::2] == (500, b"/that")


@pytest.mark.parametrize(
    "words",
    [
        lambda failure: 1 / 0,
        lambda failure: None,
        lambda failure: Response(500, (("X", "a\r\nb"),)),
        lambda failure: Response(500, body=lambda sink: None),
        lambda failure: Response(100),
    ],
)
async def test_a_failing_on_error_is_replaced_by_a_status(words, serve, connect, caplog):
    client = await connect(await serve(failing, on_error=words))
    client.send_request()
    status, _, body = await client.read()
    assert (status, json.loads(body)["kind"]) == (500, "Status")


async def test_a_disconnect_cancels_the_handler_of_the_request(serve, connect):
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def handle(request: Request) -> Response:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return Response()

    client = await connect(await serve(handle))
    client.send_request()
    await started.wait()
    client.writer.close()
    await cancelled.wait()


async def test_a_handler_that_fails_after_a_disconnect_is_logged(serve, connect, caplog):
    started = asyncio.Event()

    async def handle(request: Request) -> Response:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise RuntimeError("on the way out") from None
        return Response()

    server = await serve(handle)
    client = await connect(server)
    client.send_request()
    await started.wait()
    client.writer.close()
    await server.stop()
    assert [record.message for record in caplog.records] == ["handler failed"]


async def test_a_large_body_arrives_completely_and_the_next_request_waits_for_it(serve, connect):
    big = random.Random(1).randbytes(8_000_000)
    handled: list[str] = []

    def handle(request: Request) -> Response:
        handled.append(request.path)
        return Response(200, body=big)

    client = await connect(await serve(handle))
    client.send_request("GET", "/1")
    client.send_request("GET", "/2")
    await client.read_head()
    assert handled == ["/1"]
    assert await client.reader.readexactly(len(big)) == big
    assert (await client.read())[2] == big
    assert handled == ["/1", "/2"]


async def test_a_large_body_reaches_a_client_that_sent_connection_close(serve, connect):
    client = await connect(await serve(lambda request: Response(200, body=b"x" * 8_000_000)))
    client.send_request("GET", "/", "Connection: close")
    assert len(await client.read_to_end()) > 8_000_000


async def test_a_large_body_reaches_a_client_that_has_closed_its_side(serve, connect):
    client = await connect(await serve(lambda request: Response(200, body=b"x" * 8_000_000)))
    client.send_request()
    client.writer.write_eof()
    assert len(await client.read_to_end()) > 8_000_000


async def test_an_upgrade_request_may_get_an_ordinary_response(serve, connect):
    client = await connect(await serve(echo))
    upgrade = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA")
    client.send_request("GET", "/1", *upgrade)
    client.send_request("GET", "/2")
    assert [(await client.read())[2], (await client.read())[2]] == [b"/1", b"/2"]


WORDS = [
    b"GET / HTTP/1.1\r\n", b"POST /x HTTP/1.1\r\n", b"Host: a\r\n", b"\r\n", b"Content-Length: 5\r\n", b"hello", b"\0",
    b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n", b"Connection: close\r\n", b"Upgrade: x\r\nConnection: upgrade\r\n",
    b"Expect: 100-continue\r\n", b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\n", b"\xff\xfe", b" ", b":", b"a" * 300,
]  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
async def test_arbitrary_bytes_get_a_response_or_close_and_the_server_survives(seed: int, serve, connect):
    chance = random.Random(seed)
    server = await serve(echo, limits=Limits(head_bytes=500, target_bytes=100, body_bytes=100))
    for _ in range(100):
        client = await connect(server)
        for _ in range(chance.randint(1, 20)):
            client.send(chance.choice(WORDS) if chance.random() < 0.8 else chance.randbytes(chance.randint(1, 30)))
        client.writer.write_eof()
        response = await client.read_to_end()
        assert response == b"" or response.startswith(b"HTTP/1.1 ")
    client = await connect(server)
    client.send_request("GET", "/alive")
    assert (await client.read())[2] == b"/alive"


async def test_a_connection_above_the_limit_is_refused(serve, connect):
    server = await serve(echo, limits=Limits(connections=2))
    clients = [await connect(server) for _ in range(2)]
    for client in clients:
        client.send_request()
        await client.read()
    third = await connect(server)
    status, _, body = await third.read()
    assert (status, json.loads(body)["reason"]) == (503, "ServiceUnavailable")
    assert await third.read_to_end() == b""


class TestDeadlines:
    """Timeouts on a manual clock: only `sweep` enforces them."""

    async def pass_time(self, server: Server, seconds: float) -> None:
        server.sweep(asyncio.get_running_loop().time() + seconds)

    async def phase(self, server: Server, until, name: str) -> None:
        assert server._context is not None
        await until(lambda: any(one._phase and one._phase.name == name for one in server._context.connections))  # type: ignore[attr-defined]

    async def test_an_idle_connection_is_closed_without_a_response(self, serve, connect):
        server = await serve(echo)
        client = await connect(server)
        client.send_request()
        await client.read()
        await self.pass_time(server, server._limits.idle_within - 5)
        assert server.connections == 1
        await self.pass_time(server, server._limits.idle_within + 5)
        assert await client.read_to_end() == b""

    async def test_a_head_that_arrives_too_slowly_is_refused(self, serve, connect, until):
        server = await serve(echo)
        client = await connect(server)
        client.send(b"GET / HTTP/1.1\r\nX-Slow: ")
        await self.phase(server, until, "HEAD")
        await self.pass_time(server, server._limits.head_within + 5)
        assert (await client.read())[0] == 408
        assert await client.read_to_end() == b""

    async def test_a_body_that_arrives_too_slowly_is_refused(self, serve, connect, until):
        server = await serve(echo)
        client = await connect(server)
        client.send_request("POST", "/", "Content-Length: 100")
        await self.phase(server, until, "BODY")
        await self.pass_time(server, server._limits.body_within + 5)
        assert (await client.read())[0] == 408

    async def test_a_handler_may_take_as_long_as_it_wants(self, serve, connect, until):
        gate, started = asyncio.Event(), asyncio.Event()

        async def handle(request: Request) -> Response:
            started.set()
            await gate.wait()
            return Response(200, body=b"done")

        server = await serve(handle)
        client = await connect(server)
        client.send_request()
        await started.wait()
        await self.pass_time(server, 1e6)
        gate.set()
        assert (await client.read())[2] == b"done"

    async def test_a_client_that_reads_nothing_of_its_response_is_aborted(self, serve, connect, until):
        server = await serve(lambda request: Response(200, body=b"x" * 50_000_000))
        client = await connect(server)
        client.writer.transport.pause_reading()
        client.send_request()
        (connection,) = server._context.connections
        await until(lambda: connection._output.is_full)
        for seconds in (1000, 2000, 3000):
            await self.pass_time(server, seconds)
        await until(lambda: server.connections == 0)

    async def test_a_client_that_reads_nothing_of_a_body_in_pieces_is_aborted_and_its_maker_closed(
        self, serve, connect, until
    ):
        ended: list[bool] = []

        async def make():
            try:
                while True:
                    yield b"x" * 1_000_000
            finally:
                ended.append(True)

        server = await serve(lambda request: Response(200, body=Pieces(make)))
        client = await connect(server)
        client.writer.transport.pause_reading()
        client.send_request()
        (connection,) = server._context.connections
        await until(lambda: connection._output.is_full)
        for seconds in (100, 200):
            await self.pass_time(server, seconds)
        await until(lambda: server.connections == 0 and ended)

    async def test_a_client_that_reads_slowly_gets_all_of_a_body_in_pieces(self, serve, connect, until):
        async def make():
            for _ in range(20):
                yield b"x" * 1_000_000

        server = await serve(lambda request: Response(200, body=Pieces(make)))
        client = await connect(server)
        client.send_request()
        await client.read_head()
        size = 0
        while size < 20_000_000:
            client.writer.transport.pause_reading()
            await self.pass_time(server, 61 + size)  # longer than it may read nothing
            client.writer.transport.resume_reading()
            for _ in range(3):
                if size < 20_000_000:
                    size += len(await client.read_chunk())
        assert size == 20_000_000

    async def test_a_client_may_pause_a_stream_that_has_no_end(self, serve, connect, until):
        async def follow():
            while True:
                yield b"x" * 1_000_000

        server = await serve(lambda request: Response(200, body=follow()))
        client = await connect(server)
        client.writer.transport.pause_reading()
        client.send_request()
        (connection,) = server._context.connections
        await until(lambda: connection._output.is_full)
        for seconds in (1000, 2000, 3000):
            await self.pass_time(server, seconds)
        assert server.connections == 1

    async def test_a_refused_client_that_never_stops_sending_is_aborted(self, serve, connect, until):
        server = await serve(echo)
        client = await connect(server)
        client.send(b"NONSENSE\r\n\r\n")
        assert (await client.read())[0] == 400
        client.send(b"more")
        for seconds in (5, 10):
            await self.pass_time(server, server._limits.linger_within + seconds)
        await until(lambda: server.connections == 0)

    async def test_the_server_sweeps_timeouts_by_itself(self, serve, connect):
        server = await serve(echo, limits=Limits(head_within=0.0, every=0.001))
        client = await connect(server)
        assert await client.read_to_end() == b""

    async def test_a_sweep_that_fails_is_not_the_last(self, serve, until, monkeypatch):
        server = await serve(echo, limits=Limits(every=0.001))
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))

        def fail(now: float) -> None:
            raise ValueError(now)

        monkeypatch.setattr(server, "sweep", fail)
        await until(lambda: len(failures) > 2)
