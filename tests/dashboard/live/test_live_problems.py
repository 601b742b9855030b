"""Problems that begin with time alone, live on the landing page in a real browser: nothing else happens meanwhile."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver import ApiServer
from levelset.apiserver.verbs import watch
from levelset.client import Client, Config, Token
from levelset.dashboard import dashboard, problems
from levelset.runtime.manager import Manager
from levelset.runtime.manager.system import open_parts
from tests.dashboard.browser import Tab, open_browser, require_browser
from tests.dashboard.fixtures import tree
from tests.dashboard.live.shard_member import SHARDS, controller
from tests.runtime.watch.swallowing_proxy import SwallowingProxy

pytestmark = pytest.mark.browser

OBJECTS = 40
MEMBERS = "[...document.querySelectorAll('[aria-label=Members] tbody tr')].map((one) => Number(one.cells[2].innerText))"
PROBLEMS = "document.querySelector('.problems')?.innerText || ''"


@asynccontextmanager
async def landing_page(folder: Path, client: Client, **options: Any) -> AsyncGenerator[tuple[Tab, Manager], None]:
    """The landing page of a manager with a controller of ConfigMaps, once everything is healthy."""
    async with open_parts(dashboard()) as parts, Manager(client, **options) as manager:
        assert parts.setup is not None
        parts.setup(manager)
        manager.add(controller())
        await manager.wait_elected()
        async with open_browser(folder) as browser:
            tab = await browser.open(parts.urls["dashboard"])
            await tab.text("All healthy")
            yield tab, manager
            assert browser.complaints == []


async def test_a_watch_that_lags_appears_by_itself_and_disappears_when_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_browser()
    monkeypatch.setattr(watch, "_BOOKMARK_SECONDS", 0.5)
    monkeypatch.setattr(problems, "LAG", 6.0)
    async with ApiServer(tls=False) as server:
        proxy = SwallowingProxy(server.url)
        async with (
            proxy.serving() as url,
            await Client.connect(Config(server=url, credentials=Token(server.token))) as client,
            landing_page(tmp_path, client, idle_timeout=2.0) as (tab, _),
        ):
            proxy.silence("configmaps")
            shown = await tab.wait(f"({PROBLEMS}).includes('lags') && {PROBLEMS}")
            assert "watch of v1 ConfigMap in default lags" in shown
            assert "the API server has sent nothing for" in shown
            await tab.wait("document.querySelector('[aria-label=Watches] [data-tone=busy]')?.innerText === 'lags'")
            await tab.click_text(".problems a", "watch of v1 ConfigMap")
            await tab.wait("location.hash === '#/kind/v1%2FConfigMap'")
            await tab.go("#/")
            proxy.release()
            await tab.text("All healthy")


async def test_objects_whose_replica_was_killed_have_no_owner_until_another_one_takes_over(tmp_path: Path) -> None:
    require_browser()
    async with ApiServer(tls=False) as server, await Client.connect(server) as client:
        for number in range(OBJECTS):
            await client.create(tree("v1", "ConfigMap", f"map-{number}"))
        async with landing_page(tmp_path, client, shards=SHARDS) as (tab, manager):
            mine = manager.shard_counts()["maps"][0]
            program = [sys.executable, "-m", "tests.dashboard.live.shard_member", server.url, server.token]
            other = await asyncio.create_subprocess_exec(*program)
            try:
                is_shared = f"{MEMBERS}.length === 2 && {MEMBERS}[0] + {MEMBERS}[1] === {mine}"
                theirs = await tab.wait(f"{is_shared} && {MEMBERS}[1]")
                await tab.text("All healthy")
            finally:
                other.kill()
                await other.wait()
            shown = await tab.wait(f"({PROBLEMS}).includes('no replica') && {PROBLEMS}")
            assert "no replica reconciles the objects of member" in shown
            assert f"it had {theirs} when it last renewed its Lease" in shown
            await tab.wait("document.querySelector('[aria-label=Members]').innerText.includes('stopped')")
            await tab.text("All healthy")
            assert manager.shard_counts()["maps"][0] == mine
