import asyncio
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver import ApiServer
from levelset.apiserver.kubeconfig_file import ConnectionInfo, write_kubeconfig
from levelset.client.client import Client
from levelset.client.config.config import Config
from levelset.client.config.credentials import Token
from levelset.client.internals import list_page
from levelset.errors import AlreadyExists, ConfigError, Expired, NotFound, Unauthorized, Unreachable
from tests.client.fixtures import WEBSITE, Namespace, Website, website, website_crd


async def test_the_same_verbs_work_over_sockets() -> None:
    async with ApiServer(tls=False) as server:
        config = Config(server=server.url, credentials=Token(server.token), namespace="kube-system")
        async with await Client.connect(config) as client:
            assert client.namespace == "kube-system"
            await client.create(website_crd())
            site = await client.create(website("blog"))
            with pytest.raises(AlreadyExists):
                await client.create(website("blog"))
            assert await client.get(site.ref) == site
            assert [one.name for one in await client.list(WEBSITE)] == ["blog"]
            async with client.watch(Website, resource_version=site.metadata.resource_version) as batches:
                changed = await client.update(site.with_spec(replicas=3))
                (event,) = await anext(batches)
                assert event.cached is not None
                assert event.cached.read(Website) == changed
            assert await client.delete(site.ref) is None
            with pytest.raises(NotFound):
                await client.get(site.ref)


async def test_a_server_that_stops_ends_a_watch_and_cannot_be_reached_any_more() -> None:
    server = ApiServer(tls=False)
    await server.start()
    config = Config(server=server.url, credentials=Token(server.token))
    async with await Client.connect(config) as client:
        async with client.watch(Namespace, resource_version="0") as batches:
            reader = asyncio.create_task(_read(batches))
            await asyncio.sleep(0)
            await server.stop()
            await reader
        with pytest.raises(Unreachable):
            await list_page(client, Namespace)


async def _read(batches: Any) -> None:
    try:
        async for _ in batches:
            pass
    except (Unreachable, Expired):
        pass


async def test_a_client_connects_to_the_server_of_a_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config"
    async with ApiServer() as server:
        contact = ConnectionInfo(server.url, server.token, server.ca)
        await asyncio.to_thread(write_kubeconfig, file, contact)
        monkeypatch.setenv("KUBECONFIG", str(file))
        for where in (None, file, str(file)):
            async with await Client.connect(where) as client:
                assert (await client.get(Namespace, "default")).name == "default"
        with pytest.raises(ConfigError, match="nowhere"):
            await Client.connect(file, context="nowhere")


async def test_a_wrong_token_is_unauthorized() -> None:
    async with ApiServer(tls=False) as server:
        config = Config(server=server.url, credentials=Token("wrong"))
        async with await Client.connect(config) as client:
            with pytest.raises(Unauthorized, match="get Namespace/default"):
                await client.get(Namespace, "default")
