"""A watch through a real proxy that stays connected and swallows what the server sends."""

import asyncio

from levelset.apiserver import ApiServer
from levelset.client import Client, Config, Token
from levelset.kinds.core_v1 import ConfigMap
from levelset.runtime.cache import Cluster
from tests.runtime.watch.swallowing_proxy import SwallowingProxy


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
