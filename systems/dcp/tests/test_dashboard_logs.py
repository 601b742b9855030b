"""Logs of programs and containers in a real browser: live, searched, followed, wrapped, side by side, downloaded."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from levelset import Ref, open_local
from levelset.client import Client
from levelset.dashboard import dashboard
from levelset.runtime.manager.system import open_parts
from levelset_dcp.engines.memory import InMemoryEngine
from levelset_dcp.kinds import Container, ContainerSpec, Executable, ExecutableSpec
from levelset_dcp.system import Options, dcp_system
from tests.dashboard.browser import Browser, Tab, open_browser, require_browser

pytestmark = pytest.mark.browser

GROUP = "usvc-dev.developer.microsoft.com/v1"
LOG = "document.querySelectorAll('.pane')[0].querySelector('.log')"
SCRIPT = r"""
printf '\033[31mred error\033[0m \033[1;38;5;208morange\033[0m\n'
echo "long $(printf 'word %.0s' $(seq 200))"
number=0
while true; do number=$((number + 1)); echo "tick $number"; sleep 0.05; done
"""


@asynccontextmanager
async def served(folder: Path) -> AsyncGenerator[tuple[str, Client, InMemoryEngine, Browser], None]:
    """DCP in this process with an engine in memory, a running Executable and a Container, and a browser."""
    require_browser()
    engine = InMemoryEngine()
    parts = open_parts(dcp_system(Options(engine=engine)), dashboard())
    async with parts as whole, open_local(whole) as local:
        client = local.client
        await client.create(Executable.new("shop", ExecutableSpec(executable_path="/bin/sh", args=("-c", SCRIPT))))
        await client.create(Container.new("db", ContainerSpec(image="db")))
        shop, database = Ref(Executable, "shop"), Ref(Container, "db")
        await client.wait(shop, lambda one: bool(one.status and one.status.state == "Running"), within=30)
        await client.wait(database, lambda one: bool(one.status and one.status.state == "Running"), within=30)
        async with open_browser(folder) as browser:
            yield whole.urls["dashboard"], client, engine, browser
            assert browser.complaints == []


def logs_of(*names: tuple[str, str]) -> str:
    return "#/logs?" + "&".join(f"of={quote(f'{GROUP}/{kind}', safe='')},,{name}," for kind, name in names)


async def ticks(tab: Tab) -> int:
    """The last number that the program has printed, as the page shows it."""
    found = await tab.run(f"(/tick (\\d+)\\s*$/.exec({LOG}.textContent) || [0, 0])[1]")
    return int(found)


async def test_the_log_of_a_program_is_live_coloured_searched_wrapped_and_followed(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, _, _, browser):
        tab = await browser.open(f"{url}#/logs")
        await tab.text("Executable")
        await tab.click_text("main tbody a", "shop")
        await tab.wait(f"{LOG}?.textContent.includes('tick 5')")
        assert await tab.run(f"{LOG}.querySelector('.fg1').textContent") == "red error"
        orange = f"[...{LOG}.querySelectorAll('span')].find((one) => one.textContent === 'orange')"
        assert await tab.run(f"getComputedStyle({orange}).color") == "rgb(255, 135, 0)"
        before = await ticks(tab)
        await tab.wait(f"Number((/tick (\\d+)\\s*$/.exec({LOG}.textContent))[1]) > {before + 10}")  # it is live

        assert not await tab.run(f"{LOG}.scrollWidth > {LOG}.clientWidth")  # wrapped
        await tab.click_text(".pane label", " wrap")
        await tab.wait(f"{LOG}.scrollWidth > {LOG}.clientWidth")

        at_end = f"{LOG}.scrollHeight - {LOG}.scrollTop - {LOG}.clientHeight < 40"
        await tab.wait(f"{LOG}.scrollHeight > {LOG}.clientHeight && {at_end}")  # it follows
        await tab.run(f"{LOG}.scrollTop = 0")
        follows = "[...document.querySelectorAll('.pane label')].find((one) => one.textContent.includes('follow'))"
        await tab.wait(f"!{follows}.querySelector('input').checked")
        before = await ticks(tab)
        await tab.wait(f"Number((/tick (\\d+)\\s*$/.exec({LOG}.textContent))[1]) > {before}")
        assert await tab.run(f"{LOG}.scrollTop") == 0  # new lines do not move what is read
        await tab.run(f"{follows}.querySelector('input').click()")
        await tab.wait(at_end)

        await tab.run("document.querySelector('.pane input[type=search]').focus()")
        for key in "RED ER":
            await tab.press(key)
        await tab.text("1 line")
        await tab.wait(f"{LOG}.querySelector('mark')?.textContent.includes('red error')")
        await tab.click_text(".pane label", " only these")
        await tab.wait(f"!{LOG}.textContent.includes('tick') && {LOG}.textContent.includes('red error')")


async def test_a_program_and_a_container_are_side_by_side_and_can_be_downloaded(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, _, engine, browser):
        tab = await browser.open(url + logs_of(("Executable", "shop")))
        await tab.wait(f"{LOG}?.textContent.includes('tick 5')")
        await tab.click_text("main tbody a", "beside")
        await tab.wait("document.querySelectorAll('.pane').length === 2")
        (container,) = [one.id for one in await engine.list_containers()]
        engine.print(container, "\x1b[32mready\x1b[0m to accept connections")
        second = "document.querySelectorAll('.pane')[1].querySelector('.log')"
        await tab.wait(f"{second}?.textContent.includes('ready to accept connections')")
        assert await tab.run(f"{second}.querySelector('.fg2').textContent") == "ready"
        assert not await tab.run("document.documentElement.scrollWidth > window.innerWidth")
        links = "[...document.querySelectorAll('.pane a[download]')].map((one) => one.getAttribute('href'))"
        for number, words in enumerate(("tick 1\\n", "accept connections")):
            read = "async (one) => [one.headers.get('content-disposition'), await one.text()]"
            name, text = await tab.run(f"fetch({links}[{number}]).then({read})")
            assert name == f'attachment; filename="{("shop", "db")[number]}.log"'
            assert words.replace("\\n", "\n") in text
        await tab.run("document.querySelectorAll('.pane a[aria-label^=\"Close\"]')[0].click()")
        await tab.wait("document.querySelectorAll('.pane').length === 1")


async def test_the_log_of_a_program_that_has_ended_says_so(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, client, _, browser):
        await client.create(
            Executable.new("once", ExecutableSpec(executable_path="/bin/sh", args=("-c", "echo last words")))
        )
        tab = await browser.open(url + logs_of(("Executable", "once")))
        await tab.wait(f"{LOG}?.textContent.includes('last words')")
        await tab.wait("document.querySelector('.pane [role=status]').textContent === 'ended'")
