"""A server of one's own leaves no kubeconfig behind, and never takes away that of another."""

import asyncio
from pathlib import Path

import pytest

from levelset.apiserver.kubeconfig_file import Contact, read_kubeconfig, write_kubeconfig
from levelset.errors import ConfigError
from levelset.runtime.manager.local_server import open_box


async def test_the_kubeconfig_is_there_as_long_as_the_server_is(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    async with open_box(str(path)) as box:
        assert (await asyncio.to_thread(read_kubeconfig, path)).url == box.server.url
    assert not await asyncio.to_thread(path.exists)


async def test_the_kubeconfig_of_a_server_that_runs_is_not_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    async with open_box(str(path)) as first:
        with pytest.raises(ConfigError, match="leads to a server that runs"):
            async with open_box(str(path)):
                raise AssertionError
        assert (await asyncio.to_thread(read_kubeconfig, path)).url == first.server.url


async def test_a_server_that_ends_leaves_the_kubeconfig_that_somebody_else_has_written(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    async with open_box(str(path)):
        await asyncio.to_thread(write_kubeconfig, path, Contact("https://127.0.0.1:1", "later"))
    assert (await asyncio.to_thread(read_kubeconfig, path)).token == "later"


async def test_objects_in_a_file_are_there_again_with_the_secrets_of_their_server(tmp_path: Path) -> None:
    tokens: list[str] = []
    for _ in range(2):
        async with open_box(str(tmp_path / "kubeconfig"), data=str(tmp_path / "data.db")) as box:
            tokens.append(box.server.token)
    assert tokens[0] == tokens[1]
