import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from levelset.http import Request, Response, Sink
from levelset.http.streaming import Flusher, StreamSink


class Watch:
    """A handler whose body is pushed."""

    def __init__(self) -> None:
        self.sinks: list[Sink] = []
        self.ended = 0

    def handle(self, request: Request) -> Response:
        return Response(200, (("Content-Type", "application/json"),), self.begin)

    def begin(self, sink: Sink) -> None:
        self.sinks.append(sink)
        sink.when_closed(self.end)

    def end(self) -> None:
        self.ended += 1


async def test_writes_of_one_loop_iteration_are_sent_as_one_chunk(serve, connect, until):
    watch = Watch()
    client = await connect(await serve(watch.handle))
    client.send_request()
    status, headers = await client.read_head()
    assert (status, headers["transfer-encoding"]) == (200, "chunked")
    await until(lambda: watch.sinks)
    for chunk in (b"one\n", b"", b"two\n", b"three\n"):
        watch.sinks[0].write(chunk)
    assert await client.read_chunk() == b"one\ntwo\nthree\n"
    watch.sinks[0].write(b"four\n")
    assert await client.read_chunk() == b"four\n"


async def test_an_empty_write_does_not_end_the_body(serve, connect, until):
    watch = Watch()
    client = await connect(await serve(watch.handle))
    client.send_request()
    await until(lambda: watch.sinks)
    watch.sinks[0].write(b"")
    await asyncio.sleep(0)
    watch.sinks[0].write(b"x")
    await client.read_head()
    assert await client.read_chunk() == b"x"


async def test_a_closed_body_ends_regularly_and_the_connection_stays_open(serve, connect, until):
    watch = Watch()
    client = await connect(await serve(watch.handle))
    for number in (1, 2):
        client.send_request()
        await until(lambda number=number: len(watch.sinks) == number)
        sink = watch.sinks[-1]
        sink.write(b"last words")
        sink.close()
        sink.close()
        sink.write(b"ignored")
        assert sink.is_closed
        assert (await client.read())[2] == b"last words"
        assert watch.ended == number


async def test_an_aborted_body_aborts_the_connection(serve, connect, until):
    watch = Watch()
    client = await connect(await serve(watch.handle))
    client.send_request()
    await client.read_head()
    watch.sinks[0].abort()
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError, ValueError)):
        await client.read_chunk()
    assert watch.ended == 1


async def test_a_disconnect_ends_the_body(serve, connect, until):
    watch = Watch()
    client = await connect(await serve(watch.handle))
    client.send_request()
    await client.read_head()
    client.writer.transport.abort()
    await until(lambda: watch.ended)
    assert watch.sinks[0].is_closed
    watch.sinks[0].write(b"nobody")
    late: list[int] = []
    watch.sinks[0].when_closed(lambda: late.append(1))
    assert late == [1]


async def test_a_slow_client_backs_up_and_delays_no_other(serve, connect, until):
    watch = Watch()
    server = await serve(watch.handle)
    slow, fast = await connect(server), await connect(server)
    for client in (slow, fast):
        client.send_request()
        await client.read_head()
    slow_sink, fast_sink = watch.sinks
    slow.writer.transport.pause_reading()
    chunk, count = b"x" * 100_000, 0
    while not slow_sink.is_backed_up:
        slow_sink.write(chunk)
        count += 1
        await asyncio.sleep(0)
    for _ in range(10):
        slow_sink.write(chunk)
    assert slow_sink.backlog >= 10 * len(chunk)
    fast_sink.write(b"quick")
    assert await fast.read_chunk() == b"quick"
    assert fast_sink.backlog == 0
    drained = asyncio.ensure_future(slow_sink.wait_drained())
    slow.writer.transport.resume_reading()
    received = 0
    while received < (count + 10) * len(chunk):
        received += len(await slow.read_chunk())
    await drained
    assert not slow_sink.is_backed_up
    assert slow_sink.backlog == 0


async def test_waiting_for_a_slow_client_ends_on_disconnect(serve, connect, until):
    watch = Watch()
    client = await connect(await serve(watch.handle))
    client.send_request()
    await client.read_head()
    client.writer.transport.pause_reading()
    sink = watch.sinks[0]
    while not sink.is_backed_up:
        sink.write(b"x" * 100_000)
        await asyncio.sleep(0)
    sink.write(b"more")
    waiting = asyncio.ensure_future(sink.wait_drained())
    await asyncio.sleep(0)
    client.writer.transport.abort()
    await waiting


