"""Actions of the page: off by default, only from the page itself, checked, and logged."""

import asyncio
import json
import logging
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from levelset.client import Client
from levelset.dashboard import Dashboard, DashboardSource, object_versions, views
from levelset.http import Headers, Request, Response, read_all
from levelset.objects import GroupVersionKind, Ref
from levelset.runtime.controller import Controller
from levelset.runtime.manager import Manager
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import Website, website
from tests.dashboard.fixtures import TOKEN, get, open_client, open_dashboard, send, tree

SITE = {"kind": "example.dev/v1/Website", "name": "blog", "namespace": "default"}
MAP = {"kind": "v1/ConfigMap", "name": "map", "namespace": "default"}
MAP_REF: Ref[Any] = Ref(GroupVersionKind("", "v1", "ConfigMap"), "map", "default")
PAGE = {
    "Host": "127.0.0.1:8080",
    "Origin": "http://127.0.0.1:8080",
    "Sec-Fetch-Site": "same-origin",
    "Content-Type": "application/json",
    "X-Levelset-Action": "1",
}


async def act(page: Dashboard, name: str, request: Any, **changed: str | None) -> Response:
    """The response to an action of the page; headers can be replaced, or left out with None."""
    cookie = f"{page.access.cookie_name}={page.access.token}"
    given = {**PAGE, "Cookie": cookie, **{name.replace("_", "-"): value for name, value in changed.items()}}
    headers = Headers({name: value for name, value in given.items() if value is not None})
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    return await page.handle(
        Request(method="POST", path=f"{page.access.root}api/actions/{name}", headers=headers, body=body)
    )


async def done(page: Dashboard, name: str, request: Any) -> Any:
    response = await act(page, name, request)
    body = await read_all(response)
    assert response.status == 200, body
    return json.loads(body)


@asynccontextmanager
async def with_actions() -> AsyncGenerator[tuple[Dashboard, Client], None]:
    async with open_client() as client:
        page = Dashboard(DashboardSource.of_client(client), token=TOKEN, actions=True)
        yield page, client
        await page.close()


@virtual
async def test_without_the_switch_there_are_no_actions() -> None:
    async with open_dashboard() as (page, client):
        await client.create(tree("v1", "ConfigMap", "map"))
        assert (await act(page, "delete", {**MAP, "uid": "x"})).status == 405
        assert (await get(page, "/api/status"))["hasActions"] is False


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"Cookie": None}, 401),
        ({"Cookie": "other=1"}, 401),
        ({"Host": "evil.example"}, 403),
        ({"Origin": None}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:9999"}, 403),
        ({"Origin": "http://localhost:8080"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"X-Levelset-Action": None}, 403),
        ({"Content-Type": "text/plain"}, 403),
    ],
)
@virtual
async def test_an_action_from_anywhere_but_the_page_is_refused(changed: dict[str, str | None], status: int) -> None:
    async with with_actions() as (page, client):
        made = await client.create(tree("v1", "ConfigMap", "map"))
        uid = made.tree["metadata"]["uid"]
        assert (await act(page, "delete", {**MAP, "uid": uid}, **changed)).status == status
        assert await client.find(MAP_REF) is not None
        assert not page.actions.done


@virtual
async def test_the_token_in_the_address_is_not_enough_for_an_action() -> None:
    async with with_actions() as (page, _):
        path, query = f"{page.access.root}api/actions/delete", f"token={TOKEN}"
        response = await page.handle(Request("POST", path, query, headers=Headers(PAGE), body=b"{}"))
        assert response.status == 401


@virtual
async def test_other_posts_and_gets_of_actions_change_nothing() -> None:
    async with with_actions() as (page, client):
        await client.create(tree("v1", "ConfigMap", "map"))
        assert (await send(page, "/api/objects", "POST")).status == 405
        assert (await send(page, "/api/actions/delete", "PUT")).status == 405
        assert (await send(page, "/api/actions/delete?kind=v1/ConfigMap&name=map")).status == 404
        assert await client.find(MAP_REF) is not None


@virtual
async def test_a_deletion_names_the_object_that_was_confirmed() -> None:
    async with with_actions() as (page, client):
        made = await client.create(tree("v1", "ConfigMap", "map"))
        assert (await act(page, "delete", MAP)).status == 400
        assert (await act(page, "delete", {**MAP, "uid": "another"})).status == 409
        await done(page, "delete", {**MAP, "uid": made.tree["metadata"]["uid"]})
        assert await client.find(MAP_REF) is None


