"""What a screen reader gets of every page, by Chromium's accessibility tree; and what the Tab key reaches."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from levelset.client import Client
from levelset.dashboard import RecordedRuns, open_dashboard
from tests.dashboard.browser import Tab, open_browser, require_browser
from tests.dashboard.fixtures import tree, write_crafted
from tests.dashboard.test_browser_pages import MAPS, config_map, served

pytestmark = pytest.mark.browser

INTERACTIVE = {
    "button",
    "checkbox",
    "combobox",
    "link",
    "listbox",
    "menuitem",
    "option",
    "radio",
    "searchbox",
    "slider",
}
INTERACTIVE |= {"spinbutton", "switch", "tab", "textbox", "DisclosureTriangle", "ComboBoxSelect", "TextField"}
LOUD = """[...document.querySelectorAll('[role=alert], [aria-live=assertive]')].filter((one) =>
    one.ariaLive === 'assertive' || !one.textContent).length"""
TABBABLE = """
    [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')].filter((one) =>
        one.tabIndex >= 0 && !one.disabled && one.checkVisibility() && !one.closest('dialog:not([open])'))"""
NAME = "`${one.tagName} ${one.id} ${one.getAttribute('href') || ''} ${(one.ariaLabel || one.textContent).slice(0, 40)}`"


class Node:
    """A node of the accessibility tree."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.id = given["nodeId"]
        self.is_ignored = given.get("ignored", False)
        self.role = str(given.get("role", {}).get("value", ""))
        self.name = str(given.get("name", {}).get("value", "")).strip()
        self.children: list[str] = given.get("childIds", [])
        properties = {one["name"]: one["value"].get("value") for one in given.get("properties", ())}
        self.level = properties.get("level")
        self.is_focusable = bool(properties.get("focusable"))


async def nodes(tab: Tab) -> list[Node]:
    """All nodes that a screen reader sees, in the order of the page."""
    found = await tab.call("Accessibility.getFullAXTree")
    by_id = {one.id: one for one in map(Node, found["nodes"])}
    (root, *_) = by_id.values()

    def walk(node: Node) -> Iterator[Node]:
        if not node.is_ignored:
            yield node
        for child in node.children:
            if child in by_id:
                yield from walk(by_id[child])

    return list(walk(root))


async def complaints(tab: Tab) -> list[str]:
    """What is wrong with the page for a screen reader."""
    all_ = await nodes(tab)
    needed = [one for one in all_ if one.is_focusable or one.role in {*INTERACTIVE, "heading", "table", "image", "img"}]
    found = [f"a {one.role} has no name" for one in needed if not one.name and one.role != "RootWebArea"]
    levels = [int(one.level) for one in all_ if one.role == "heading" and one.level]
    if levels.count(1) != 1 or levels[0] != 1:
        found.append(f"the first heading, and no other, must be of level 1: {levels}")
    if any(after > before + 1 for before, after in pairwise(levels)):
        found.append(f"a level of headings is left out: {levels}")
    count = Counter(one.role for one in all_)
    if min(count["columnheader"], count["rowheader"]) < count["table"]:
        found.append(f"tables without headers of columns or rows: {count}")
    if count["main"] != 1:
        found.append(f"there must be one main landmark: {count}")
    if await tab.run(LOUD):
        found.append("a live region is assertive, or an alert is empty")
    return found


async def press_tab(tab: Tab) -> None:
    for kind in ("rawKeyDown", "keyUp"):
        await tab.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)


async def tabbed(tab: Tab) -> list[str]:
    """The elements that the Tab key reaches from the first one on, in this order, until it leaves the page."""
    reached = [str(await tab.run(f"((one) => {{ one.focus(); return {NAME}; }})(document.querySelector('.skip'))"))]
    for _ in range(300):
        await press_tab(tab)
        at = await tab.run(f"((one) => one === document.body ? '' : {NAME})(document.activeElement)")
        if at in {"", reached[0]}:  # a browser without a window may begin at once with the first one again
            return reached
        reached.append(at)
    raise AssertionError(f"the Tab key does not leave the page: {reached[-20:]}")


