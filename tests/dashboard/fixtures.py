"""A dashboard over an in-process server, and requests of an authenticated browser."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from levelset.apiserver import ApiServer
from levelset.client import Client
from levelset.dashboard import Dashboard, DashboardSource
from levelset.http import Headers, Request, Response, read_all
from levelset.objects import Unstructured
from tests.client.fixtures import website_crd

__all__ = ["TOKEN", "get", "open_client", "open_dashboard", "send", "tree"]

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
    """The response for a browser with the cookie, unless `headers` replace it."""
    path, _, query = path.partition("?")
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
