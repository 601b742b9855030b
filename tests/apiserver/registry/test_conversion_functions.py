"""Versions of a custom kind that an in-process function converts: stored in one, served in all."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from tests.apiserver.support.admission_plugins import RecordingPlugin, adding
from tests.apiserver.support.in_process_server import InProcessServer, open_server
from tests.apiserver.support.versioned_widgets import CRDS, MERGE, NEW, OLD, convert, definition, widget


@asynccontextmanager
async def opened(stored: str = "v2") -> AsyncGenerator[InProcessServer, None]:
    async with open_server() as api:
        await api.create(CRDS, definition(stored))
        api.server.convert_with("example.com", "Widget", convert)
        yield api


async def test_removing_a_converter_does_not_remove_its_replacement() -> None:
    async with opened() as api:
        await api.create(NEW, widget("a", "v2", colour="red"))
        ends = [api.server.convert_with("example.com", "Widget", one) for one in (convert, partial(convert))]
        ends[0]()
        assert (await api.request("GET", f"{OLD}/a"))[1]["spec"] == {"color": "red", "size": 1}
        ends[1]()
        assert (await api.request("GET", f"{OLD}/a"))[1]["spec"] == {"size": 1}
        ends[1]()


async def test_an_object_can_be_read_in_every_version() -> None:
    async with opened() as api:
        made = await api.create(OLD, widget("a", "v1", color="red"))
        assert made["spec"] == {"color": "red", "size": 1}
        await api.create(NEW, widget("b", "v2", colour="blue"))
        for path, field in ((OLD, "color"), (NEW, "colour")):
            _, listed = await api.request("GET", path)
            assert [one["spec"][field] for one in listed["items"]] == ["red", "blue"]
            _, one = await api.request("GET", f"{path}/a")
            assert (one["spec"], one["apiVersion"]) == ({field: "red", "size": 1}, path[6:20].rstrip("/"))


async def test_a_converter_can_change_only_labels_and_annotations_of_the_metadata() -> None:
    async with opened() as api:
        made = await api.create(OLD, widget("a", "v1", color="red"))
        _, read = await api.request("GET", f"{NEW}/a")
        assert read["metadata"]["uid"] == made["metadata"]["uid"]
        assert read["metadata"]["labels"] == {"came": "from"}
        assert read["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_a_write_in_another_version_changes_the_stored_object() -> None:
    async with opened() as api:
        await api.create(NEW, widget("a", "v2", colour="red"))
        status, changed = await api.request("PATCH", f"{OLD}/a", {"spec": {"color": "blue"}}, kind=MERGE)
        assert (status, changed["spec"]["color"]) == (200, "blue")
        assert (await api.request("GET", f"{NEW}/a"))[1]["spec"] == {"colour": "blue", "size": 1}


async def test_a_watch_returns_its_own_version() -> None:
    async with opened() as api:
        await api.create(NEW, widget("a", "v2", colour="red"))
        events = api.watch(OLD)
        assert (await anext(events))["object"]["spec"]["color"] == "red"
        await api.create(NEW, widget("b", "v2", colour="blue"))
        assert (await anext(events))["object"]["spec"]["color"] == "blue"
        await events.aclose()


async def test_objects_that_were_stored_in_a_former_version_are_converted_too() -> None:
    async with opened("v1") as api:
        await api.create(OLD, widget("a", "v1", color="red"))
        _, found = await api.request("GET", f"{CRDS}/widgets.example.com")
        found["spec"]["versions"] = definition("v2")["spec"]["versions"]
        assert (await api.request("PUT", f"{CRDS}/widgets.example.com", found))[0] == 200
        assert (await api.request("GET", f"{NEW}/a"))[1]["spec"]["colour"] == "red"
        assert (await api.request("GET", f"{OLD}/a"))[1]["spec"]["color"] == "red"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("GET", f"{OLD}/a", None), ("GET", OLD, None), ("POST", OLD, widget("b", "v1", color="broken"))],
)
async def test_a_failed_conversion_is_500_with_its_cause(method: str, path: str, body: Any) -> None:
    async with opened() as api:
        await api.create(NEW, widget("a", "v2", colour="broken"))
        status, answer = await api.request(method, path, body)
        assert (status, answer["reason"]) == (500, "InternalError")
        assert "conversion of Widget/default/" in answer["message"]
        assert "failed: that colour is broken" in answer["message"]


async def test_a_conversion_that_changes_the_identity_of_an_object_is_rejected() -> None:
    async with opened() as api:
        await api.create(NEW, widget("a", "v2"))
        wrong = [
            lambda tree, _: tree,
            lambda tree, wanted: {**tree, "apiVersion": wanted, "kind": "Gadget"},
            lambda tree, wanted: {**tree, "apiVersion": wanted, "metadata": {"name": "b"}},
            lambda _tree, _wanted: None,
        ]
        for function in wrong:
            api.server.convert_with("example.com", "Widget", function)
            assert (await api.request("GET", f"{OLD}/a"))[0] == 500


async def test_without_a_converter_only_the_api_version_changes() -> None:
    async with open_server() as api:
        await api.create(CRDS, definition())
        await api.create(NEW, widget("a", "v2", colour="red"))
        assert (await api.request("GET", f"{OLD}/a"))[1]["spec"] == {"size": 1}


async def test_a_converter_can_be_set_before_its_crd_exists() -> None:
    hook = {"clientConfig": {"url": "https://nowhere.example/convert"}, "conversionReviewVersions": ["v1"]}
    async with open_server() as api:
        api.server.convert_with("example.com", "Widget", convert)
        await api.create(CRDS, definition(conversion={"strategy": "Webhook", "webhook": hook}))
        await api.create(NEW, widget("a", "v2", colour="red"))
        assert (await api.request("GET", f"{OLD}/a"))[1]["spec"]["color"] == "red"


async def test_an_admission_plugin_for_one_version_gets_all_writes_in_that_version() -> None:
    painter = RecordingPlugin(adding("/spec/colour", "green"), mutates=True, version="v2")
    validator = RecordingPlugin(version="v2")
    async with opened() as api:
        api.server.admit(painter, validator)
        made = await api.create(OLD, widget("a", "v1", color="red"))
        assert made["spec"] == {"color": "green", "size": 1}
    request = painter.requests[0]
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v2", "v1")
    assert (request["resource"]["version"], request["requestResource"]["version"]) == ("v2", "v1")
    assert request["object"]["spec"]["colour"] == "red"
    assert validator.requests[0]["object"]["spec"] == {"colour": "green", "size": 1}
