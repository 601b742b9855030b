"""An embedded server removes its kubeconfig when it stops, but never that of another server."""

import asyncio
from pathlib import Path

import pytest

from levelset.apiserver.kubeconfig_file import ConnectionInfo, read_kubeconfig, write_kubeconfig
from levelset.client import Client
from levelset.errors import ConfigError, Forbidden
from levelset.http import Peer
from levelset.kinds.core_v1 import ConfigMap
from levelset.runtime.manager.local_server import open_local_server


async def test_the_kubeconfig_exists_as_long_as_the_server_runs(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    async with open_local_server(str(path)) as box:
        assert (await asyncio.to_thread(read_kubeconfig, path)).url == box.server.url
    assert not await asyncio.to_thread(path.exists)


async def test_the_kubeconfig_of_a_running_server_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    async with open_local_server(str(path)) as first:
        with pytest.raises(ConfigError, match="belongs to a running server"):
            async with open_local_server(str(path)):
                raise AssertionError
        assert (await asyncio.to_thread(read_kubeconfig, path)).url == first.server.url


async def test_a_server_that_stops_leaves_a_kubeconfig_that_another_one_has_written(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    async with open_local_server(str(path)):
        await asyncio.to_thread(write_kubeconfig, path, ConnectionInfo("https://127.0.0.1:1", "later"))
    assert (await asyncio.to_thread(read_kubeconfig, path)).token == "later"


async def test_of_two_servers_that_start_at_once_with_one_kubeconfig_one_is_refused(tmp_path: Path) -> None:
    path, opened = tmp_path / "kubeconfig", [open_local_server(str(tmp_path / "kubeconfig")) for _ in range(2)]
    results = await asyncio.gather(*(one.__aenter__() for one in opened), return_exceptions=True)
    (error,) = [one for one in results if isinstance(one, BaseException)]
    assert isinstance(error, ConfigError)
    assert "belongs to a running server" in str(error)
    (box,) = [one for one in results if not isinstance(one, BaseException)]
    assert (await asyncio.to_thread(read_kubeconfig, path)).url == box.server.url
    await opened[results.index(box)].__aexit__(None, None, None)
    assert not await asyncio.to_thread(path.exists)


async def test_objects_in_a_file_survive_with_the_secrets_of_their_server(tmp_path: Path) -> None:
    tokens: list[str] = []
    for _ in range(2):
        async with open_local_server(str(tmp_path / "kubeconfig"), data=str(tmp_path / "data.db")) as box:
            tokens.append(box.server.token)
    assert tokens[0] == tokens[1]


async def test_with_rbac_other_users_need_a_role_and_the_owner_does_not(tmp_path: Path) -> None:
    async with (
        open_local_server(str(tmp_path / "kubeconfig"), rbac=True) as box,
        await Client.connect(box.server) as owner,
        await Client.connect(box.server, peer=Peer("jane")) as jane,
    ):
        await owner.list(ConfigMap, namespace="default")
        with pytest.raises(Forbidden):
            await jane.list(ConfigMap, namespace="default")
