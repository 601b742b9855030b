"""A real proxy that stays connected and swallows what the server sends."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from levelset.apiserver import ApiServer
from levelset.client import Client, Config, Token
from levelset.kinds.core_v1 import ConfigMap
from levelset.runtime.cache import Cluster


class SwallowingProxy:
    """Forwards connections; those that are open when `swallow` is called carry nothing to the client any more."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._open: set[object] = set()
        self._swallowed: set[object] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[str, None]:
        server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    def swallow(self) -> None:
        self._swallowed |= self._open

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mark = object()
        self._open.add(mark)
        upstream, to_upstream = await asyncio.open_connection(self._target.hostname, self._target.port)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pipe(reader, to_upstream, None))
            group.create_task(self._pipe(upstream, writer, mark))

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, mark: object | None) -> None:
        try:
            while content := await reader.read(65536):
                if mark not in self._swallowed:
                    writer.write(content)
                    await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


async def test_a_watch_that_carries_nothing_is_opened_again_and_nothing_is_missed() -> None:
    async with ApiServer(tls=False) as server, await Client.connect(server) as direct:
        proxy = SwallowingProxy(server.url)
        async with (
            proxy.serving() as url,
            await Client.connect(Config(server=url, credentials=Token(server.token))) as client,
            Cluster(client, idle_timeout=0.5) as cluster,
        ):
            cluster.declare(ConfigMap, namespace="default")
            await cluster.wait_ready()
            before = len(await cluster.list(ConfigMap, namespace="default"))
            proxy.swallow()
            for number in range(5):
                await direct.create(ConfigMap.new(f"m{number}", namespace="default"))
            async with asyncio.timeout(120):
                while len(await cluster.list(ConfigMap, namespace="default")) < before + 5:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            (stats,) = cluster.stats()
            assert (stats.relists, stats.reconnects >= 1) == (0, True)
