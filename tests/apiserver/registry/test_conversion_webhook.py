"""Conversion webhooks behind real connections: called as rarely as possible, for every read and write."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from levelset.http import Response
from levelset.storage import MemoryStorage, SqliteStorage, Storage
from tests.apiserver.support.in_process_server import InProcessServer, open_server
from tests.apiserver.support.remote_webhook import Webhook, configuration, hook, open_webhook
from tests.apiserver.support.versioned_widgets import CRDS, MERGE, NEW, OLD, convert, definition, widget

VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def converting(request: Any) -> Any:
    made = [convert(one, request["desiredAPIVersion"]) for one in request["objects"]]
    return {"result": {"status": "Success"}, "convertedObjects": made}


def calling(webhook: Webhook) -> Any:
    return {"strategy": "Webhook", "webhook": {"clientConfig": webhook.client, "conversionReviewVersions": ["v1"]}}


@asynccontextmanager
async def opened(
    storage: Storage | None = None, stored: str = "v2"
) -> AsyncGenerator[tuple[InProcessServer, Webhook], None]:
    async with open_webhook(converting) as webhook, open_server(storage) as api:
        await api.create(CRDS, definition(stored, conversion=calling(webhook)))
        yield api, webhook


@pytest.fixture(params=["memory", "sqlite"])
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Storage, None]:
    made: Storage = MemoryStorage()
    if request.param == "sqlite":
        made = await asyncio.to_thread(SqliteStorage, tmp_path / "data.db")
    yield made
    await made.close()


async def test_objects_can_be_written_and_read_in_every_version(storage: Storage) -> None:
    async with opened(storage) as (api, webhook):
        made = await api.create(OLD, widget("a", "v1", color="red"))
        assert made["spec"] == {"color": "red", "size": 1}
        assert (await api.request("GET", f"{NEW}/a"))[1]["spec"] == {"colour": "red", "size": 1}
        status, changed = await api.request("PATCH", f"{OLD}/a", {"spec": {"color": "blue"}}, kind=MERGE)
        assert (status, changed["spec"]["color"]) == (200, "blue")
        changed["spec"]["color"] = "green"
        status, changed = await api.request("PUT", f"{OLD}/a", changed)
        assert (status, changed["spec"]["color"]) == (200, "green")
        assert (await api.request("GET", f"{NEW}/a"))[1]["spec"]["colour"] == "green"
        assert (await api.request("DELETE", f"{OLD}/a"))[0] == 200
        assert (await api.request("GET", f"{NEW}/a"))[0] == 404
    review = webhook.reviews[0]
    assert (review["kind"], review["apiVersion"]) == ("ConversionReview", "apiextensions.k8s.io/v1")
    assert webhook.queries[0] == "timeout=30s"


async def test_a_webhook_can_change_only_labels_and_annotations_of_the_metadata() -> None:
    async with opened() as (api, _):
        made = await api.create(NEW, widget("a", "v2", colour="red"))
        read = (await api.request("GET", f"{OLD}/a"))[1]
    assert read["metadata"]["uid"] == made["metadata"]["uid"]
    assert read["metadata"]["labels"] == {"came": "from"}


async def test_a_list_is_converted_with_one_call_and_cached() -> None:
    async with opened() as (api, webhook):
        for name in "abc":
            await api.create(NEW, widget(name, "v2", colour=name))
        assert not webhook.requests
        for _ in range(2):
            _, listed = await api.request("GET", OLD)
            assert [one["spec"]["color"] for one in listed["items"]] == ["a", "b", "c"]
        assert [len(request["objects"]) for request in webhook.requests] == [3]
        await api.request("GET", f"{OLD}/a")
        assert len(webhook.requests) == 1


async def test_the_storage_version_needs_no_webhook() -> None:
    async with opened() as (api, webhook):
        await api.create(NEW, widget("a", "v2", colour="red"))
        await api.request("PATCH", f"{NEW}/a", {"spec": {"colour": "blue"}}, kind=MERGE)
        await api.request("GET", NEW)
        await api.request("DELETE", f"{NEW}/a")
    assert not webhook.requests


async def test_selectors_match_the_requested_version() -> None:
    async with open_webhook(converting) as webhook, open_server() as api:
        tree = definition(conversion=calling(webhook))
        tree["spec"]["versions"][0]["selectableFields"] = [{"jsonPath": ".spec.color"}]
        await api.create(CRDS, tree)
        for name, colour in (("a", "red"), ("b", "blue"), ("c", "red")):
            await api.create(NEW, widget(name, "v2", colour=colour))
        _, listed = await api.request("GET", OLD, fieldSelector="spec.color=red")
        assert [one["metadata"]["name"] for one in listed["items"]] == ["a", "c"]
        assert len(webhook.requests) == 1
        assert (await api.request("DELETE", OLD, fieldSelector="spec.color=red"))[0] == 200
        assert [one["metadata"]["name"] for one in (await api.request("GET", NEW))[1]["items"]] == ["b"]


async def test_a_watch_from_now_converts_its_events(storage: Storage) -> None:
    async with opened(storage) as (api, _):
        await api.create(NEW, widget("a", "v2", colour="red"))
        more = {"allowWatchBookmarks": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        async with aclosing(api.watch(OLD, **more)) as events:
            assert shown(await anext(events)) == ("ADDED", "example.com/v1", {"color": "red", "size": 1})
            assert (await anext(events))["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            await api.request("PATCH", f"{NEW}/a", {"spec": {"colour": "blue"}}, kind=MERGE)
            assert shown(await anext(events)) == ("MODIFIED", "example.com/v1", {"color": "blue", "size": 1})
            await api.request("DELETE", f"{NEW}/a")
            assert shown(await anext(events)) == ("DELETED", "example.com/v1", {"color": "blue", "size": 1})


def shown(event: Any) -> tuple[str, str, Any]:
    return event["type"], event["object"]["apiVersion"], event["object"]["spec"]


async def test_a_watch_from_a_resource_version_converts_until_its_client_leaves() -> None:
    async with opened() as (api, _):
        made = await api.create(NEW, widget("a", "v2", colour="red"))
        await api.create(NEW, widget("b", "v2", colour="blue"))
        version = made["metadata"]["resourceVersion"]
        async with aclosing(api.watch(OLD, resourceVersion=version)) as events:
            assert (await anext(events))["object"]["metadata"]["name"] == "b"
        assert api.server.state.feeds is not None
        await asyncio.sleep(0)
        assert api.server.state.feeds.watchers == 0


async def test_a_watch_whose_objects_cannot_be_converted_ends_with_an_error() -> None:
    async with opened() as (api, webhook):
        await api.create(NEW, widget("a", "v2", colour="red"))
        webhook.answer = lambda _: {"result": {"status": "Failure", "message": "not today"}}
        async with aclosing(api.watch(OLD)) as events:
            event = await anext(events)
        assert (event["type"], event["object"]["code"]) == ("ERROR", 500)
        assert event["object"]["message"].endswith("failed: not today")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"result": {"status": "Failure", "message": "no way"}}, "no way"),
        ({"result": {"status": "Success"}, "convertedObjects": []}, "webhook returned 0 objects, expected 1"),
        ({"result": {"status": "Success"}, "convertedObjects": [5]}, "it has no metadata"),
        (
            {"result": {"status": "Success"}, "convertedObjects": [{"apiVersion": "a/v9", "metadata": {}}]},
            "invalid groupVersion (expected: example.com/v1, received: a/v9)",
        ),
        ({"uid": "other"}, "expected response.uid="),
        (Response(500, (), b""), "the response has status 500"),
        (Response(200, (), b"{"), "failed: "),
    ],
)
async def test_a_failed_conversion_fails_the_request(answer: Any, problem: str) -> None:
    async with opened() as (api, webhook):
        await api.create(NEW, widget("a", "v2", colour="red"))
        webhook.answer = lambda _: answer
        for path in (f"{OLD}/a", OLD):
            status, error = await api.request("GET", path)
            assert status == 500
            assert error["message"].startswith("conversion webhook for example.com/v2, Kind=Widget failed: ")
            assert problem in error["message"]
        assert (await api.request("POST", OLD, widget("b", "v1", color="red")))[0] == 500
        assert (await api.request("GET", f"{NEW}/b"))[0] == 404


async def test_a_converted_object_with_another_identity_is_rejected() -> None:
    async with opened() as (api, webhook):
        await api.create(NEW, widget("a", "v2", colour="red"))

        def renamed(request: Any) -> Any:
            made = converting(request)
            made["convertedObjects"][0]["metadata"]["name"] = "other"
            return made

        webhook.answer = renamed
        status, error = await api.request("GET", f"{OLD}/a")
    assert status == 500
    assert "conversion of Widget/default/a" in error["message"]


async def test_objects_stored_before_a_storage_version_change_are_converted() -> None:
    async with opened(stored="v1") as (api, webhook):
        await api.create(OLD, widget("a", "v1", color="red"))
        path = f"{CRDS}/widgets.example.com"
        versions = definition("v2")["spec"]["versions"]
        status, tree = await api.request("PATCH", path, {"spec": {"versions": versions}}, kind=MERGE)
        assert (status, tree["status"]["storedVersions"]) == (200, ["v1", "v2"])
        assert (await api.request("GET", f"{NEW}/a"))[1]["spec"] == {"colour": "red", "size": 1}
        assert (await api.request("GET", f"{OLD}/a"))[1]["spec"] == {"color": "red", "size": 1}
        await api.request("PATCH", f"{NEW}/a", {"spec": {"size": 2}}, kind=MERGE)
        status, tree = await api.request("PATCH", f"{path}/status", {"status": {"storedVersions": ["v2"]}}, kind=MERGE)
        assert (status, tree["status"]["storedVersions"]) == (200, ["v2"])
        calls = len(webhook.requests)
        await api.request("GET", f"{NEW}/a")
        assert len(webhook.requests) == calls


async def test_an_admission_webhook_gets_the_version_it_names() -> None:
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["widgets"]}
    async with opened() as (api, _), open_webhook() as admission_webhook:
        await api.create(VALIDATING, configuration(hook(admission_webhook, rules=[rule])))
        await api.create(NEW, widget("a", "v2", colour="red"))
        await api.request("PATCH", f"{NEW}/a", {"spec": {"colour": "blue"}}, kind=MERGE)
    assert [request["object"]["spec"]["color"] for request in admission_webhook.requests] == ["red", "blue"]
    assert admission_webhook.requests[1]["oldObject"]["spec"]["color"] == "red"


async def test_a_crd_and_its_objects_can_be_deleted_without_the_webhook() -> None:
    async with opened() as (api, webhook):
        await api.create(NEW, widget("a", "v2", colour="red"))
        webhook.answer = lambda _: Response(500, (), b"")
        await api.request("DELETE", f"{CRDS}/widgets.example.com")
        await api.server.idle()
        assert (await api.request("GET", f"{CRDS}/widgets.example.com"))[0] == 404


async def test_garbage_is_collected_without_the_webhook() -> None:
    async with opened() as (api, webhook):
        owner = await api.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "owner"}})
        ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        tree = widget("a", "v1", color="red")
        tree["metadata"]["ownerReferences"] = [ref]
        await api.create(OLD, tree)
        webhook.answer = lambda _: Response(500, (), b"")
        await api.request("DELETE", "/api/v1/namespaces/default/configmaps/owner")
        await api.server.idle()
        assert (await api.request("GET", f"{NEW}/a"))[0] == 404
