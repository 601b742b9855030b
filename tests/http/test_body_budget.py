"""Request bodies in flight: refused by their head, bounded in all and by client, and released with the connection."""

import asyncio
import gc
import weakref

import pytest

from levelset.http import Limits, Request, Response
from levelset.http.body_budget import BodyBudget
from levelset.http.parser import RequestParser


def ok(request: Request) -> Response:
    return Response(200, body=b"%d" % len(request.body))


def members_only(request: Request) -> Response | str:
    return "eve" if request.headers.get("authorization") else Response(401, (("X-Why", "no token"),), b"who are you?")


HEAD = b"POST /a?b=c HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n"
MEMBER = HEAD + b"Authorization: x\r\n\r\n"


def test_bytes_are_counted_in_all_and_by_client():
    budget = BodyBudget(Limits(bodies_bytes=100, client_bodies_bytes=60))
    one, two = budget.open("one"), budget.open("two")
    assert one.grow(60)
    assert not one.grow(61)
    assert not two.grow(41)
    assert two.grow(40)
    assert (budget.total, budget.clients) == (100, 2)
    one.release()
    one.release()
    assert (budget.total, budget.clients) == (40, 1)


async def test_a_request_is_refused_by_its_head_before_its_body_is_read(serve, connect):
    client = await connect(await serve(ok, head_check=members_only))
    client.send(HEAD + b"\r\n")
    status, headers, body = await client.read()
    assert (status, headers["connection"], headers["x-why"], body) == (401, "close", "no token", b"who are you?")
    assert await client.read_to_end() == b""


async def test_a_refused_request_gets_no_continue(serve, connect):
    client = await connect(await serve(ok, head_check=members_only))
    client.send(HEAD + b"Expect: 100-continue\r\n\r\n")
    assert (await client.read_head())[0] == 401


async def test_an_accepted_request_gets_its_continue_and_its_response(serve, connect):
    client = await connect(await serve(ok, head_check=members_only))
    client.send(MEMBER[:-2] + b"Expect: 100-continue\r\n\r\n")
    assert (await client.read_head())[0] == 100
    client.send(b"x" * 1_000_000)
    assert (await client.read())[2] == b"1000000"


async def test_a_chunked_body_is_refused_by_its_head(serve, connect):
    client = await connect(await serve(ok, head_check=members_only))
    client.send(b"POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
    assert (await client.read_head())[0] == 401


async def test_a_refused_pipelined_request_gets_its_response_after_the_one_before(serve, connect):
    go = asyncio.Event()

    async def slow(_: Request) -> Response:
        await go.wait()
        return Response(200, body=b"first")

    client = await connect(await serve(slow, head_check=members_only))
    client.send_request("GET", "/")
    client.send(HEAD + b"\r\nbegin")
    await asyncio.sleep(0)
    go.set()
    assert (await client.read())[2] == b"first"
    assert (await client.read())[0] == 401


async def test_the_head_check_sees_method_target_and_headers_and_no_body(serve, connect):
    seen: list[Request] = []
    client = await connect(await serve(ok, head_check=lambda request: (seen.append(request), "eve")[1]))
    client.send(MEMBER + b"x" * 10)
    client.send(b"x" * 999_990)
    await client.read()
    assert [(one.method, one.path, one.query, one.body) for one in seen] == [("POST", "/a", "b=c", b"")]
    assert seen[0].headers.get("authorization") == "x"


async def test_a_head_check_that_fails_refuses_the_request_without_details(serve, connect, caplog):
    def failing(_: Request) -> str:
        raise RuntimeError("secret")

    client = await connect(await serve(ok, head_check=failing))
    client.send(HEAD + b"\r\n")
    status, _, body = await client.read()
    assert status == 500
    assert b"secret" not in body
    assert "head check failed" in caplog.text


@pytest.mark.parametrize("limits", [Limits(bodies_bytes=150_000), Limits(client_bodies_bytes=150_000)])
async def test_a_body_beyond_the_bound_of_all_bodies_gets_a_429(limits, serve, connect, until):
    server = await serve(ok, limits=limits)
    first, second = await connect(server), await connect(server)
    first.send(MEMBER + b"x" * 100_000)
    await until(lambda: server.body_bytes >= 100_000)
    second.send(MEMBER + b"x" * 100_000)
    status, headers, _ = await second.read()
    assert (status, headers["retry-after"], headers["connection"]) == (429, "1", "close")


async def test_the_bytes_of_a_body_count_until_its_response_is_sent(serve, connect, until):
    go = asyncio.Event()

    async def slow(request: Request) -> Response:
        await go.wait()
        return ok(request)

    server = await serve(slow)
    client = await connect(server)
    client.send(MEMBER + b"x" * 1_000_000)
    await until(lambda: server.body_bytes > 900_000)
    go.set()
    assert (await client.read())[2] == b"1000000"
    assert server.body_bytes == 0


@pytest.mark.parametrize("size", [500_000, 1_000_000])
async def test_a_connection_that_ends_releases_the_bytes_of_its_body(size, serve, connect, until):
    async def never(_: Request) -> Response:
        await asyncio.Event().wait()
        return Response()

    server = await serve(never)
    client = await connect(server)
    client.send(MEMBER + b"x" * size)
    await until(lambda: server.body_bytes > size - 100_000)
    client.writer.transport.abort()
    await until(lambda: server.connections == 0)
    assert server.body_bytes == 0


def test_a_closed_parser_holds_nothing_of_the_body():
    class Buffer(bytearray):
        pass

    parser = RequestParser(Limits())
    parser.feed(MEMBER + b"x" * 100)
    parser.feed(b"x" * 100_000)
    parser._more = Buffer(parser._more or b"")
    body = weakref.ref(parser._more)
    gc.disable()
    try:
        parser.close()
        assert body() is None
    finally:
        gc.enable()
    assert parser.body_size == 0
