import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from levelset.client.client import Client
from levelset.client.transport.in_process import InsideTransport
from levelset.errors import BadRequest, NotFound
from levelset.http import Request, Response
from levelset.objects import Ref
from tests.client.world import Website, open_client, website

POD = Ref(Website, "web-1", "default")


class Logging:
    """A server that has nothing but logs."""

    def __init__(self, *pieces: bytes, status: int = 200) -> None:
        self.pieces = pieces
        self.status = status
        self.asked: list[Request] = []
        self.is_closed = False

    def handle(self, request: Request, /) -> Response:
        self.asked.append(request)
        return Response(self.status, (), self._body())

    async def _body(self) -> AsyncIterator[bytes]:
        try:
            for piece in self.pieces:
                yield piece
                await asyncio.sleep(0)
        finally:
            self.is_closed = True


async def lines(server: Logging, **options: Any) -> list[str]:
    async with Client(InsideTransport(server)) as client:
        return [line async for line in client.logs(POD, **options)]


async def test_lines_are_whole_wherever_the_bytes_were_cut() -> None:
    text = "first\nsecond with é\r\n\nlast".encode()
    for size in (1, 2, 5, 100):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert await lines(Logging(*pieces)) == ["first", "second with é", "", "last"]


async def test_bytes_that_are_no_text_do_not_end_the_log() -> None:
    assert await lines(Logging(b"a\xffb\n", b"c\n\xc3")) == ["a\ufffdb", "c", "\ufffd"]
    assert await lines(Logging()) == []


async def test_what_is_asked_for_is_said_in_the_query() -> None:
    server = Logging(b"x\n")
    await lines(
        server,
        follow=True,
        container="main",
        tail=10,
        since=0.2,
        previous=True,
        timestamps=True,
        limit_bytes=100,
    )
    (request,) = server.asked
    assert request.path == "/apis/example.dev/v1/namespaces/default/websites/web-1/log"
    assert {name: values[0] for name, values in request.parameters.items()} == {
        "follow": "true",
        "container": "main",
        "tailLines": "10",
        "sinceSeconds": "1",
        "previous": "true",
        "timestamps": "true",
        "limitBytes": "100",
    }


async def test_leaving_early_closes_the_stream() -> None:
    server = Logging(b"a\n", b"b\n", b"c\n")
    async with Client(InsideTransport(server)) as client, client.logs(POD, follow=True) as log:
        async for line in log:
            assert line == "a"
            break
        await log.aclose()
        assert server.is_closed


async def test_a_refusal_is_raised_at_the_first_line() -> None:
    with pytest.raises(BadRequest, match="read logs of Website/default/web-1"):
        await lines(Logging(b"no such container", status=400))
    async with open_client() as client:
        site = await client.create(website("blog"))
        with pytest.raises(NotFound):
            await anext(client.logs(site.ref))


async def test_a_line_without_an_end_comes_in_parts_and_is_looked_through_once() -> None:
    mib = 1024 * 1024
    found = await lines(Logging(*[b"x" * mib] * 20, b"y\nz"))
    assert [(len(line), line[-1]) for line in found] == [(17 * mib, "x"), (3 * mib + 1, "y"), (1, "z")]