async def fill(client: Client, *, broken: str = "broken") -> None:
    await client.create(config_map(broken))
    owner = await client.create(config_map("parent", n="1"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": owner.tree["metadata"]["uid"]}
    await client.create(tree("v1", "Secret", "leaf", metadata={"ownerReferences": [reference]}))
    await client.create(
        tree("v1", "Service", "shop", spec={"ports": [{"port": 80, "name": "web"}], "selector": {"app": "x"}})
    )
    about = {"apiVersion": "v1", "kind": "ConfigMap", "name": "broken", "namespace": "default"}
    await client.create(tree("v1", "Event", "e.1", involvedObject=about, reason="Broken", message="no", type="Warning"))


PAGES = {
    "#/": "Problems",
    "#/events": "Broken",
    "#/metrics": "Requests",
    "#/reconciles": "failed",
    "#/controller/maps": "Reconciles",
    "#/endpoints": "shop",
    "#/logs": "No object of this server has a log",
    f"#/logs?of={quote('v1/Pod', safe='')},default,web,app": "Lines of",
    f"#/kind/{MAPS}": "1 to",
    f"#/object/{MAPS}/default/parent": "Owners and children",
    f"#/object/{MAPS}/default/broken": "because",
    f"#/object/{MAPS}/default/nothing": "may have been deleted",
    "#/search?q=broken": "Labels",
}


SIGNS = {**PAGES, "#/reconciles": "done"}


async def test_every_page_is_understood_by_a_screen_reader(tmp_path: Path) -> None:
    async with served(tmp_path, actions=True) as (url, client, browser):
        await fill(client)
        tab = await browser.open(url)
        wrong: dict[str, list[str]] = {}
        for place, sign in PAGES.items():
            await tab.go(place)
            await tab.wait(f"document.documentElement.outerHTML.includes({sign!r})", 20)
            await tab.run("document.querySelectorAll('main details').forEach((one) => { one.open = true; })")
            if found := await complaints(tab):
                wrong[place] = found
        assert wrong == {}


async def test_files_of_past_runs_are_understood_by_a_screen_reader(tmp_path: Path) -> None:
    require_browser()
    recording = await asyncio.to_thread(write_crafted, tmp_path / "run.levelset", "text")
    runs = await asyncio.to_thread(RecordedRuns, [recording])
    async with open_dashboard(runs=runs) as (_, url), open_browser(tmp_path / "browser") as browser:
        tab = await browser.open(f"{url}#/runs")
        await tab.text("recording")
        assert await complaints(tab) == []
        await tab.go("#/runs/0?step=2")
        await tab.text("step 3 of 5")
        assert await complaints(tab) == []


async def test_the_tab_key_reaches_everything_in_the_order_of_the_page_and_is_never_trapped(tmp_path: Path) -> None:
    async with served(tmp_path, actions=True) as (url, client, browser):
        await fill(client, broken="quiet")  # what fails is retried, and the page grows
        tab = await browser.open(url)
        await tab.wait("document.querySelectorAll('nav .count').length > 2")  # the kinds are there
        for place in ("#/events", f"#/kind/{MAPS}", f"#/object/{MAPS}/default/parent", "#/reconciles", "#/logs"):
            await tab.go(place)
            await tab.wait(
                "document.activeElement.id === 'main'"
            )  # the focus is moved there after a change of the page
            await tab.wait(f"document.documentElement.outerHTML.includes({SIGNS[place]!r})", 20)
            expected = await tab.run(f"{TABBABLE}.map((one) => {NAME})")
            assert await tabbed(tab) == expected, place
            assert expected[0].endswith("Skip to content")


async def test_a_dialog_holds_the_focus_until_it_is_closed_and_gives_it_back(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, _, browser):
        tab = await browser.open(url)
        await tab.text("All healthy")
        await tab.run("[...document.querySelectorAll('nav button')].find((one) => one.textContent === 'Keys').focus()")
        await tab.press("Enter")
        await tab.wait(
            "document.querySelector('dialog').open && document.querySelector('dialog').contains(document.activeElement)"
        )
        assert [one.name for one in await nodes(tab) if one.role == "dialog"] == ["Keys"]
        await tab.run("document.querySelector('dialog button').click()")
        await tab.wait("document.activeElement.textContent === 'Keys'")


async def test_what_changes_is_announced_politely(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, client, browser):
        tab = await browser.open(url)
        await tab.text("All healthy")
        # A live region is announced only if it was there before its text has changed.
        await tab.run("window.spoken = []; window.regions = [...document.querySelectorAll('[role=status]')]")
        note = "new MutationObserver(() => window.spoken.push(one.textContent))"
        what = "{characterData: true, childList: true, subtree: true}"
        await tab.run(f"for (const one of window.regions) {note}.observe(one, {what})")
        await client.create(config_map("broken"))
        await tab.wait("window.spoken.some((one) => one.includes('1 problem'))")
        await tab.go(f"#/kind/{MAPS}")
        await tab.wait("document.activeElement.id === 'main'")  # the new page is read from its beginning
        assert (await tab.run("document.querySelector('main').ariaLabel")) == "ConfigMap"
