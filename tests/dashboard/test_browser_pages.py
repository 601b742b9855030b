"""The pages of the dashboard in a real browser: what they show, that they are live, usable by keyboard, and quiet."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from levelset import Context, Controller, ObjectMeta, requeue
from levelset.client import Client, MergePatch
from levelset.dashboard import DashboardSource, dashboard, open_dashboard
from levelset.dashboard.recorded_runs import RecordedRuns
from levelset.http import Server
from levelset.kinds.core_v1 import ConfigMap
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.runtime.manager import Manager, ObjectPanel, Panel, PanelSection
from levelset.runtime.manager.process_records import FOLDER_VARIABLE
from levelset.runtime.manager.system import open_parts
from tests.dashboard.browser import Browser, Tab, open_browser, require_browser
from tests.dashboard.fixtures import open_client, tree, write_crafted

pytestmark = pytest.mark.browser

OTHERS = ("#/metrics", "#/reconciles", "#/endpoints", "#/logs")
MAPS = quote("v1/ConfigMap", safe="")


async def reconcile(one: ConfigMap, ctx: Context) -> Any:
    """Fails for `broken`, polls for `poll`, and writes a child of `parent`."""
    match one.name:
        case "broken":
            raise RuntimeError("the database refused the connection")
        case "poll":
            return requeue(0.2)
        case "parent":
            await ctx.apply(ConfigMap(metadata=ObjectMeta(name="child"), data=one.data))
        case _:
            pass
    return None


@asynccontextmanager
async def served(
    folder: Path, *, actions: bool = False, panels: Mapping[type[Any], ObjectPanel] | None = None
) -> AsyncGenerator[tuple[str, Client, Browser], None]:
    """A manager with a controller of ConfigMaps, its dashboard, and a browser that must not complain."""
    require_browser()
    parts_ = open_parts(dashboard(actions=actions))
    async with open_client() as client, parts_ as parts, Manager(client) as manager:
        assert parts.setup is not None
        manager.panels = panels or {}
        parts.setup(manager)
        manager.add(Controller(ConfigMap, reconcile, name="maps", namespace="default"))
        await manager.wait_elected()
        async with open_browser(folder) as browser:
            yield parts.urls["dashboard"], client, browser
            # A browser notes each 404: an object that was deleted while it is shown is one.
            assert [one for one in browser.complaints if "status of 404" not in one] == []


def config_map(name: str, **data: str) -> Any:
    return tree("v1", "ConfigMap", name, data=data, metadata={"labels": {"app": name[:40].strip("-")}})


async def is_wider_than_the_window(tab: Tab) -> bool:
    return bool(await tab.run("document.documentElement.scrollWidth > window.innerWidth"))


async def test_problems_come_first_and_disappear_when_they_are_solved(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, client, browser):
        tab = await browser.open(url)
        await tab.text("All healthy")
        await tab.wait("document.title === 'Overview \u00b7 levelset' && !document.querySelector('details.fold').open")
        assert "synced" in await tab.run("document.querySelector('details.fold summary').textContent")
        await client.create(config_map("broken"))
        text = await tab.text("the database refused the connection")
        assert text.index("Problems") < text.index("Controllers")
        assert "retried in" in text
        await tab.wait("document.title === '(1) Overview \u00b7 levelset'", 30)
        assert await tab.run("document.querySelector('nav li a').textContent") == "Overview 1 problem"
        await tab.click(".problems a")
        await tab.wait("location.hash.endsWith('/default/broken')")
        await tab.text("because it has changed")
        broken: Ref[Any] = Ref(GroupVersionKind("", "v1", "ConfigMap"), "broken", "default")
        await client.delete(broken)
        await tab.go("#/")
        await tab.text("All healthy")
        await tab.wait("document.title === 'Overview \u00b7 levelset'", 3)


async def test_a_warning_that_repeats_says_how_often_it_came_and_when_last(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, client, browser):
        about = {"apiVersion": "v1", "kind": "ConfigMap", "name": "one", "namespace": "default"}
        at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        meta = {"type": "Warning", "reason": "Unhealthy", "message": "no answer", "count": 57, "lastTimestamp": at}
        await client.create(tree("v1", "Event", "one.1", **meta, involvedObject=about))
        tab = await browser.open(url)
        text = " ".join((await tab.text("Unhealthy")).split())
        assert re.search(r"ConfigMap default/one Unhealthy 57 times, the last \d+s ago no answer", text)


async def test_a_controller_has_a_page_with_its_problems_its_charts_and_its_reconciles(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, client, browser):
        await client.create(config_map("broken"))
        await client.create(config_map("poll"))
        tab = await browser.open(url)
        await tab.click_text("main td a, main th a", "maps")
        await tab.wait("location.hash === '#/controller/maps'")
        text = await tab.text("the last of")
        assert text.index("maps failed") < text.index("of the last hour") < text.index("the last of")
        await tab.wait("document.querySelectorAll('.chart').length === 3", 20)
        await tab.go("#/")
        await tab.wait("document.querySelector('.sparkline') !== null", 20)
        # A poll and a failure each take one line of all, however often they repeat.
        await tab.go("#/reconciles")
        await tab.wait("[...document.querySelectorAll('.waterfall li')].length <= 4")
        await tab.text("polls since")
        await tab.run("[...document.querySelectorAll('main input[type=checkbox]')].at(-1).click()")
        await tab.wait("[...document.querySelectorAll('.waterfall li')].length > 4")
        await tab.go("#/controller/other")
        await tab.text("No controller of this name is known here.")


async def test_an_object_begins_with_its_failure_its_status_and_its_text(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, client, browser):
        await client.create(config_map("broken"))
        status = {"phase": "Odd", "conditions": [{"type": "Ready", "status": "False", "reason": "NoImage"}]}
        await client.create(tree("v1", "Pod", "web", spec={"containers": [{"name": "web", "image": "web"}]}))
        web: Ref[Any] = Ref(GroupVersionKind("", "v1", "Pod"), "web", "default")
        await client.patch(web, MergePatch({"status": status}), subresource="status")
        tab = await browser.open(f"{url}#/object/{MAPS}/default/broken")
        text = await tab.text("the database refused the connection")
        assert text.index("maps failed") < text.index("YAML") < text.index("No events") < text.index("because")
        await tab.go(f"#/object/{quote('v1/Pod', safe='')}/default/web")
        text = await tab.text("NoImage")
        assert text.index("phase") < text.index("Conditions") < text.index("YAML") < text.index("No events")


async def test_a_table_is_live_filtered_and_sorted(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, client, browser):
        for name in ("b", "a", "c"):
            await client.create(config_map(name, **dict.fromkeys("xyz"[: ord(name) - 96], "")))
        tab = await browser.open(f"{url}#/kind/{MAPS}")
        await tab.text("1 to 3 of 3")
        await client.create(config_map("new"))
        await tab.text("1 to 4 of 4")
        names = "[...document.querySelectorAll('tbody a')].map((one) => one.textContent).join(' ')"
        await tab.click_text("button.sort", "Data")
        await tab.wait(f"{names} === 'new a b c'")
        await tab.click_text("button.sort", "Data")
        await tab.wait(f"{names} === 'c b a new'")
        await tab.run("document.getElementById('filter').focus()")
        for key in "new":
            await tab.press(key)
        await tab.wait(f"{names} === 'new'")
        assert await tab.run("document.activeElement.id") == "filter"  # live updates leave the focus alone
        await tab.go(f"#/kind/{MAPS}?labels={quote('app in (a,b)')}")
        await tab.wait(f"{names} === 'a b'")
        await tab.go("#/search?q=app%3Dc")
        await tab.wait(f"{names} === 'c ConfigMap app=c'")


async def test_an_object_has_its_graph_its_writes_its_versions_and_its_text(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, client, browser):
        await asyncio.sleep(6)  # the informers are followed
        await client.create(config_map("parent", n="1"))
        parent: Ref[Any] = Ref(GroupVersionKind("", "v1", "ConfigMap"), "parent", "default")
        await asyncio.sleep(0.5)
        await client.patch(parent, MergePatch({"data": {"n": "2"}}))
        tab = await browser.open(f"{url}#/object/{MAPS}/default/parent")
        assert "wrote ConfigMap default/child: 1 field" in await tab.text("1 field")
        await tab.click_text("button", "Compare")
        await tab.wait("document.querySelector('.diff .remove')?.textContent.includes(\"'n': '1'\")")
        assert not await tab.run("document.querySelector('details.source').open")
        assert "managedFields" not in str(await tab.run("document.querySelector('details.source pre').textContent"))
        await tab.click("details.source input")
        await tab.wait("document.querySelector('details.source pre').textContent.includes('managedFields')")


async def test_owners_and_children_are_a_graph_that_can_be_clicked(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, client, browser):
        owner = await client.create(config_map("root"))
        uid = owner.tree["metadata"]["uid"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "root", "uid": uid}
        await client.create(tree("v1", "Secret", "leaf", metadata={"ownerReferences": [reference]}))
        tab = await browser.open(f"{url}#/object/{MAPS}/default/root")
        await tab.wait("document.querySelectorAll('.graph .node').length === 2")
        await tab.run("document.querySelector('.graph a').dispatchEvent(new MouseEvent('click', {bubbles: true}))")
        await tab.wait("document.querySelector('h1')?.textContent.startsWith('leaf')")
        await tab.wait("document.querySelectorAll('.graph .node').length === 2")


async def test_polls_are_collapsed(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, client, browser):
        await client.create(config_map("poll"))
        tab = await browser.open(f"{url}#/object/{MAPS}/default/poll")
        await tab.text("polls since")
        assert await tab.run("document.querySelectorAll('.timeline li').length") <= 2


async def test_ten_thousand_objects_stay_fluid(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, client, browser):
        for start in range(0, 10_000, 500):
            await asyncio.gather(
                *(client.create(tree("v1", "Secret", f"s-{start + number:05}")) for number in range(500))
            )
        tab = await browser.open(f"{url}#/kind/{quote('v1/Secret', safe='')}")
        await tab.text("1 to 200 of 10000")
        assert await tab.run("document.querySelectorAll('tbody tr').length") == 200
        began = asyncio.get_running_loop().time()
        await tab.click_text("button", "Next page")
        await tab.text("201 to 400 of 10000")
        assert asyncio.get_running_loop().time() - began < 3
        await tab.run("location.hash += '?q=s-09999'")
        await tab.text("1 to 1 of 1")


async def test_the_keyboard_reaches_everything(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, client, browser):
        await client.create(config_map("one"))
        tab = await browser.open(f"{url}#/kind/{MAPS}")
        await tab.text("1 to 1 of 1")
        await tab.press("j")
        await tab.wait("document.activeElement.textContent === 'one'")
        await tab.press("Enter")
        await tab.wait("document.querySelector('h1')?.textContent.startsWith('one')")
        await tab.press("u")
        await tab.text("1 to 1 of 1")
        await tab.press("/")
        await tab.wait("document.activeElement.id === 'filter'")
        await tab.press("Escape")
        await tab.press("?")
        await tab.wait("document.querySelector('dialog').open")
        fields = "[...document.querySelectorAll('input, select, button')]"
        unnamed = f"{fields}.filter((one) => !one.ariaLabel && !one.textContent && !one.labels?.length)"
        assert await tab.run(f"{unnamed}.length") == 0


async def test_metrics_reconciles_and_endpoints_are_shown(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, client, browser):
        await client.create(config_map("parent", n="1"))
        ports = [{"port": 80, "name": "web"}]
        await client.create(tree("v1", "Service", "shop", spec={"ports": ports, "selector": {"app": "shop"}}))
        tab = await browser.open(f"{url}#/endpoints")
        await tab.text("inside the cluster")
        await tab.go("#/reconciles")
        await tab.text("ConfigMap default/parent")
        await tab.click("main details summary")
        await tab.text("in the queue")
        await tab.go("#/metrics")
        await tab.wait("document.querySelectorAll('.chart .series').length >= 7", 20)
        assert "NaN" not in str(await tab.run("document.querySelector('main').innerHTML"))


async def test_a_chart_shows_single_values_as_points_and_names_the_last_one(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, client, browser):
        tab = await browser.open(f"{url}#/metrics")
        await tab.text("The first values come after ten seconds")
        await client.create(config_map("parent", n="1"))
        charts = (
            "[...document.querySelectorAll('figure.chart')].filter((one) => one.textContent.startsWith('Duration'))"
        )
        await tab.wait(f"{charts}.length === 1", 20)
        await tab.wait(f"{charts}[0].querySelector('.points').getAttribute('d').endsWith('h0')", 20)
        before = await tab.run(f"{charts}[0].querySelector('.scale').textContent")
        await tab.wait(f"{charts}[0].querySelector('.scale').textContent !== {json.dumps(before)}", 20)
        text = await tab.run(f"{charts}[0].querySelector('figcaption').textContent")
        assert "median" in text
        assert "none" not in text


async def test_actions_change_objects_after_they_were_confirmed(tmp_path: Path) -> None:
    async with served(tmp_path, actions=True) as (url, client, browser):
        await client.create(config_map("one", a="old"))
        tab = await browser.open(f"{url}#/object/{MAPS}/default/one")
        await tab.click_text("button", "Edit")
        await tab.wait("document.querySelector('textarea')?.value.includes('a: old')")
        await tab.run(
            "document.querySelector('textarea').value = document.querySelector('textarea').value.replace('old', 'new')"
        )
        await tab.click_text("button", "Try it")
        await tab.wait("document.querySelector('.diff .add')?.textContent.includes('a: new')")
        one: Ref[Any] = Ref(GroupVersionKind("", "v1", "ConfigMap"), "one", "default")
        assert (await client.get(one)).tree["data"] == {"a": "old"}
        await tab.click_text("button", "Write it")
        await tab.wait("document.querySelector('textarea') === null")
        assert (await client.get(one)).tree["data"] == {"a": "new"}
        await tab.click_text("button", "Reconcile now")
        await tab.text("requested by the dashboard")
        await tab.go("#/")
        await tab.click_text("button", "Pause")
        await tab.text("paused")
        await tab.click_text("button", "Resume")
        await tab.wait("!document.querySelector('main').innerText.includes('paused')")
        await tab.go(f"#/object/{MAPS}/default/one")
        await tab.click_text("main button", "Delete")
        await tab.wait("document.querySelector('main dialog').open")
        await tab.click_text("main dialog button", "Keep it")
        assert await client.find(one) is not None
        await tab.click_text("main button", "Delete")
        await tab.click_text("main dialog button", "Delete it")
        await tab.text("It may have been deleted")
        assert await client.find(one) is None


async def test_an_open_page_reconnects_after_a_restart_on_the_same_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_browser()
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "private"))
    async with Server(lambda _: pytest.fail("no request is expected")) as free:
        port = free.port
    async with open_client() as client, open_browser(tmp_path / "browser") as browser:
        async with open_dashboard(port) as (page, url):
            page.show(DashboardSource.of_client(client))
            tab = await browser.open(f"{url}#/kind/{MAPS}")
            await tab.text("live")
        await tab.text("not connected")
        await client.create(config_map("meanwhile"))
        async with open_dashboard(port) as (page, again):
            page.show(DashboardSource.of_client(client))
            assert again == url
            await tab.wait("document.querySelector('#live').textContent === 'live'", 20)
            await tab.text("meanwhile")


@pytest.mark.parametrize("width", [390, 1280])
async def test_no_page_is_wider_than_its_window(tmp_path: Path, width: int) -> None:
    async with served(tmp_path) as (url, client, browser):
        await client.create(config_map("broken"))
        await client.create(config_map("with-a-long-name-" * 8 + "x"))
        tab = await browser.open(url, width=width, dark=width < 600)
        await tab.text("the database refused")
        for place in (
            "#/",
            "#/events",
            f"#/kind/{MAPS}",
            f"#/object/{MAPS}/default/broken",
            "#/search?q=broken",
            *OTHERS,
        ):
            await tab.go(place)
            await tab.wait("document.querySelector('h1') && !document.body.innerText.includes('Loading')")
            assert not await is_wider_than_the_window(tab), place


async def test_on_a_phone_messages_are_lines_of_their_own(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, client, browser):
        regarding = {"apiVersion": "v1", "kind": "Pod", "name": "web", "namespace": "default"}
        long = "the image cannot be pulled " * 6
        await client.create(tree("v1", "Event", "e.1", involvedObject=regarding, reason="Failed", message=long))
        tab = await browser.open(f"{url}#/events", width=390, height=844)
        await tab.text("cannot be pulled")
        message = "[...document.querySelectorAll('td')].find((one) => one.textContent.includes('pulled'))"
        assert await tab.run(f"{message}.getBoundingClientRect().right <= window.innerWidth")
        assert await tab.run(f"{message}.getBoundingClientRect().width > 300")


async def test_on_a_phone_the_navigation_is_a_line_with_a_menu(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, client, browser):
        await client.create(config_map("broken"))
        tab = await browser.open(url, width=390, height=844)
        await tab.text("the database refused")
        height = "document.querySelector('nav').getBoundingClientRect().height"
        assert await tab.run(height) < 70
        assert await tab.run("document.querySelector('#menu').getBoundingClientRect().height") == 0
        await tab.click("#menu-button")
        await tab.wait("document.querySelector('#menu-button').ariaExpanded === 'true'")
        assert await tab.run(height) > 400
        await tab.run("document.querySelector('nav a[href=\"#/events\"]').click()")
        await tab.wait(f"document.querySelector('#menu-button').ariaExpanded === 'false' && {height} < 70")
        assert await tab.run("location.hash") == "#/events"


async def test_a_recording_is_stepped_through_and_nothing_in_it_or_in_a_report_is_run(tmp_path: Path) -> None:
    require_browser()
    evil = "<img src=x onerror=\"document.title='hacked'\">"
    recording = await asyncio.to_thread(write_crafted, tmp_path / "evil.levelset", evil)
    report = tmp_path / "report.html"
    await asyncio.to_thread(report.write_text, f"<!doctype html><p>the report</p>{evil}")
    runs = await asyncio.to_thread(RecordedRuns, [recording, report])
    async with open_dashboard(runs=runs) as (_, url), open_browser(tmp_path / "browser") as browser:
        tab = await browser.open(f"{url}#/runs")
        await tab.text("recording")
        width = "document.querySelector('main').getBoundingClientRect().width"
        assert await tab.run(f"{width} > 0.9 * window.innerWidth")  # without a server there is no navigation beside it
        await tab.run("location.hash = '#/runs/0?step=0'")
        await tab.text("step 1 of 5")
        await tab.click_text("button", "Next failure")
        await tab.text("step 2 of 5")
        for number in (3, 4, 5):
            await tab.click_text("button", "Forward")
            assert evil in await tab.text(f"step {number} of 5")
        await tab.click_text("button", "Back")
        await tab.text("step 4 of 5")
        await tab.wait("document.querySelector('[aria-current=step]') !== null")
        assert await tab.run("getComputedStyle(document.querySelector('[aria-current=step]')).fontWeight") == "600"
        assert not await tab.run("document.title.includes('hacked') || document.querySelector('main img') !== null")
        assert not await is_wider_than_the_window(tab)
        assert browser.complaints == []
        await tab.run("location.href = 'report?number=1'")
        await tab.text("the report")
        assert "hacked" not in await tab.run("document.title")


async def test_beside_a_server_the_page_of_past_runs_is_connected(tmp_path: Path) -> None:
    require_browser()
    recording = await asyncio.to_thread(write_crafted, tmp_path / "run.levelset", "text")
    runs = await asyncio.to_thread(RecordedRuns, [recording])
    async with open_client() as client, open_dashboard(runs=runs) as (page, url):
        page.show(DashboardSource.of_client(client))
        async with open_browser(tmp_path / "browser") as browser:
            tab = await browser.open(f"{url}#/runs/0?step=1")
            await tab.text("step 2 of 5")
            await tab.wait("document.querySelector('#live').textContent === 'live'", 20)


async def describe_map(_: Client, ref: Ref[Any]) -> Panel:
    return Panel((PanelSection("Prompt", (("Version", "<i>1</i>"),), "<b>Be kind.</b>"),), chat=f"Try {ref.name}")


async def answer_map(_: Client, ref: Ref[Any], message: str, __: str) -> str:
    return f"<u>{ref.name}</u> received {message}"


@pytest.mark.parametrize("actions", [True, False])
async def test_a_panel_of_a_system_is_shown_as_text_with_a_conversation(actions: bool, tmp_path: Path) -> None:
    panels = {ConfigMap: ObjectPanel(describe_map, answer_map)}
    async with served(tmp_path, actions=actions, panels=panels) as (url, client, browser):
        await client.create(config_map("helper"))
        tab = await browser.open(url)
        await tab.go(f"#/object/{MAPS}/default/helper")
        text = await tab.text("<b>Be kind.</b>")
        assert "<i>1</i>" in text
        assert "Try helper" in text
        if not actions:
            assert "start the program with --dashboard-actions" in text
            return
        await tab.run("document.querySelector('input[aria-label=Message]').value = 'hello'")
        await tab.click_text("button", "Send")
        await tab.text("<u>helper</u> received hello")
