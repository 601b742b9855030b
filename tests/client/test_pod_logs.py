import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from levelset.client.client import Client
from levelset.client.transport.in_process import InProcessTransport
from levelset.errors import BadRequest, NotFound
from levelset.http import Request, Response
from levelset.objects import Ref
from tests.client.fixtures import Website, open_client, website

POD = Ref(Website, "web-1", "default")


class Logging:
    """A server that serves only logs."""

    def __init__(self, *chunks: bytes, status: int = 200) -> None:
        self.chunks = chunks
        self.status = status
        self.requested: list[Request] = []
        self.is_closed = False

    def handle(self, request: Request, /) -> Response:
        self.requested.append(request)
        return Response(self.status, (), self._body())

    async def _body(self) -> AsyncIterator[bytes]:
        try:
            for chunk in self.chunks:
                yield chunk
                await asyncio.sleep(0)
        finally:
            self.is_closed = True


async def lines(server: Logging, **options: Any) -> list[str]:
    async with Client(InProcessTransport(server)) as client:
        return [line async for line in client.logs(POD, **options)]


async def test_lines_are_whole_wherever_the_chunks_are_cut() -> None:
    text = "first\nsecond with é\r\n\nlast".encode()
    for size in (1, 2, 5, 100):
        chunks = [text[at : at + size] for at in range(0, len(text), size)]
        assert await lines(Logging(*chunks)) == ["first", "second with é", "", "last"]


async def test_bytes_that_are_not_utf_8_do_not_end_the_log() -> None:
    assert await lines(Logging(b"a\xffb\n", b"c\n\xc3")) == ["a\ufffdb", "c", "\ufffd"]
    assert await lines(Logging()) == []


async def test_log_options_become_the_query() -> None:
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
        source="stderr",
    )
    (request,) = server.requested
    assert request.path == "/apis/example.dev/v1/namespaces/default/websites/web-1/log"
    assert {name: values[0] for name, values in request.parameters.items()} == {
        "follow": "true",
        "container": "main",
        "tailLines": "10",
        "sinceSeconds": "1",
        "previous": "true",
        "timestamps": "true",
        "limitBytes": "100",
        "source": "stderr",
    }


async def test_stopping_early_closes_the_stream() -> None:
    server = Logging(b"a\n", b"b\n", b"c\n")
    async with Client(InProcessTransport(server)) as client, client.logs(POD, follow=True) as log:
        async for line in log:
            assert line == "a"
            break
        await log.aclose()
        assert server.is_closed


async def test_an_error_response_is_raised_at_the_first_line() -> None:
    with pytest.raises(BadRequest, match="read logs of Website/default/web-1"):
        await lines(Logging(b"no such container", status=400))
    async with open_client() as client:
        site = await client.create(website("blog"))
        with pytest.raises(NotFound):
            await anext(client.logs(site.ref))


async def test_an_endless_line_comes_in_parts_and_is_scanned_once() -> None:
    mib = 1024 * 1024
    found = await lines(Logging(*[b"x" * mib] * 20, b"y\nz"))
    assert [(len(line), line[-1]) for line in found] == [(17 * mib, "x"), (3 * mib + 1, "y"), (1, "z")]
