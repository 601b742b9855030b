"""The dashboard as a System: it is served with the manager, and a browser receives changes."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from levelset.client import Client
from levelset.dashboard import dashboard
from levelset.errors import ConfigError
from levelset.http import Server
from levelset.runtime.manager import Manager
from levelset.runtime.manager.system import open_parts
from tests.client.fixtures import website
from tests.dashboard.fixtures import open_client


async def fetch(url: str, path: str, **headers: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    lines = [f"GET {path} HTTP/1.1", f"Host: {parts.netloc}", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    return reader, writer


async def authenticate(url: str) -> tuple[str, str]:
    """What a browser does with the printed URL: the path to which it leads, and the cookie."""
    found, path = "", f"/?{urlsplit(url).query}"
    for _ in range(2):
        reader, writer = await fetch(url, path, Connection="close")
        found = (await reader.read()).decode()
        writer.close()
        path = found.partition("Location: ")[2].partition("\r\n")[0]
    assert found.startswith("HTTP/1.1 200 OK")
    name, root = re.findall(r"Set-Cookie: ([^;]*); Path=([^;]*)", found)[0]
    return root, name


@asynccontextmanager
async def whole(client: Client) -> AsyncGenerator[str, None]:
    async with open_parts(dashboard()) as parts, Manager(client) as manager:
        assert parts.setup is not None
        parts.setup(manager)
        await manager.wait_elected()
        yield parts.urls["dashboard"]


async def test_a_browser_authenticates_once_and_receives_changes() -> None:
    async with open_client() as client, whole(client) as url:
        root, cookie = await authenticate(url)
        reader, writer = await fetch(url, f"{root}feed?kind=example.dev/v1/Website", Cookie=cookie)
        await reader.readuntil(b'{"example.dev/v1/Website": null}')
        await client.create(website("blog"))
        line = await reader.readuntil(b'["default/blog"]')
        assert b"event: change" in line
        reader2, writer2 = await fetch(url, f"{root}api/kinds", Cookie=cookie, Connection="close")
        body = (await reader2.read()).partition(b"\r\n\r\n")[2]
        assert {one["kind"]: one["count"] for one in json.loads(body)["kinds"]}["example.dev/v1/Website"] == 1
        writer.close()
        writer2.close()


async def test_open_feeds_end_when_the_program_stops() -> None:
    async with open_client() as client:
        async with whole(client) as url:
            root, cookie = await authenticate(url)
            reader, writer = await fetch(url, f"{root}feed?kind=v1/ConfigMap&status=1", Cookie=cookie)
            await reader.readuntil(b"v1/ConfigMap")
        assert (await reader.read()).endswith(b"0\r\n\r\n")  # the stream was ended, not cut
        writer.close()
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("dashboard/")]


async def test_a_port_in_use_is_refused_at_the_start() -> None:
    async with Server(lambda _: pytest.fail("no request is expected")) as other:
        with pytest.raises(ConfigError, match=f"Port {other.port} on 127.0.0.1 is in use"):
            async with open_parts(dashboard(other.port)):
                pytest.fail("it must not be opened")
