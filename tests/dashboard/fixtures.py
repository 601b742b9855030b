"""A dashboard over an in-process server, and requests of an authenticated browser."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from levelset.apiserver import ApiServer
from levelset.client import Client
from levelset.dashboard import Dashboard, DashboardSource
from levelset.http import Headers, Request, Response, read_all
from levelset.objects import Unstructured
from levelset.runtime.recording import entries
from levelset.runtime.recording.recording_file import BlockWriter
from tests.client.fixtures import website_crd

__all__ = ["TOKEN", "get", "open_client", "open_dashboard", "send", "tree", "write_crafted"]

TOKEN = "let-me-in"


@asynccontextmanager
async def open_client() -> AsyncGenerator[Client, None]:
    """A client of a server without sockets that serves Websites."""
    server = ApiServer()
    await server.start(listen=False)
    try:
        async with await Client.connect(server) as client:
            await client.create(website_crd())
            yield client
    finally:
        await server.stop()


@asynccontextmanager
async def open_dashboard() -> AsyncGenerator[tuple[Dashboard, Client], None]:
    async with open_client() as client:
        page = Dashboard(DashboardSource.of_client(client), token=TOKEN)
        try:
            yield page, client
        finally:
            await page.close()


async def send(page: Dashboard, path: str, method: str = "GET", **headers: str) -> Response:
    """The response for a browser with the cookie, unless `headers` replace it; the path is below that of the page."""
    path, _, query = f"{page.access.root}{path.removeprefix('/')}".partition("?")
    sent = {"Host": "127.0.0.1:8080", "Cookie": f"{page.access.cookie_name}={page.access.token}"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    return await page.handle(Request(method=method, path=path, query=query, headers=Headers(sent)))


async def get(page: Dashboard, path: str) -> Any:
    """The JSON of a successful response."""
    response = await send(page, path)
    body = await read_all(response)
    assert response.status == 200, body
    return json.loads(body)


def tree(api_version: str, kind: str, name: str, **more: Any) -> Unstructured:
    meta: dict[str, Any] = {"name": name, "namespace": "default", **more.pop("metadata", {})}
    return Unstructured({"apiVersion": api_version, "kind": kind, "metadata": meta, **more})


def write_crafted(path: Path, text: str, *, blocks: int = 1) -> Path:
    """A recording in which every text is this one: two steps of informers, two reconciles, the second failed, the end.

    With more `blocks`, more such reconciles follow in blocks of their own.
    """
    raw = json.dumps({"metadata": {"name": text, "namespace": text}}).encode()
    first: list[entries.Entry] = [
        entries.Start(0, 1, text, text, text, text, None),
        entries.ControllerEntry(1, text, text, text, text, [None], 1),
        entries.ScopeEntry(2, 1, text, text, text, None, text, text, is_metadata=False, is_changed=False),
        entries.Batch(3, 1, text, [entries.BatchEvent(3, raw)]),
        entries.WatchFailed(4, 1, text, is_persistent=True),
    ]
    writer = BlockWriter(path)
    for number in range(blocks):
        made = [one for task, result in ((1, "done"), (2, "failed")) for one in _reconcile(text, task, result)]
        last = [entries.Stop(99, text)] if number == blocks - 1 else []
        writer.append(msgspec.msgpack.encode([*([] if number else first), *made, *last]), compress=True)
    writer.close()
    return path


def _reconcile(text: str, task: int, result: str) -> list[entries.Entry]:
    return [
        entries.Begin(5, task, text, text, [entries.ReasonEntry(text)], 0, 0),
        entries.Request(6, task, task, text, text, text, text, b""),
        entries.Answer(7, task, 200, {}, b""),
        entries.End(8, task, result, None, text if result == "failed" else None, 0.1, 0.0),
    ]
