"""Versions that a webhook converts: asked over a real connection, as rarely as possible, by all who read and write."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from levelset.http import Response
from levelset.storage import MemoryStorage, SqliteStorage, Storage
from tests.apiserver.box import Box, open_box
from tests.apiserver.registry.test_conversion_converting_versions import (
    CRDS,
    MERGE,
    NEW,
    OLD,
    convert,
    definition,
    widget,
)
from tests.apiserver.remote import Webhook, configuration, hook, open_webhook

VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def converting(request: Any) -> Any:
    made = [convert(one, request["desiredAPIVersion"]) for one in request["objects"]]
    return {"result": {"status": "Success"}, "convertedObjects": made}


def calling(webhook: Webhook) -> Any:
    return {"strategy": "Webhook", "webhook": {"clientConfig": webhook.client, "conversionReviewVersions": ["v1"]}}


@asynccontextmanager
async def opened(storage: Storage | None = None, stored: str = "v2") -> AsyncGenerator[tuple[Box, Webhook], None]:
    async with open_webhook(converting) as webhook, open_box(storage) as box:
        await box.make(CRDS, definition(stored, conversion=calling(webhook)))
        yield box, webhook


@pytest.fixture(params=["memory", "sqlite"])
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Storage, None]:
    made: Storage = MemoryStorage()
    if request.param == "sqlite":
        made = await asyncio.to_thread(SqliteStorage, tmp_path / "data.db")
    yield made
    await made.close()


async def test_objects_are_written_and_read_in_every_version(storage: Storage) -> None:
    async with opened(storage) as (box, webhook):
        made = await box.make(OLD, widget("a", "v1", color="red"))
        assert made["spec"] == {"color": "red", "size": 1}
        assert (await box.ask("GET", f"{NEW}/a"))[1]["spec"] == {"colour": "red", "size": 1}
        status, changed = await box.ask("PATCH", f"{OLD}/a", {"spec": {"color": "blue"}}, kind=MERGE)
        assert (status, changed["spec"]["color"]) == (200, "blue")
        changed["spec"]["color"] = "green"
        status, changed = await box.ask("PUT", f"{OLD}/a", changed)
        assert (status, changed["spec"]["color"]) == (200, "green")
        assert (await box.ask("GET", f"{NEW}/a"))[1]["spec"]["colour"] == "green"
        assert (await box.ask("DELETE", f"{OLD}/a"))[0] == 200
        assert (await box.ask("GET", f"{NEW}/a"))[0] == 404
    review = webhook.reviews[0]
    assert (review["kind"], review["apiVersion"]) == ("ConversionReview", "apiextensions.k8s.io/v1")
    assert webhook.queries[0] == "timeout=30s"


async def test_only_labels_and_annotations_of_the_metadata_are_taken_over() -> None:
    async with opened() as (box, _):
        made = await box.make(NEW, widget("a", "v2", colour="red"))
        read = (await box.ask("GET", f"{OLD}/a"))[1]
    assert read["metadata"]["uid"] == made["metadata"]["uid"]
    assert read["metadata"]["labels"] == {"came": "from"}


async def test_a_list_is_converted_with_one_call_and_remembered() -> None:
    async with opened() as (box, webhook):
        for name in "abc":
            await box.make(NEW, widget(name, "v2", colour=name))
        assert not webhook.requests
        for _ in range(2):
            _, listed = await box.ask("GET", OLD)
            assert [one["spec"]["color"] for one in listed["items"]] == ["a", "b", "c"]
        assert [len(request["objects"]) for request in webhook.requests] == [3]
        await box.ask("GET", f"{OLD}/a")
        assert len(webhook.requests) == 1


async def test_the_version_that_is_stored_needs_nobody() -> None:
    async with opened() as (box, webhook):
        await box.make(NEW, widget("a", "v2", colour="red"))
        await box.ask("PATCH", f"{NEW}/a", {"spec": {"colour": "blue"}}, kind=MERGE)
        await box.ask("GET", NEW)
        await box.ask("DELETE", f"{NEW}/a")
    assert not webhook.requests


async def test_selectors_see_the_version_that_is_asked_for() -> None:
    async with open_webhook(converting) as webhook, open_box() as box:
        tree = definition(conversion=calling(webhook))
        tree["spec"]["versions"][0]["selectableFields"] = [{"jsonPath": ".spec.color"}]
        await box.make(CRDS, tree)
        for name, colour in (("a", "red"), ("b", "blue"), ("c", "red")):
            await box.make(NEW, widget(name, "v2", colour=colour))
        _, listed = await box.ask("GET", OLD, fieldSelector="spec.color=red")
        assert [one["metadata"]["name"] for one in listed["items"]] == ["a", "c"]
        assert len(webhook.requests) == 1
        assert (await box.ask("DELETE", OLD, fieldSelector="spec.color=red"))[0] == 200
        assert [one["metadata"]["name"] for one in (await box.ask("GET", NEW))[1]["items"]] == ["b"]


async def test_a_watch_shows_its_version_from_the_present_on(storage: Storage) -> None:
    async with opened(storage) as (box, _):
        await box.make(NEW, widget("a", "v2", colour="red"))
        more = {"allowWatchBookmarks": "true", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        async with aclosing(box.watch(OLD, **more)) as events:
            assert shown(await anext(events)) == ("ADDED", "example.com/v1", {"color": "red", "size": 1})
            assert (await anext(events))["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            await box.ask("PATCH", f"{NEW}/a", {"spec": {"colour": "blue"}}, kind=MERGE)
            assert shown(await anext(events)) == ("MODIFIED", "example.com/v1", {"color": "blue", "size": 1})
            await box.ask("DELETE", f"{NEW}/a")
            assert shown(await anext(events)) == ("DELETED", "example.com/v1", {"color": "blue", "size": 1})


def shown(event: Any) -> tuple[str, str, Any]:
    return event["type"], event["object"]["apiVersion"], event["object"]["spec"]


async def test_a_watch_goes_on_after_a_version_and_ends_with_its_client() -> None:
    async with opened() as (box, _):
        made = await box.make(NEW, widget("a", "v2", colour="red"))
        await box.make(NEW, widget("b", "v2", colour="blue"))
        version = made["metadata"]["resourceVersion"]
        async with aclosing(box.watch(OLD, resourceVersion=version)) as events:
            assert (await anext(events))["object"]["metadata"]["name"] == "b"
        assert box.server.world.feeds is not None
        await asyncio.sleep(0)
        assert box.server.world.feeds.watchers == 0


async def test_a_watch_whose_objects_cannot_be_converted_ends_with_an_error() -> None:
    async with opened() as (box, webhook):
        await box.make(NEW, widget("a", "v2", colour="red"))
        webhook.answer = lambda _: {"result": {"status": "Failure", "message": "not today"}}
        async with aclosing(box.watch(OLD)) as events:
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
        (Response(500, (), b""), "it answered with status 500"),
        (Response(200, (), b"{"), "failed: "),
    ],
)
async def test_a_conversion_that_fails_is_told_to_whoever_needs_it(answer: Any, problem: str) -> None:
    async with opened() as (box, webhook):
        await box.make(NEW, widget("a", "v2", colour="red"))
        webhook.answer = lambda _: answer
        for path in (f"{OLD}/a", OLD):
            status, told = await box.ask("GET", path)
            assert status == 500
            assert told["message"].startswith("conversion webhook for example.com/v2, Kind=Widget failed: ")
            assert problem in told["message"]
        assert (await box.ask("POST", OLD, widget("b", "v1", color="red")))[0] == 500
        assert (await box.ask("GET", f"{NEW}/b"))[0] == 404


async def test_an_object_that_comes_back_as_another_one_is_refused() -> None:
    async with opened() as (box, webhook):
        await box.make(NEW, widget("a", "v2", colour="red"))

        def renamed(request: Any) -> Any:
            made = converting(request)
            made["convertedObjects"][0]["metadata"]["name"] = "other"
            return made

        webhook.answer = renamed
        status, told = await box.ask("GET", f"{OLD}/a")
    assert status == 500
    assert "conversion of Widget/default/a" in told["message"]


async def test_what_was_stored_before_the_storage_version_changed_is_converted_too() -> None:
    async with opened(stored="v1") as (box, webhook):
        await box.make(OLD, widget("a", "v1", color="red"))
        path = f"{CRDS}/widgets.example.com"
        versions = definition("v2")["spec"]["versions"]
        status, tree = await box.ask("PATCH", path, {"spec": {"versions": versions}}, kind=MERGE)
        assert (status, tree["status"]["storedVersions"]) == (200, ["v1", "v2"])
        assert (await box.ask("GET", f"{NEW}/a"))[1]["spec"] == {"colour": "red", "size": 1}
        assert (await box.ask("GET", f"{OLD}/a"))[1]["spec"] == {"color": "red", "size": 1}
        await box.ask("PATCH", f"{NEW}/a", {"spec": {"size": 2}}, kind=MERGE)
        status, tree = await box.ask("PATCH", f"{path}/status", {"status": {"storedVersions": ["v2"]}}, kind=MERGE)
        assert (status, tree["status"]["storedVersions"]) == (200, ["v2"])
        asked = len(webhook.requests)
        await box.ask("GET", f"{NEW}/a")
        assert len(webhook.requests) == asked


async def test_an_admission_webhook_sees_the_version_it_names() -> None:
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["widgets"]}
    async with opened() as (box, _), open_webhook() as asked:
        await box.make(VALIDATING, configuration(hook(asked, rules=[rule])))
        await box.make(NEW, widget("a", "v2", colour="red"))
        await box.ask("PATCH", f"{NEW}/a", {"spec": {"colour": "blue"}}, kind=MERGE)
    assert [request["object"]["spec"]["color"] for request in asked.requests] == ["red", "blue"]
    assert asked.requests[1]["oldObject"]["spec"]["color"] == "red"


async def test_a_definition_and_its_objects_go_without_the_webhook() -> None:
    async with opened() as (box, webhook):
        await box.make(NEW, widget("a", "v2", colour="red"))
        webhook.answer = lambda _: Response(500, (), b"")
        await box.ask("DELETE", f"{CRDS}/widgets.example.com")
        await box.server.idle()
        assert (await box.ask("GET", f"{CRDS}/widgets.example.com"))[0] == 404


async def test_garbage_is_collected_without_the_webhook() -> None:
    async with opened() as (box, webhook):
        owner = await box.make("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "owner"}})
        ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        tree = widget("a", "v1", color="red")
        tree["metadata"]["ownerReferences"] = [ref]
        await box.make(OLD, tree)
        webhook.answer = lambda _: Response(500, (), b"")
        await box.ask("DELETE", "/api/v1/namespaces/default/configmaps/owner")
        await box.server.idle()
        assert (await box.ask("GET", f"{NEW}/a"))[0] == 404
