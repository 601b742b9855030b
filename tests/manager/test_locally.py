"""A server of one's own leaves no kubeconfig behind, and never takes away that of another."""

import asyncio
from pathlib import Path

from levelset.apiserver.kubeconfig import read_kubeconfig
from levelset.manager.locally import open_box


async def test_the_kubeconfig_is_there_as_long_as_the_server_is(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    async with open_box(str(path)) as box:
        assert (await asyncio.to_thread(read_kubeconfig, path)).url == box.server.url
    assert not await asyncio.to_thread(path.exists)


async def test_a_server_that_ends_leaves_the_kubeconfig_of_one_that_was_started_later(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    first = open_box(str(path))
    await first.__aenter__()
    async with open_box(str(path)) as later:
        await first.__aexit__(None, None, None)
        assert (await asyncio.to_thread(read_kubeconfig, path)).url == later.server.url


async def test_objects_in_a_file_are_there_again_with_the_secrets_of_their_server(tmp_path: Path) -> None:
    tokens: list[str] = []
    for _ in range(2):
        async with open_box(str(tmp_path / "kubeconfig"), data=str(tmp_path / "data.db")) as box:
            tokens.append(box.server.token)
    assert tokens[0] == tokens[1]