async def test_every_watcher_gets_every_event_in_order(serve, connect, until):
    watch = Watch()
    server = await serve(watch.handle)
    clients = [await connect(server) for _ in range(50)]
    for client in clients:
        client.send_request()
    await until(lambda: len(watch.sinks) == 50)
    lines = [b'{"number":%d}\n' % number for number in range(200)]
    for number, line in enumerate(lines):
        for index, sink in enumerate(watch.sinks):
            # Some have a selector that lets only every second event through.
            if index % 7 or number % 2:
                sink.write(line)
        if number % 13 == 0:
            await asyncio.sleep(0)
    for sink in watch.sinks:
        sink.close()
    bodies = dict(zip(watch.sinks, [(await client.read())[2] for client in clients], strict=True))
    for index, sink in enumerate(watch.sinks):
        assert bodies[sink] == b"".join(lines if index % 7 else lines[1::2])


class Output:
    """A connection that keeps what is written."""

    is_full = False
    size = 0

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    def abort(self) -> None:
        pass


async def test_thousands_of_streams_are_sent_in_slices_between_which_others_get_their_turn():
    loop = asyncio.get_running_loop()
    flusher, outputs = Flusher(loop), [Output() for _ in range(1_000)]
    sinks = [StreamSink(flusher, one, lambda: None, chunked=False) for one in outputs]
    for sink in sinks:
        sink.write(b"first ")
    sent: list[int] = []
    while not sent or sent[-1] < 1_000:
        await asyncio.sleep(0)
        sent.append(sum(bool(one.data) for one in outputs))
        if len(sent) == 1:
            for sink in sinks:
                sink.write(b"second")
    assert [later - former for former, later in itertools.pairwise([0, *sent])] == [100] * 10
    for _ in range(3):
        await asyncio.sleep(0)
    assert {one.data for one in outputs} == {b"first second"}


async def test_a_failing_stream_does_not_affect_others(serve, connect, until, caplog):
    watch = Watch()
    server = await serve(watch.handle)
    clients = [await connect(server) for _ in range(2)]
    for client in clients:
        client.send_request()
        await client.read_head()
    watch.sinks[0].write("text")
    watch.sinks[1].write(b"bytes")
    assert await clients[1].read_chunk() == b"bytes"
    assert watch.ended == 1
    assert [record.message for record in caplog.records] == ["a stream was aborted: its data could not be sent"]


async def test_a_failing_push_aborts_the_response(serve, connect, caplog):
    def push(sink: Sink) -> None:
        sink.write(b"half")
        raise RuntimeError("broken")

    client = await connect(await serve(lambda request: Response(200, body=push)))
    client.send_request()
    assert b"0\r\n\r\n" not in await client.reader.read()
    assert [record.message for record in caplog.records] == ["handler failed"]


async def test_an_async_iterator_is_sent_chunk_by_chunk(serve, connect):
    step = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"first"
        await step.wait()
        yield b""
        yield b"second"

    client = await connect(await serve(lambda request: Response(200, body=body())))
    client.send_request()
    await client.read_head()
    assert await client.read_chunk() == b"first"
    step.set()
    assert await client.read_chunk() == b"second"
    assert await client.read_chunk() == b""


async def test_an_async_iterator_runs_no_faster_than_its_client_reads(serve, connect, until):
    made = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal made
        for _ in range(1000):
            made += 1
            yield b"x" * 100_000

    server = await serve(lambda request: Response(200, body=body()))
    client = await connect(server)
    client.writer.transport.pause_reading()
    client.send_request()
    (connection,) = server._context.connections
    await until(lambda: connection._output.is_full)
    before = made
    for _ in range(100):
        await asyncio.sleep(0)
    assert made == before < 1000
    client.writer.transport.resume_reading()
    assert len((await client.read())[2]) == 100_000_000


async def test_a_disconnect_closes_the_iterator(serve, connect):
    closed = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            await asyncio.Event().wait()
        finally:
            closed.set()

    client = await connect(await serve(lambda request: Response(200, body=body())))
    client.send_request()
    await client.read_head()
    client.writer.close()
    await closed.wait()


async def test_a_failing_iterator_aborts_the_response(serve, connect, caplog):
    async def body() -> AsyncIterator[bytes]:
        yield b"half"
        raise RuntimeError("broken")

    client = await connect(await serve(lambda request: Response(200, body=body())))
    client.send_request()
    response = b""
    try:
        while chunk := await client.reader.read(1000):
            response += chunk
    except ConnectionError:
        pass
    assert b"0\r\n\r\n" not in response
    assert [record.message for record in caplog.records] == ["a streamed body failed"]


async def test_http_1_0_gets_a_stream_without_chunks(serve, connect):
    async def body() -> AsyncIterator[bytes]:
        yield b"one "
        yield b"two"

    client = await connect(await serve(lambda request: Response(200, body=body())))
    client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    response = await client.read_to_end()
    assert b"chunked" not in response
    assert response.endswith(b"\r\n\r\none two")


async def test_head_does_not_start_a_stream(serve, connect):
    watch = Watch()
    client = await connect(await serve(watch.handle))
    client.send_request("HEAD")
    assert (await client.read_head())[1]["transfer-encoding"] == "chunked"
    client.send_request("GET")
    await client.read_head()
    assert len(watch.sinks) == 1
