"""Logs of objects: as text, live, within limits, and ended with the dashboard."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest

from levelset.apiserver import ApiServer
from levelset.apiserver.verbs.subresources.pod_logs import LogRequest
from levelset.client import Client
from levelset.dashboard import Dashboard, DashboardSource, log_streams
from levelset.http import Response, iterate, read_all
from levelset.testing.virtual_time import virtual
from tests.dashboard.fixtures import TOKEN, get, send, tree

PATH = "/log?kind=v1/Pod&name=web&namespace=default"
LINES = [b"one\n", b"\x1b[31mtwo\x1b[0m <script>\n"]


async def log(request: LogRequest) -> AsyncIterator[bytes]:
    """Two lines, or as many as are wanted; one more each second for those that follow."""

    async def read() -> AsyncIterator[bytes]:
        if request.query.get("previous") == "true":
            yield b"the last run\n"
            return
        for line in LINES[-int(request.query.get("tailLines", "2")) :]:
            yield line
        while request.query.get("follow") == "true":
            await asyncio.sleep(1)
            yield f"more of {request.query.get('container')}\n".encode()

    return read()


@asynccontextmanager
async def with_logs(line: bytes | None = None) -> AsyncGenerator[tuple[Dashboard, Client], None]:
    """A dashboard with the Pod `web`, whose log has these lines, or only the given one."""

    async def fixed(_: LogRequest) -> AsyncIterator[bytes]:
        async def read() -> AsyncIterator[bytes]:
            yield line or b""

        return read()

    server = ApiServer()
    server.serve_logs("", "Pod", log if line is None else fixed)
    await server.start(listen=False)
    async with await Client.connect(server) as client:
        containers = [{"name": name, "image": "i"} for name in ("app", "proxy")]
        await client.create(tree("v1", "Pod", "web", spec={"containers": containers}))
        page = Dashboard(DashboardSource.of_client(client), token=TOKEN)
        yield page, client
        await page.close()
    await server.stop()


def header(response: Response, name: str) -> str:
    return next((value for key, value in response.headers if key == name), "")


@virtual
async def test_a_log_is_text_whatever_it_contains() -> None:
    async with with_logs() as (page, _):
        response = await send(page, PATH)
        assert await read_all(response) == b"".join(LINES)
        assert header(response, "Content-Type") == "text/plain; charset=utf-8"
        assert header(response, "X-Content-Type-Options") == "nosniff"
        assert await read_all(await send(page, f"{PATH}&tail=1")) == LINES[1]
        last_run = await send(page, f"{PATH}&previous=1&follow=1")  # it has ended: there is nothing to follow
        assert await read_all(last_run) == b"the last run\n"
        assert len(page.logs) == 0


@virtual
async def test_a_download_is_a_file_with_a_harmless_name() -> None:
    async with with_logs() as (page, client):
        assert header(await send(page, f"{PATH}&download=1"), "Content-Disposition") == 'attachment; filename="web.log"'
        await client.create(tree("v1", "Pod", "a", spec={"containers": [{"name": "c", "image": "i"}]}))
        hostile = await send(page, '/log?kind=v1/Pod&name=a"%0d%0aX: y&download=1')
        assert hostile.status == 404
        assert not [key for key, _ in hostile.headers if key == "X"]


@virtual
async def test_a_followed_log_is_live_and_ends_with_the_dashboard() -> None:
    async with with_logs() as (page, _):
        response = await send(page, f"{PATH}&follow=1&tail=0&container=proxy")
        chunks = aiter(iterate(response.body))
        found = b""
        while b"more" not in found:
            found += await anext(chunks)
        assert b"more of proxy" in found
        assert len(page.logs) == 1
        await page.close()
        assert [one async for one in chunks] == []
        assert len(page.logs) == 0


@virtual
async def test_a_page_that_leaves_ends_its_log() -> None:
    async with with_logs() as (page, _):
        response = await send(page, f"{PATH}&follow=1")
        body = response.body
        assert isinstance(body, AsyncGenerator)
        await anext(body)
        await body.aclose()
        assert len(page.logs) == 0


@virtual
async def test_too_many_logs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_streams, "MOST_STREAMS", 1)
    async with with_logs() as (page, _):
        first = await send(page, f"{PATH}&follow=1")
        assert first.status == 200
        assert (await send(page, PATH)).status == 429


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/log", 400),
        ("/log?kind=v1/Pod&name=gone", 404),
        ("/log?kind=v1/ConfigMap&name=web", 404),
        (f"{PATH}&tail=10001", 400),
        (f"{PATH}&tail=000000000999999999", 400),
        (f"{PATH}&tail={'0' * 5000}", 400),
        (f"{PATH}&tail=x", 400),
    ],
)
@virtual
async def test_what_has_no_log_is_an_error(path: str, status: int) -> None:
    async with with_logs() as (page, _):
        assert (await send(page, path)).status == status


@virtual
async def test_the_logs_that_can_be_read_are_listed() -> None:
    async with with_logs() as (page, _):
        (found,) = (await get(page, "/api/logs"))["logs"]
        (one,) = [(await get(page, "/api/object?kind=v1/Pod&name=web"))]
    assert (found["kind"], found["name"], found["containers"]) == ("v1/Pod", "web", ["app", "proxy"])
    assert (one["hasLog"], one["containers"]) == (True, ["app", "proxy"])
