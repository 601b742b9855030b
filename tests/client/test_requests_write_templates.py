"""Writes from a template send the same calls, and end in the same way, as those without one."""

from typing import Any

import msgspec
import pytest

from levelset.client.client import Client
from levelset.client.internals import apply_body, observe_writes, with_settings
from levelset.client.object_types import OnlyMetadata
from levelset.client.patches import JsonPatch, MergePatch, Patch, StrategicPatch
from levelset.client.request_body import request_body_of
from levelset.client.transport.interface import Call, Response
from levelset.errors import BadName, BadObject, ConfigError
from levelset.objects import ObjectMeta, PartialObjectMetadata, Ref, encode_tree
from tests.client.fixtures import WEBSITE, ConfigMap, Namespace, Website, open_client, recording, website

LABEL = MergePatch({"metadata": {"labels": {"a": "b"}}})
PATCHES = [LABEL, StrategicPatch(LABEL.tree), JsonPatch([{"op": "add", "path": "/data", "value": {}}])]


class Echo:
    """A transport that records the calls and responds to each with its object."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    async def send(self, call: Call, /) -> Response:
        self.calls.append(msgspec.to_builtins(call))
        kind = {"websites": Website, "configmaps": ConfigMap, "namespaces": Namespace}[call.path.split("/")[-2]]
        return Response(status=200, body=encode_tree(kind(metadata=ObjectMeta(name="a", resource_version="1"))))

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: type(patch).__name__)
@pytest.mark.parametrize(
    "ref",
    [Ref(ConfigMap, "a:b.c", "x"), Ref(ConfigMap, "ä b"), Ref(Namespace, "a")],
    ids=["plain", "quoted", "cluster"],
)
async def test_a_patch_from_a_template_equals_one_without(ref: Ref[Any], patch: Patch) -> None:
    echo = Echo()
    client = Client(echo, timeout=7, validation="Strict", manager="me")
    made = [await client.patch(ref, patch), await client.patch(ref, patch)]
    assert await client.patch(ref, patch, manager="me") == made[0] == made[1]
    assert echo.calls[0] == echo.calls[1] == echo.calls[2]


@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize("namespace", [None, "default"])
async def test_an_apply_from_a_template_equals_one_without(force: bool, namespace: str | None) -> None:
    echo = Echo()
    client = Client(echo)
    draft = request_body_of(ConfigMap(metadata=ObjectMeta(name="a", namespace="default"), data={"b": "c"}))
    for options in ({}, {}, {"manager": "levelset"}):
        await apply_body(client, draft, draft.encode_for_apply(), namespace=namespace, force=force, **options)
    assert echo.calls[0] == echo.calls[1] == echo.calls[2]
    assert echo.calls[0]["query"].endswith(f"force={str(force).lower()}")


async def test_each_namespace_subresource_and_content_type_has_its_own_template() -> None:
    echo = Echo()
    client = Client(echo)
    body = b"{}"
    for name, namespace in (("a", "one"), ("b", "one"), ("a", "two")):
        draft = request_body_of(ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace)))
        await apply_body(client, draft, body, force=True)
        await apply_body(client, draft, body)
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


async def test_a_status_is_written_from_a_template_and_other_subresources_are_not() -> None:
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


async def test_unstructured_and_metadata_only_writes_use_no_template() -> None:
    async with open_client() as client:
        ref = (await client.create(website("blog"))).ref
        assert isinstance(await client.patch(ref, LABEL), Website)
        small = await client.patch(ref, LABEL, only_metadata=True)
        assert isinstance(small, PartialObjectMetadata)
        assert (await client.patch(Ref(WEBSITE, "blog", "default"), LABEL)).tree["kind"] == "Website"
        assert (await client.get(OnlyMetadata(Website), "blog")).metadata.labels == {"a": "b"}


async def test_templates_have_the_settings_of_their_client() -> None:
    async with open_client() as client:
        ref = (await client.create(website("blog"))).ref
        await client.patch(ref, LABEL)
        dry = with_settings(client, dry_run=True, manager="other")
        writes: list[Any] = []
        observe_writes(dry, writes.append)
        changed = await dry.patch(ref, MergePatch({"metadata": {"labels": {"c": "d"}}}))
        assert changed.metadata.labels == {"a": "b", "c": "d"}
        assert (await client.get(ref)).metadata.labels == {"a": "b"}
        assert writes == []
        await client.patch(ref, LABEL)
        assert len(writes) == 1


async def test_a_template_refuses_invalid_requests() -> None:
    async with open_client() as client:
        sick = request_body_of(ConfigMap(metadata=ObjectMeta(name="a/b", namespace="default")))
        for _ in range(2):
            with pytest.raises(BadName, match="'a/b' is not a name of a ConfigMap"):
                await apply_body(client, sick, b"{}")
        for namespace in ("a/b", ["a"]):
            meta = ObjectMeta(name="a", namespace=namespace)  # type: ignore[arg-type]
            with pytest.raises(BadName, match="is not a namespace of a ConfigMap"):
                await apply_body(client, request_body_of(ConfigMap(metadata=meta)), b"{}")
        with pytest.raises(ConfigError, match="is in namespace default, not other"):
            await apply_body(client, sick, b"{}", namespace="other")
        with pytest.raises(ConfigError, match="confined to namespace one"):
            await client.in_namespace("one").patch(Ref(ConfigMap, "a", "two"), LABEL)
        with pytest.raises(BadObject, match="cannot be written"):
            await client.patch(Ref(ConfigMap, "a"), MergePatch({"data": object()}))
        with pytest.raises(TypeError, match="unknown option dryrun"):
            await client.patch(Ref(ConfigMap, "a"), LABEL, dryrun=True)  # type: ignore[call-overload]


async def test_more_namespaces_than_cached_templates_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levelset.client.client._MAX_WRITE_TEMPLATES", 2)
    echo = Echo()
    client = Client(echo)
    for place in ("a", "b", "c", "a"):
        await client.patch(Ref(ConfigMap, "x", place), LABEL)
    assert [call["path"].split("/")[4] for call in echo.calls] == ["a", "b", "c", "a"]
