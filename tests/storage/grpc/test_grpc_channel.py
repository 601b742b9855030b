"""Calls over sockets of loopback to a server by the library h2, and what becomes of them when it fails."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from levelset.http import CertificateAuthority
from levelset.storage.grpc.grpc_channel import ChannelTimes, GrpcChannel, GrpcStream, RpcFailed
from tests.storage.grpc.h2_server import H2Server, LoopbackServer, framed

LONG = 60.0


def echoing() -> H2Server:
    server = H2Server()
    server.on_end = lambda stream: server.answer(stream, server.bodies[stream][5:])
    return server


async def connect(port: int, **options: Any) -> tuple[GrpcChannel, bytes]:
    channel = GrpcChannel("127.0.0.1", port, **options)
    assert await channel.connect(within=LONG), channel.problem
    return channel, channel.encode_head("/a.B/C", (("token", "t"),))


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONG):
        while not what():  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.005)


async def test_calls_are_answered_many_at_a_time():
    async with LoopbackServer.run(echoing) as loopback:
        channel, head = await connect(loopback.port)
        texts = [b"x" * size for size in range(0, 200_000, 9_999)]
        assert await asyncio.gather(*(channel.call(head, text, within=LONG) for text in texts)) == texts
        ((server, _),) = loopback.connections
        assert server.requests[1][b"token"] == b"t"
        assert server.requests[1][b":scheme"] == b"http"
        await channel.close()


async def test_a_call_that_is_not_answered_in_time_fails_and_is_reset():
    async with LoopbackServer.run() as loopback:
        channel, head = await connect(loopback.port)
        with pytest.raises(RpcFailed) as caught:
            await channel.call(head, b"", within=0.05)
        assert (caught.value.code, caught.value.is_unprocessed) == ("DEADLINE_EXCEEDED", False)
        ((server, _),) = loopback.connections
        await until(lambda: server.resets == {1: 8})
        assert channel.is_ready()
        await channel.close()


async def test_a_cancelled_caller_resets_its_call():
    async with LoopbackServer.run() as loopback:
        channel, head = await connect(loopback.port)
        task = asyncio.create_task(channel.call(head, b"", within=LONG))
        ((server, _),) = loopback.connections
        await until(lambda: bool(server.ended))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: server.resets == {1: 8})
        await channel.close()


async def test_the_code_and_the_text_of_a_refused_call_are_its_failure():
    async with LoopbackServer.run(lambda: refusing(5, "etcdserver: not%20found")) as loopback:
        channel, head = await connect(loopback.port)
        with pytest.raises(RpcFailed, match="etcdserver: not found") as caught:
            await channel.call(head, b"", within=LONG)
        assert caught.value.code == "NOT_FOUND"
        await channel.close()


def refusing(status: int, text: str) -> H2Server:
    server = H2Server()

    def end(stream: int) -> None:
        server.begin(stream)
        server.finish(stream, status, text)

    server.on_end = end
    return server


async def test_a_response_without_a_message_is_no_response():
    async with LoopbackServer.run(lambda: refusing(0, "")) as loopback:
        channel, head = await connect(loopback.port)
        with pytest.raises(RpcFailed, match="has no message"):
            await channel.call(head, b"", within=LONG)
        await channel.close()


async def test_calls_of_a_lost_connection_may_have_happened_and_the_next_one_connects_again():
    async with LoopbackServer.run() as loopback:
        channel, head = await connect(loopback.port)
        stream = channel.open(head)
        call = asyncio.create_task(channel.call(head, b"", within=LONG))
        server, transport = loopback.connections[0]
        await until(lambda: bool(server.ended))
        transport.abort()
        for failed in (call, stream.read()):
            with pytest.raises(RpcFailed, match="the connection is lost") as caught:
                await failed
            assert (caught.value.code, caught.value.is_unprocessed) == ("UNAVAILABLE", False)
        with pytest.raises(RpcFailed, match="the connection is lost"):
            stream.send(b"")
        with pytest.raises(RpcFailed, match="there is no connection") as caught:
            await channel.call(head, b"", within=LONG)
        assert caught.value.is_unprocessed
        loopback.make = echoing
        assert await channel.connect(within=LONG)
        assert await channel.call(head, b"again", within=LONG) == b"again"
        await channel.close()


async def test_a_server_that_closes_keeps_its_calls_and_new_ones_use_another_connection():
    async with LoopbackServer.run() as loopback:
        channel, head = await connect(loopback.port)
        old = asyncio.create_task(channel.call(head, b"", within=LONG))
        server, transport = loopback.connections[0]
        await until(lambda: bool(server.ended))
        server.h2.close_connection(last_stream_id=1)
        # Not by h2 from here on, which sends nothing more after it has closed a connection.
        transport.write(bytes(server.h2.data_to_send()))
        await until(lambda: not channel.is_ready())
        loopback.make = echoing
        assert await channel.connect(within=LONG)
        assert await channel.call(head, b"new", within=LONG) == b"new"
        assert not old.done()
        await channel.close()
        with pytest.raises(RpcFailed, match="the connection is lost"):
            await old


async def test_more_calls_than_the_server_allows_wait_for_their_turn_within_their_time():
    def make() -> H2Server:
        return H2Server(MAX_CONCURRENT_STREAMS=1)

    async with LoopbackServer.run(make) as loopback:
        channel, head = await connect(loopback.port)
        first = asyncio.create_task(channel.call(head, b"1", within=LONG))
        server, _ = loopback.connections[0]
        await until(lambda: server.ended == [1])
        with pytest.raises(RpcFailed, match="accepts no more calls") as caught:
            await channel.call(head, b"", within=0.01)
        assert caught.value.is_unprocessed
        with pytest.raises(RpcFailed, match="accepts no more calls") as caught:
            channel.open(head)
        assert caught.value.is_unprocessed
        others = [asyncio.create_task(channel.call(head, b"%d" % number, within=LONG)) for number in (2, 3, 4)]
        await asyncio.sleep(0.01)
        others[0].cancel()
        assert server.ended == [1]
        server.on_end = lambda stream: server.answer(stream, server.bodies[stream][5:])
        server.answer(1, b"1")
        loopback.flush()
        assert await first == b"1"
        assert await asyncio.gather(*others[1:]) == [b"3", b"4"]
        await channel.close()


async def waiting_for_a_turn(loopback: LoopbackServer) -> tuple[GrpcChannel, list["asyncio.Task[bytes]"]]:
    """A call that the server has begun with, the only one that it allows, and two that wait for it."""
    loopback.make = lambda: H2Server(MAX_CONCURRENT_STREAMS=1)
    channel, head = await connect(loopback.port)
    calls = [asyncio.create_task(channel.call(head, text, within=LONG)) for text in (b"1", b"2", b"3")]
    server, _ = loopback.connections[0]
    await until(lambda: server.ended == [1])
    server.on_end = lambda stream: server.answer(stream, server.bodies[stream][5:])
    return channel, calls


async def test_the_turn_of_a_caller_that_is_cancelled_goes_to_the_next_one():
    async with LoopbackServer.run() as loopback:
        channel, (first, second, third) = await waiting_for_a_turn(loopback)
        first.add_done_callback(lambda _: second.cancel())  # when its turn has come already
        loopback.connections[0][0].answer(1, b"1")
        loopback.flush()
        async with asyncio.timeout(LONG / 2):
            assert await third == b"3"
        await channel.close()


async def test_a_cancelled_call_gives_its_turn_to_one_that_waits():
    async with LoopbackServer.run() as loopback:
        channel, (first, *others) = await waiting_for_a_turn(loopback)
        first.cancel()
        async with asyncio.timeout(LONG / 2):
            assert await asyncio.gather(*others) == [b"2", b"3"]
        await channel.close()


async def test_callers_that_wait_when_the_connection_is_lost_have_certainly_not_called():
    async with LoopbackServer.run() as loopback:
        channel, (first, *others) = await waiting_for_a_turn(loopback)
        loopback.connections[0][1].abort()
        async with asyncio.timeout(LONG / 2):
            failures = await asyncio.gather(first, *others, return_exceptions=True)
        assert [isinstance(one, RpcFailed) and one.is_unprocessed for one in failures] == [False, True, True]
        await channel.close()


async def test_pings_of_the_server_are_answered_though_nothing_else_is_sent():
    async with LoopbackServer.run() as loopback:
        channel, _ = await connect(loopback.port)
        server, _ = loopback.connections[0]
        for number in (1, 2):
            server.h2.ping(bytes(8))
            loopback.flush()
            await until(lambda number=number: server.pongs == number)
        await channel.close()


async def test_a_reader_that_takes_messages_gets_more_than_the_window_of_a_call():
    async with LoopbackServer.run() as loopback:
        channel, head = await connect(loopback.port)
        stream = channel.open(head)
        stream.send(b"")
        server, _ = loopback.connections[0]
        await until(lambda: 1 in server.bodies)
        server.begin(1)
        for _ in range(12):
            server.send(1, framed(bytes(1_000_000)))
        loopback.flush()
        for _ in range(12):
            assert len(await stream.read()) == 1_000_000
        await channel.close()


async def test_a_stream_has_messages_in_both_directions_and_ends_with_a_reason():
    async with LoopbackServer.run() as loopback:
        channel, head = await connect(loopback.port)
        stream = channel.open(head)
        stream.send(b"a")
        stream.send(b"b")
        server, _ = loopback.connections[0]
        await until(lambda: server.bodies.get(1) == framed(b"a") + framed(b"b"))
        reading = asyncio.create_task(stream.read())
        server.begin(1)
        server.send(1, framed(b"one") + framed(b"two"))
        loopback.flush()
        assert [await reading, await stream.read()] == [b"one", b"two"]
        server.send(1, framed(b"three") + framed(b"four"))
        loopback.flush()
        assert await stream.read() == b"three"
        stream.end("closed by the test")
        with pytest.raises(RpcFailed, match="closed by the test"):
            await stream.read()
        await until(lambda: server.resets == {1: 8})
        stream = channel.open(head)
        await ended(stream, lambda: stream.end("closed again"), "closed again")
        await channel.close()


async def ended(stream: GrpcStream, end: Callable[[], None], reason: str) -> None:
    reading = asyncio.create_task(stream.read())
    await asyncio.sleep(0)
    end()
    with pytest.raises(RpcFailed, match=reason):
        await reading


async def test_the_messages_of_a_stream_that_the_server_ends_are_read_before_its_end():
    async with LoopbackServer.run() as loopback:
        channel, head = await connect(loopback.port)
        stream = channel.open(head)
        stream.send(b"a")
        server, _ = loopback.connections[0]
        await until(lambda: 1 in server.bodies)
        server.answer(1, b"last")
        loopback.flush()
        assert await stream.read() == b"last"
        with pytest.raises(RpcFailed, match="the server has ended the stream"):
            await stream.read()
        await channel.close()


async def test_a_server_that_cannot_be_reached_is_tried_again_after_a_pause():
    async with LoopbackServer.run() as loopback:
        port = loopback.port
    channel = GrpcChannel("127.0.0.1", port, times=ChannelTimes(retry=LONG))
    assert not await channel.connect(within=LONG)
    assert str(port) in (channel.problem or "")
    async with LoopbackServer.run(port=port):
        assert not await channel.connect(within=LONG), "it is too early"
        other, _ = await connect(port)
        await other.close()
    await channel.close()


async def test_what_accepts_connections_and_says_nothing_is_no_connection():
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the system accepts
        channel = GrpcChannel("127.0.0.1", silent.getsockname()[1], times=ChannelTimes(connect=0.05))
        assert not await channel.connect(within=LONG)
        assert channel.problem == "no answer within 0.05 s"
        await channel.close()


async def test_a_server_of_another_protocol_is_named_as_the_problem():
    farewell: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        farewell.set_result(await reader.read())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        channel = GrpcChannel("127.0.0.1", server.sockets[0].getsockname()[1])
        assert not await channel.connect(within=LONG)
        assert "the server has broken the protocol of gRPC" in (channel.problem or "")
        assert b"is too long" in await farewell, "the server gets the reason"
        await channel.close()


def contexts(protocol: str = "h2", name: str = "127.0.0.1") -> tuple[ssl.SSLContext, ssl.SSLContext]:
    authority = CertificateAuthority.create("etcd")
    server = authority.server_context(authority.issue_server(["localhost"], [name]))
    server.set_alpn_protocols([protocol])
    return server, ssl.create_default_context(cadata=authority.certificate.decode())


async def test_tls_checks_the_servers_certificate_and_its_name():
    server, client = await asyncio.to_thread(contexts)
    async with LoopbackServer.run(echoing, tls=server) as loopback:
        channel, head = await connect(loopback.port, tls=client)
        assert await channel.call(head, b"secret" * 9_999, within=LONG) == b"secret" * 9_999
        assert loopback.connections[0][0].requests[1][b":scheme"] == b"https"
        await channel.close()
        stranger = GrpcChannel("127.0.0.1", loopback.port, tls=ssl.create_default_context())
        assert not await stranger.connect(within=LONG)
        assert "certificate verify failed" in (stranger.problem or "")
        await stranger.close()


@pytest.mark.parametrize(
    ("protocol", "name", "problem"),
    [("h2", "127.0.0.2", "certificate is not valid for '127.0.0.1'"), ("http/1.1", "127.0.0.1", "not speak HTTP/2")],
)
async def test_tls_to_another_name_or_without_http2_is_refused(protocol: str, name: str, problem: str):
    server, client = await asyncio.to_thread(contexts, protocol, name)
    async with LoopbackServer.run(echoing, tls=server) as loopback:
        channel = GrpcChannel("127.0.0.1", loopback.port, tls=client)
        assert not await channel.connect(within=LONG)
        assert problem in (channel.problem or "")
        await channel.close()


async def test_a_server_that_answers_pings_is_kept_and_one_that_hangs_is_given_up():
    async with LoopbackServer.run() as loopback:
        patient, head = await connect(loopback.port, times=ChannelTimes(ping=0.01, pong=LONG))
        server, _ = loopback.connections[0]
        waiting = asyncio.create_task(patient.call(head, b"", within=LONG))
        await until(lambda: server.pings > 2)
        assert not waiting.done()
        hanging, head = await connect(loopback.port, times=ChannelTimes(ping=0.01, pong=0.02))
        loopback.connections[1][1].pause_reading()
        with pytest.raises(RpcFailed, match="does not answer pings"):
            await hanging.call(head, b"", within=LONG)
        assert not hanging.is_ready()
        waiting.cancel()
        await hanging.close()
        await patient.close()
