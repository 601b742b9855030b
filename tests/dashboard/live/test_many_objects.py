"""A kind with 100,000 objects in a real browser: every page costs what it costs with 1,000, in time and in memory."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from levelset.client import Client, MergePatch
from levelset.objects.ref import GroupVersionKind, Ref
from tests.dashboard.browser import Tab
from tests.dashboard.test_browser_pages import MAPS, config_map, served

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1500)]

FEW, MANY = 1_000, 100_000
FIRST = "document.querySelector('tbody a')?.textContent"
# Scrolls through the page for two seconds of frames; the durations of these frames in milliseconds, sorted.
SCROLL = """
new Promise((done) => {
  const frames = [];
  let last = performance.now();
  function frame(now) {
    frames.push(now - last);
    last = now;
    const end = document.documentElement.scrollHeight - innerHeight;
    window.scrollTo(0, window.scrollY >= end - 1 ? 0 : window.scrollY + 60);
    if (frames.length < 120) requestAnimationFrame(frame);
    else done(JSON.stringify(frames.sort((one, other) => one - other)));
  }
  requestAnimationFrame(frame);
})
"""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one size of a kind costs: seconds, the 95th percentile of frames in seconds, bytes, elements of the page."""

    first_rows: float
    next_page: float
    live_update: float
    frame: float
    frame_with_writes: float
    heap: int
    response: int
    elements: int


def name_of(number: int) -> str:
    return f"m-{number:06}"


def ref_of(number: int) -> Ref[Any]:
    return Ref(GroupVersionKind("", "v1", "ConfigMap"), name_of(number), "default")


async def create_all(client: Client, numbers: range) -> None:
    for start in range(numbers.start, numbers.stop, 500):
        some = range(start, min(start + 500, numbers.stop))
        await asyncio.gather(*(client.create(config_map(name_of(number), one="1")) for number in some))


async def timed(what: Any) -> float:
    clock = asyncio.get_running_loop().time
    began = clock()
    await what
    return clock() - began


async def measure(tab: Tab, client: Client, count: int) -> Measured:
    """Opens the table of ConfigMaps, of which there are so many, turns pages, scrolls and changes objects."""
    await tab.go("#/events")
    await tab.wait("document.querySelector('h1')?.textContent.startsWith('Events')")

    async def open_table() -> None:
        await tab.go(f"#/kind/{MAPS}")
        await tab.text(f"1 to 200 of {count}")

    async def turn_page(number: int) -> None:
        await tab.click_text("button", "Next page")
        await tab.text(f"{200 * number + 1} to {200 * number + 200} of {count}")

    first_rows = await timed(open_table())
    next_page = median([await timed(turn_page(number)) for number in range(1, 5)])
    for _ in range(4):
        await tab.click_text("button", "Previous page")
    await tab.wait(f"{FIRST} === '{name_of(0)}'")
    frame = await scroll(tab)
    live_update = median([await timed(change(tab, client, number)) for number in range(3)])
    async with asyncio.TaskGroup() as group:
        writes = group.create_task(write_on(client, count))
        frame_with_writes = await scroll(tab)
        writes.cancel()
    await tab.call("HeapProfiler.collectGarbage")
    return Measured(
        first_rows=first_rows,
        next_page=next_page,
        live_update=live_update,
        frame=frame,
        frame_with_writes=frame_with_writes,
        heap=(await tab.call("Runtime.getHeapUsage"))["usedSize"],
        response=await tab.run(f"fetch('api/table?kind={MAPS}').then((one) => one.text()).then((one) => one.length)"),
        elements=await tab.run("document.querySelectorAll('*').length"),
    )


async def scroll(tab: Tab) -> float:
    frames = json.loads(await tab.run(SCROLL))
    return float(frames[int(0.95 * len(frames))]) / 1000


async def change(tab: Tab, client: Client, number: int) -> None:
    """Changes an object on the shown page, and returns when the page shows it."""
    keys = await client.get(ref_of(number))
    wanted = len(keys.tree["data"]) + 1
    await client.patch(ref_of(number), MergePatch({"data": {f"key{wanted}": ""}}))
    cells = f"[...document.querySelectorAll('tbody tr')].find((one) => one.innerText.startsWith('{name_of(number)}'))"
    await tab.wait(f"{cells}?.cells[2].innerText === '{wanted}'")


async def write_on(client: Client, count: int) -> None:
    """Some hundred writes in a second, all over the kind."""
    number = 0
    while True:
        number = (number + 7919) % count
        await client.patch(ref_of(number), MergePatch({"data": {"one": str(number)}}))
        await asyncio.sleep(0.005)


async def test_a_hundred_thousand_objects_cost_the_page_no_more_than_a_thousand(tmp_path: Path) -> None:
    async with served(tmp_path) as (url, client, browser):
        known = len(await client.list(GroupVersionKind("", "v1", "ConfigMap")))
        await create_all(client, range(FEW - known))
        tab = await browser.open(url)
        few = await measure(tab, client, FEW)
        await create_all(client, range(FEW - known, MANY - known))
        many = await measure(tab, client, MANY)
        print(f"{few}\n{many}")
        # The server pages, and only what is on the page is sent and drawn.
        assert many.elements <= few.elements + 20
        assert many.response < 1.2 * few.response
        assert many.heap < 1.5 * few.heap + 2_000_000
        # A machine that is busy is so for both; what remains is what a person would not notice.
        for name, noticed in (("first_rows", 1.0), ("next_page", 0.5), ("live_update", 0.5)):
            assert getattr(many, name) < 3 * getattr(few, name) + noticed, (name, few, many)
        for name in ("frame", "frame_with_writes"):
            assert getattr(many, name) < 2 * getattr(few, name) + 0.1, (name, few, many)

        last = MANY - known - 1
        await tab.run("document.getElementById('filter').focus()")
        for key in name_of(last):
            await tab.press(key)
        await tab.text("1 to 1 of 1")
        assert await tab.run(FIRST) == name_of(last)
        assert await tab.run("document.activeElement.id") == "filter"
        await client.create(config_map(f"{name_of(last)}-new"))
        await tab.go(f"#/kind/{MAPS}?sort=Name&desc=1")
        await tab.text(f"1 to 200 of {MANY}")
        await tab.wait(f"['{name_of(last)}-new', '{name_of(last)}'].includes({FIRST})")
        await tab.go("#/")
        await tab.text("objects and every controller were checked")
        await tab.go("#/search?q=app%3Dm-000777")
        await tab.wait(f"{FIRST} === '{name_of(777)}'")
