"""Writes that go by a form are the same calls, and end in the same way, as those that do not."""

from typing import Any

import msgspec
import pytest

from levelset.client.client import Client
from levelset.client.object_types import OnlyMetadata
from levelset.client.patches import JsonPatch, MergePatch, Patch, StrategicPatch
from levelset.client.request_body import draft_of
from levelset.client.transport.interface import Answer, Call
from levelset.errors import BadName, BadObject, ConfigError
from levelset.objects import ObjectMeta, PartialObjectMetadata, Ref, encode_tree
from tests.client.world import WEBSITE, ConfigMap, Namespace, Website, open_client, recording, website

LABEL = MergePatch({"metadata": {"labels": {"a": "b"}}})
PATCHES = [LABEL, StrategicPatch(LABEL.tree), JsonPatch([{"op": "add", "path": "/data", "value": {}}])]


class Echo:
    """A transport that writes down the calls and answers each with the object that it is about."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    async def send(self, call: Call, /) -> Answer:
        self.calls.append(msgspec.to_builtins(call))
        kind = {"websites": Website, "configmaps": ConfigMap, "namespaces": Namespace}[call.path.split("/")[-2]]
        return Answer(status=200, body=encode_tree(kind(metadata=ObjectMeta(name="a", resource_version="1"))))

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: type(patch).__name__)
@pytest.mark.parametrize(
    "ref",
    [Ref(ConfigMap, "a:b.c", "x"), Ref(ConfigMap, "ä b"), Ref(Namespace, "a")],
    ids=["plain", "quoted", "cluster"],
)
async def test_a_patch_by_a_form_is_the_call_that_it_is_without_one(ref: Ref[Any], patch: Patch) -> None:
    echo = Echo()
    client = Client(echo, timeout=7, validation="Strict", manager="me")
    made = [await client.patch(ref, patch), await client.patch(ref, patch)]
    assert await client.patch(ref, patch, manager="me") == made[0] == made[1]
    assert echo.calls[0] == echo.calls[1] == echo.calls[2]


@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize("namespace", [None, "default"])
async def test_an_apply_by_a_form_is_the_call_that_it_is_without_one(force: bool, namespace: str | None) -> None:
    echo = Echo()
    client = Client(echo)
    draft = draft_of(ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"b": "c"}))
    for options in ({}, {}, {"manager": "levelset"}):
        await client.apply_draft(draft, draft.applied_body(), namespace=namespace, force=force, **options)
    assert echo.calls[0] == echo.calls[1] == echo.calls[2]
    assert echo.calls[0]["query"].endswith(f"force={str(force).lower()}")


async def test_each_place_part_and_way_of_writing_has_a_form_of_its_own() -> None:
    echo = Echo()
    client = Client(echo)
    body = b"{}"
    for name, namespace in (("a", "one"), ("b", "one"), ("a", "two")):
        draft = draft_of(ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace)))
        await client.apply_draft(draft, body, force=True)
        await client.apply_draft(draft, body)
        await client.patch(Ref(ConfigMap, name, namespace), LABEL)
    ways = [(call["words"], call["query"].partition("&")[2]) for call in echo.calls]
    assert ways[:3] == [
        ("apply ConfigMap/one/a", "force=true"),
        ("apply ConfigMap/one/a", "force=false"),
        ("patch ConfigMap/one/a", ""),
    ]
    assert [call["path"] for call in echo.calls[::3]] == [
        f"/api/v1/namespaces/{place}/configmaps/{name}" for name, place in (("a", "one"), ("b", "one"), ("a", "two"))
    ]


async def test_a_status_is_written_by_a_form_and_other_parts_are_not() -> None:
    calls: list[Call] = []
    async with open_client(wire_hooks=[recording(calls)]) as client:
        ref = (await client.create(website("blog"))).ref
        for _ in range(2):
            made: Any = await client.patch(ref, MergePatch({"status": {"phase": "up"}}), subresource="status")
            assert made.status.phase == "up"
        scaled: Any = await client.patch(ref, MergePatch({"spec": {"replicas": 4}}), subresource="scale")
        assert scaled.tree["kind"] == "Scale"
        assert [call.words for call in calls[1:]] == [
            "patch Website/default/blog/status",
            "patch Website/default/blog/status",
            "patch Website/default/blog/scale",
        ]


async def test_what_has_no_class_and_what_is_only_metadata_is_read_as_it_was_asked_for() -> None:
    async with open_client() as client:
        ref = (await client.create(website("blog"))).ref
        assert isinstance(await client.patch(ref, LABEL), Website)
        small = await client.patch(ref, LABEL, only_metadata=True)
        assert isinstance(small, PartialObjectMetadata)
        assert (await client.patch(Ref(WEBSITE, "blog", "default"), LABEL)).tree["kind"] == "Website"
        assert (await client.get(OnlyMetadata(Website), "blog")).metadata.labels == {"a": "b"}


async def test_the_settings_of_a_client_are_those_of_its_forms() -> None:
    async with open_client() as client:
        ref = (await client.create(website("blog"))).ref
        await client.patch(ref, LABEL)
        dry = client.using(dry_run=True, manager="other")
        writes: list[Any] = []
        dry.observe_writes(writes.append)
        changed = await dry.patch(ref, MergePatch({"metadata": {"labels": {"c": "d"}}}))
        assert changed.metadata.labels == {"a": "b", "c": "d"}
        assert (await client.get(ref)).metadata.labels == {"a": "b"}
        assert writes == []
        await client.patch(ref, LABEL)
        assert len(writes) == 1


async def test_a_form_refuses_what_cannot_be_asked_for() -> None:
    async with open_client() as client:
        sick = draft_of(ConfigMap(metadata=ObjectMeta(name="a/b", namespace="default")))
        for _ in range(2):
            with pytest.raises(BadName, match="'a/b' is no name of a ConfigMap"):
                await client.apply_draft(sick, b"{}")
        for namespace in ("a/b", ["a"]):
            meta = ObjectMeta(name="a", namespace=namespace)  # type: ignore[arg-type]
            with pytest.raises(BadName, match="is no namespace of a ConfigMap"):
                await client.apply_draft(draft_of(ConfigMap(metadata=meta)), b"{}")
        with pytest.raises(ConfigError, match="is in namespace default, not other"):
            await client.apply_draft(sick, b"{}", namespace="other")
        with pytest.raises(ConfigError, match="for namespace one only"):
            await client.in_namespace("one").patch(Ref(ConfigMap, "a", "two"), LABEL)
        with pytest.raises(BadObject, match="cannot be written"):
            await client.patch(Ref(ConfigMap, "a"), MergePatch({"data": object()}))
        with pytest.raises(TypeError, match="there is no option dryrun"):
            await client.patch(Ref(ConfigMap, "a"), LABEL, dryrun=True)  # type: ignore[call-overload]


async def test_more_places_than_are_kept_are_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levelset.client.client._MOST_FORMS", 2)
    echo = Echo()
    client = Client(echo)
    for place in ("a", "b", "c", "a"):
        await client.patch(Ref(ConfigMap, "x", place), LABEL)
    assert [call["path"].split("/")[4] for call in echo.calls] == ["a", "b", "c", "a"]
