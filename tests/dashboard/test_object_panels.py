"""Panels that systems declare for their kinds: shown on the object's page, and a conversation by an action."""

from typing import Any

from levelset import Context
from levelset.client import Client
from levelset.dashboard import Dashboard, DashboardSource
from levelset.errors import LevelsetError
from levelset.http import read_all
from levelset.objects.ref import Ref
from levelset.runtime.controller import Controller
from levelset.runtime.manager import ObjectPanel, Panel, PanelSection, System, open_local
from levelset.runtime.manager.system import join
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import Website, website
from tests.dashboard.fixtures import TOKEN, get
from tests.dashboard.test_actions import act, done

SITE = {"kind": "example.dev/v1/Website", "name": "blog", "namespace": "default"}
QUERY = "api/object?kind=example.dev/v1/Website&name=blog&namespace=default"


async def describe(client: Client, ref: Ref[Any]) -> Panel:
    found = await client.get(Website, ref.name, namespace=ref.namespace)
    if found.metadata.labels.get("broken"):
        raise LevelsetError("the site is broken")
    return Panel((PanelSection("Site", (("Name", found.name),), text="<b>text</b>"),), chat="Talk to it")


async def answer(_: Client, ref: Ref[Any], message: str, session: str) -> str:
    return f"{ref.name} in {session}: {message.upper()}"


def sites(panel: ObjectPanel) -> System:
    async def reconcile(_: Website, _ctx: Context) -> None:
        return None

    return System(name="sites", controllers=[Controller(Website, reconcile)], panels={Website: panel})


@virtual
async def test_the_page_of_an_object_has_the_panel_that_its_system_declares() -> None:
    pages = list[Dashboard]()
    page = System(name="page", setup=lambda manager: pages.append(Dashboard(DashboardSource.of(manager), token=TOKEN)))
    async with open_local(sites(ObjectPanel(describe, answer)), page) as local:
        site = await local.client.create(website("blog"))
        section = {"title": "Site", "rows": [["Name", "blog"]], "text": "<b>text</b>"}
        assert (await get(pages[0], QUERY))["panel"] == {"sections": [section], "chat": "Talk to it", "error": ""}
        site.metadata.labels["broken"] = "yes"
        await local.client.update(site)
        assert (await get(pages[0], QUERY))["panel"] == {"sections": [], "chat": "", "error": "the site is broken"}
        assert (await get(pages[0], "api/object?kind=v1/Namespace&name=default"))["panel"] is None
        await pages[0].close()


@virtual
async def test_a_message_is_an_action_and_gets_the_answer() -> None:
    pages = list[Dashboard]()

    def show(manager: Any) -> None:
        pages.append(Dashboard(DashboardSource.of(manager), token=TOKEN, actions=True))

    async with open_local(sites(ObjectPanel(describe, answer)), System(name="page", setup=show)) as local:
        await local.client.create(website("blog"))
        page = pages[0]
        assert await done(page, "message", {**SITE, "text": "hi", "session": "s"}) == {"message": "blog in s: HI"}
        assert page.actions.done[-1][1:] == ("message", "example.dev/v1/Website/default/blog", "done")
        for wrong in (
            {**SITE, "text": ""},
            {**SITE, "text": "x" * 10_001},
            {"kind": "v1/Pod", "name": "a", "text": "x"},
        ):
            assert (await act(page, "message", wrong)).status == 400
        await page.close()


@virtual
async def test_without_actions_no_message_is_sent() -> None:
    page = Dashboard(token=TOKEN)
    response = await act(page, "message", {**SITE, "text": "hi"})
    assert response.status == 405, await read_all(response)


@virtual
async def test_a_kind_whose_panel_has_no_answer_has_no_conversation() -> None:
    pages = list[Dashboard]()

    def show(manager: Any) -> None:
        pages.append(Dashboard(DashboardSource.of(manager), token=TOKEN, actions=True))

    async with open_local(sites(ObjectPanel(describe)), System(name="page", setup=show)) as local:
        await local.client.create(website("blog"))
        assert (await get(pages[0], QUERY))["panel"]["chat"] == ""
        assert (await act(pages[0], "message", {**SITE, "text": "hi"})).status == 400
        await pages[0].close()


def test_the_panels_of_all_systems_are_joined() -> None:
    panel = ObjectPanel(describe)
    assert join(System(name="a"), System(name="b", panels={Website: panel})).panels == {Website: panel}