@virtual
async def test_an_edit_is_tried_and_shown_before_it_is_written() -> None:
    async with with_actions() as (page, client):
        await client.create(tree("v1", "ConfigMap", "map", data={"a": "old"}))
        text = (await get(page, "/api/text?kind=v1/ConfigMap&name=map&namespace=default"))["text"]
        edited = {**MAP, "text": text.replace("old", "new")}
        shown = await done(page, "preview", edited)
        assert "-  a: old" in shown["lines"]
        assert "+  a: new" in shown["lines"]
        assert (await client.get(MAP_REF)).tree["data"] == {"a": "old"}
        await done(page, "apply", edited)
        now = (await client.get(MAP_REF)).tree
        assert now["data"] == {"a": "new"}
        assert "levelset-dashboard" in [one["manager"] for one in now["metadata"]["managedFields"]]
        assert (await act(page, "apply", edited)).status == 409  # the version that was edited is no longer the last


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: [",
        "kind: x",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: default, resourceVersion: '1'}",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map, namespace: default}",
    ],
)
@virtual
async def test_an_edit_of_something_else_is_refused(text: str) -> None:
    async with with_actions() as (page, client):
        await client.create(tree("v1", "ConfigMap", "map"))
        for name in ("preview", "apply"):
            assert (await act(page, name, {**MAP, "text": text})).status == 400


@virtual
async def test_the_texts_of_an_object_are_made_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large one takes a tenth of a second, and the controllers share the event loop with the page."""
    threads: list[threading.Thread] = []
    make = views.object_text

    def recorded(shown: Any) -> Any:
        threads.append(threading.current_thread())
        return make(shown)

    monkeypatch.setattr(views, "object_text", recorded)
    monkeypatch.setattr(object_versions, "object_text", recorded)
    async with with_actions() as (page, client):
        await client.create(tree("v1", "ConfigMap", "map", data={"a": "old"}))
        text = (await get(page, "/api/text?kind=v1/ConfigMap&name=map&namespace=default"))["text"]
        await get(page, "/api/object?kind=v1/ConfigMap&name=map&namespace=default")
        await done(page, "preview", {**MAP, "text": text.replace("old", "new")})
    assert len(threads) == 4
    assert threading.main_thread() not in threads


@virtual
async def test_what_is_kept_of_an_action_is_short(caplog: pytest.LogCaptureFixture) -> None:
    async with with_actions() as (page, _):
        with caplog.at_level(logging.INFO, logger="levelset.dashboard.audit"):
            refused = await act(page, "delete", {"kind": "v1/ConfigMap", "name": "n" * 500_000, "uid": "u"})
        assert refused.status == 404
        assert sum(len(text) for _, *texts in page.actions.done for text in texts) < 5_000
        assert max(len(one.getMessage()) for one in caplog.records) < 5_000


@virtual
async def test_secrets_are_not_edited() -> None:
    async with with_actions() as (page, client):
        await client.create(tree("v1", "Secret", "key", stringData={"password": "hunter2"}))
        response = await send(page, "/api/text?kind=v1/Secret&name=key&namespace=default")
        assert response.status == 400
        assert b"hunter2" not in await read_all(response)


@virtual
async def test_workloads_are_scaled_and_restarted() -> None:
    async with with_actions() as (page, client):
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        await client.create(tree("apps/v1", "Deployment", "web", spec=spec))
        web = {"kind": "apps/v1/Deployment", "name": "web", "namespace": "default"}
        await done(page, "scale", {**web, "replicas": 3})
        await done(page, "restart", web)
        ref: Ref[Any] = Ref(GroupVersionKind("apps", "v1", "Deployment"), "web", "default")
        now = (await client.get(ref)).tree["spec"]
        assert now["replicas"] == 3
        assert "kubectl.kubernetes.io/restartedAt" in now["template"]["metadata"]["annotations"]
        assert (await act(page, "scale", {**web, "replicas": -1})).status == 400
        assert (await act(page, "restart", MAP)).status == 400


@virtual
async def test_a_controller_is_paused_resumed_and_reconciles_on_request(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    async def reconcile(site: Website, _: object) -> None:
        seen.append(site.name)

    caplog.set_level(logging.INFO, logger="levelset.dashboard.audit")
    async with open_client() as client, Manager(client) as manager:
        manager.add(Controller(Website, reconcile, name="sites"))
        await manager.wait_elected()
        page = Dashboard(DashboardSource.of(manager), token=TOKEN, actions=True)
        await asyncio.sleep(0.1)
        await done(page, "pause", {"controller": "sites"})
        await client.create(website("blog"))
        await asyncio.sleep(1)
        (controller,) = (await get(page, "/api/status"))["controllers"]
        assert (seen, controller["isPaused"], controller["waiting"]) == ([], True, 1)
        await done(page, "resume", {"controller": "sites"})
        await asyncio.sleep(1)
        await done(page, "reconcile", SITE)
        await asyncio.sleep(1)
        assert (await act(page, "pause", {"controller": "others"})).status == 404
        await page.close()
    assert seen == ["blog", "blog"]
    assert [(name, about, result) for _, name, about, result in page.actions.done][:3] == [
        ("pause", "sites", "done"),
        ("resume", "sites", "done"),
        ("reconcile", "example.dev/v1/Website/default/blog", "done"),
    ]
    assert page.actions.done[-1][3].startswith("refused: ")
    assert "dashboard action pause of sites: done" in caplog.text


@pytest.mark.parametrize(("name", "body"), [("nothing", b"{}"), ("delete", b"["), ("scale", b'{"replicas": "3"}')])
@virtual
async def test_malformed_actions_are_refused(name: str, body: bytes) -> None:
    async with with_actions() as (page, _):
        assert (await act(page, name, body)).status in {400, 404}
