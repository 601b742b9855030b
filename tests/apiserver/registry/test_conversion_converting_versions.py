"""Versions of a custom kind that differ: objects are stored in one and served in all, converted by a function."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from tests.apiserver.box import Box, open_box, widgets
from tests.apiserver.verbs.test_write_admission import Asked, adding

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OLD = "/apis/example.com/v1/namespaces/default/widgets"
NEW = "/apis/example.com/v2/namespaces/default/widgets"
MERGE = "application/merge-patch+json"


def convert(tree: dict[str, Any], wanted: str) -> dict[str, Any]:
    """Says `color` in v1 and `colour` in v2."""
    spec = dict(tree.get("spec") or {})
    before, after = ("color", "colour") if wanted.endswith("v2") else ("colour", "color")
    if spec.get(before) == "broken":
        raise ValueError("that colour is broken")
    if before in spec:
        spec[after] = spec.pop(before)
    labels = {**tree["metadata"].get("labels", {}), "came": "from"}
    metadata = {**tree["metadata"], "labels": labels, "uid": "stolen"}
    return {**tree, "apiVersion": wanted, "metadata": metadata, "spec": spec}


def definition(stored: str = "v2", **spec: Any) -> Any:
    made = widgets(**spec)
    made["spec"]["versions"] = [
        version("v1", "color", is_stored=stored == "v1"),
        version("v2", "colour", is_stored=stored == "v2"),
    ]
    return made


def version(name: str, field: str, *, is_stored: bool) -> Any:
    spec = {"type": "object", "properties": {field: {"type": "string"}, "size": {"type": "integer", "default": 1}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    return {"name": name, "served": True, "storage": is_stored, "schema": {"openAPIV3Schema": schema}}


@asynccontextmanager
async def opened(stored: str = "v2") -> AsyncGenerator[Box, None]:
    async with open_box() as box:
        await box.make(CRDS, definition(stored))
        box.server.convert_with("example.com", "Widget", convert)
        yield box


async def test_a_function_ends_when_it_is_told_to_but_not_the_one_that_took_its_place() -> None:
    async with opened() as box:
        await box.make(NEW, widget("a", "v2", colour="red"))
        ends = [box.server.convert_with("example.com", "Widget", one) for one in (convert, partial(convert))]
        ends[0]()
        assert (await box.ask("GET", f"{OLD}/a"))[1]["spec"] == {"color": "red", "size": 1}
        ends[1]()
        assert (await box.ask("GET", f"{OLD}/a"))[1]["spec"] == {"size": 1}
        ends[1]()


def widget(name: str, version: str, **spec: Any) -> Any:
    return {"apiVersion": f"example.com/{version}", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


async def test_an_object_is_read_in_each_version_whichever_it_was_written_in() -> None:
    async with opened() as box:
        made = await box.make(OLD, widget("a", "v1", color="red"))
        assert made["spec"] == {"color": "red", "size": 1}
        await box.make(NEW, widget("b", "v2", colour="blue"))
        for path, field in ((OLD, "color"), (NEW, "colour")):
            _, listed = await box.ask("GET", path)
            assert [one["spec"][field] for one in listed["items"]] == ["red", "blue"]
            _, one = await box.ask("GET", f"{path}/a")
            assert (one["spec"], one["apiVersion"]) == ({field: "red", "size": 1}, path[6:20].rstrip("/"))


async def test_of_the_metadata_only_labels_and_annotations_are_taken_over() -> None:
    async with opened() as box:
        made = await box.make(OLD, widget("a", "v1", color="red"))
        _, read = await box.ask("GET", f"{NEW}/a")
        assert read["metadata"]["uid"] == made["metadata"]["uid"]
        assert read["metadata"]["labels"] == {"came": "from"}
        assert read["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_a_write_in_another_version_changes_the_object_that_is_stored() -> None:
    async with opened() as box:
        await box.make(NEW, widget("a", "v2", colour="red"))
        status, changed = await box.ask("PATCH", f"{OLD}/a", {"spec": {"color": "blue"}}, kind=MERGE)
        assert (status, changed["spec"]["color"]) == (200, "blue")
        assert (await box.ask("GET", f"{NEW}/a"))[1]["spec"] == {"colour": "blue", "size": 1}


async def test_a_watch_shows_its_own_version() -> None:
    async with opened() as box:
        await box.make(NEW, widget("a", "v2", colour="red"))
        events = box.watch(OLD)
        assert (await anext(events))["object"]["spec"]["color"] == "red"
        await box.make(NEW, widget("b", "v2", colour="blue"))
        assert (await anext(events))["object"]["spec"]["color"] == "blue"
        await events.aclose()


async def test_objects_that_were_stored_in_a_former_version_are_converted_too() -> None:
    async with opened("v1") as box:
        await box.make(OLD, widget("a", "v1", color="red"))
        _, found = await box.ask("GET", f"{CRDS}/widgets.example.com")
        found["spec"]["versions"] = definition("v2")["spec"]["versions"]
        assert (await box.ask("PUT", f"{CRDS}/widgets.example.com", found))[0] == 200
        assert (await box.ask("GET", f"{NEW}/a"))[1]["spec"]["colour"] == "red"
        assert (await box.ask("GET", f"{OLD}/a"))[1]["spec"]["color"] == "red"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("GET", f"{OLD}/a", None), ("GET", OLD, None), ("POST", OLD, widget("b", "v1", color="broken"))],
)
async def test_a_conversion_that_fails_is_500_and_says_why(method: str, path: str, body: Any) -> None:
    async with opened() as box:
        await box.make(NEW, widget("a", "v2", colour="broken"))
        status, answer = await box.ask(method, path, body)
        assert (status, answer["reason"]) == (500, "InternalError")
        assert "conversion of Widget/default/" in answer["message"]
        assert "failed: that colour is broken" in answer["message"]


async def test_a_conversion_that_makes_another_object_of_it_is_refused() -> None:
    async with opened() as box:
        await box.make(NEW, widget("a", "v2"))
        wrong = [
            lambda tree, _: tree,
            lambda tree, wanted: {**tree, "apiVersion": wanted, "kind": "Gadget"},
            lambda tree, wanted: {**tree, "apiVersion": wanted, "metadata": {"name": "b"}},
            lambda _tree, _wanted: None,
        ]
        for function in wrong:
            box.server.convert_with("example.com", "Widget", function)
            assert (await box.ask("GET", f"{OLD}/a"))[0] == 500


async def test_without_a_function_versions_differ_in_name_only() -> None:
    async with open_box() as box:
        await box.make(CRDS, definition())
        await box.make(NEW, widget("a", "v2", colour="red"))
        assert (await box.ask("GET", f"{OLD}/a"))[1]["spec"] == {"size": 1}


async def test_a_function_may_be_there_before_the_definition_whatever_its_strategy() -> None:
    hook = {"clientConfig": {"url": "https://nowhere.example/convert"}, "conversionReviewVersions": ["v1"]}
    async with open_box() as box:
        box.server.convert_with("example.com", "Widget", convert)
        await box.make(CRDS, definition(conversion={"strategy": "Webhook", "webhook": hook}))
        await box.make(NEW, widget("a", "v2", colour="red"))
        assert (await box.ask("GET", f"{OLD}/a"))[1]["spec"]["color"] == "red"


async def test_who_is_for_one_version_is_asked_about_all_and_sees_that_one() -> None:
    painter = Asked(adding("/spec/colour", "green"), mutates=True, version="v2")
    judge = Asked(version="v2")
    async with opened() as box:
        box.server.admit(painter, judge)
        made = await box.make(OLD, widget("a", "v1", color="red"))
        assert made["spec"] == {"color": "green", "size": 1}
    request = painter.requests[0]
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v2", "v1")
    assert (request["resource"]["version"], request["requestResource"]["version"]) == ("v2", "v1")
    assert request["object"]["spec"]["colour"] == "red"
    assert judge.requests[0]["object"]["spec"] == {"colour": "green", "size": 1}
