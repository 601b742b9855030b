"""Server-side apply; its fast path for creates is compared with the general path."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from levelset.apiserver.eager_coroutines import run_sync
from levelset.apiserver.resources.served_resource import Rules, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import apply as apply_verb
from levelset.apiserver.verbs import create_and_update, patch
from levelset.apiserver.verbs.apply import create_applied
from levelset.apiserver.verbs.create_and_update import WriteResult
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.errors import ApiError, ApplyConflict, BadRequest, Conflict, Invalid, NotFound
from levelset.storage import MemoryStorage
from tests.apiserver.support.server_state import (
    SPACE,
    SlowStorage,
    configmaps,
    make_served,
    make_state,
    preload_kinds,
    widget,
)
from tests.patch.trees_strategy import maps

APPLY = "application/apply-patch+yaml"


async def apply(
    state: ServerState,
    served: ServedResource,
    config: Any,
    manager: str = "m1",
    *,
    has_manager: bool = True,
    **options: Any,
) -> WriteResult:
    body = config if isinstance(config, bytes) else json.dumps(config).encode()
    settings = WriteOptions(manager, has_manager=has_manager, **options)
    return await patch.patch(state, served, "x", "a", media=APPLY, body=body, options=settings)


def fields_of(written: WriteResult) -> dict[str, Any]:
    return {one["manager"]: one["fieldsV1"] for one in written.tree["metadata"]["managedFields"]}


async def test_applying_creates_the_object_and_owns_its_fields_but_not_defaults() -> None:
    state, served = make_state()
    written = await apply(state, served, widget(spec={"color": "red"}))
    assert written.created
    assert written.tree["spec"] == {"color": "red", "replicas": 1}
    assert fields_of(written) == {"m1": {"f:spec": {"f:color": {}}}}


async def test_yaml_can_be_applied() -> None:
    state, served = make_state()
    body = b"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec:\n  color: red\n"
    assert (await apply(state, served, body)).tree["spec"]["color"] == "red"


async def test_fields_that_are_no_longer_applied_are_removed() -> None:
    state, served = make_state()
    await apply(state, served, widget(spec={"color": "red", "free": {"a": 1}}))
    written = await apply(state, served, widget(spec={"color": "blue"}))
    assert (written.created, written.tree["spec"]) == (False, {"color": "blue", "replicas": 1})
    assert written.tree["metadata"]["generation"] == 2


async def test_a_field_of_another_manager_is_a_conflict_unless_forced() -> None:
    state, served = make_state()
    await apply(state, served, widget(spec={"color": "red"}))
    with pytest.raises(ApplyConflict) as caught:
        await apply(state, served, widget(spec={"color": "blue"}), "m2")
    assert [one.field for one in caught.value.causes] == [".spec.color"]
    written = await apply(state, served, widget(spec={"color": "blue"}), "m2", force=True)
    assert fields_of(written) == {"m2": {"f:spec": {"f:color": {}}}}


async def test_applying_the_same_again_changes_nothing() -> None:
    state, served = make_state()
    first = await apply(state, served, widget(spec={"color": "red"}))
    assert (await apply(state, served, widget(spec={"color": "red"}))).tree == first.tree


async def test_the_status_is_applied_through_its_subresource() -> None:
    state, served = make_state()
    with pytest.raises(NotFound):
        await apply(state, served, widget(), subresource="status")
    await apply(state, served, {**widget(spec={"color": "red"}), "status": {"ok": False}})
    config = {**widget(spec={"color": "ignored"}), "status": {"ok": True}}
    written = await apply(state, served, config, "ctrl", subresource="status")
    assert (written.tree["spec"]["color"], written.tree["status"]) == ("red", {"ok": True})
    assert fields_of(written)["ctrl"] == {"f:status": {"f:ok": {}}}


async def test_the_scale_is_applied_through_its_subresource() -> None:
    state, served = make_state()
    await create_and_update.create(state, served, "x", widget(spec={"replicas": 1}), WriteOptions("w"))
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 4}}
    with pytest.raises(ApplyConflict):
        await apply(state, served, scale, subresource="scale")
    written = await apply(state, served, scale, subresource="scale", force=True)
    assert (written.tree["kind"], written.tree["spec"]) == ("Scale", {"replicas": 4})


async def test_an_apply_needs_a_field_manager() -> None:
    state, served = make_state()
    with pytest.raises(Invalid) as caught:
        await apply(state, served, widget(), has_manager=False)
    assert [(one.field, one.reason) for one in caught.value.causes] == [("fieldManager", "FieldValueRequired")]


@pytest.mark.parametrize(
    "config",
    [
        {"metadata": {"name": "a"}},
        {**widget(), "apiVersion": "example.com/v2"},
        {**widget(), "kind": "Gizmo"},
        widget("b"),
        widget(namespace="y"),
        widget(managedFields=[{"manager": "x"}]),
        widget(spec={"bogus": 1}),
        widget(spec={"items": [{"v": "no key"}]}),
        [],
        b"a: b: c",
    ],
)
async def test_a_configuration_of_another_object_is_a_bad_request(config: Any) -> None:
    state, served = make_state()
    with pytest.raises(BadRequest):
        await apply(state, served, config)


def unnamed(**parts: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", **parts}


async def test_an_existing_object_can_be_applied_without_its_name() -> None:
    state, served = make_state()
    await apply(state, served, widget(spec={"color": "red"}))
    written = await apply(state, served, unnamed(status={"ready": True}), "m2", subresource="status")
    assert (written.tree["metadata"]["name"], written.tree["status"]) == ("a", {"ready": True})
    written = await apply(state, served, unnamed(metadata={"labels": {"x": "y"}}), "m3")
    assert (written.tree["metadata"]["name"], written.tree["spec"]["color"]) == ("a", "red")


async def test_an_apply_without_a_name_does_not_create_an_object() -> None:
    state, served = make_state()
    with pytest.raises(BadRequest, match=r"^the name of the object \(a based on URL\) was undeterminable: name must"):
        await apply(state, served, unnamed(spec={"color": "red"}))


async def test_a_null_that_the_schema_does_not_allow_is_invalid() -> None:
    state, served = make_state()
    with pytest.raises(Invalid) as caught:
        await apply(state, served, widget(spec={"color": None, "replicas": None}))
    assert [(one.field, one.reason) for one in caught.value.causes] == [("spec.color", "FieldValueTypeInvalid")]


async def test_an_apply_with_a_uid_does_not_create_an_object() -> None:
    state, served = make_state()
    with pytest.raises(Conflict, match="uid"):
        await apply(state, served, widget(uid="u"))


async def test_an_apply_may_require_a_resource_version() -> None:
    state, served = make_state()
    first = await apply(state, served, widget(spec={"color": "red"}))
    version = first.tree["metadata"]["resourceVersion"]
    await apply(state, served, widget(spec={"color": "blue"}, resourceVersion=version))
    with pytest.raises(Conflict):
        await apply(state, served, widget(spec={"color": "red"}, resourceVersion=version))


async def test_concurrent_applies_create_once_and_lose_nothing() -> None:
    state, served = make_state(storage=SlowStorage())
    configs = [widget(spec={"items": [{"name": f"n{number}"}]}) for number in range(4)]
    made = await asyncio.gather(*[apply(state, served, one, f"m{number}") for number, one in enumerate(configs)])
    assert [one.created for one in made].count(True) == 1
    final = await apply(state, served, configs[0], "m0")
    assert sorted(one["name"] for one in final.tree["spec"]["items"]) == ["n0", "n1", "n2", "n3"]
    owned = fields_of(final)
    assert sorted(owned) == ["m0", "m1", "m2", "m3"]
    assert not any("f:replicas" in one["f:spec"] for one in owned.values())  # a default, which no manager owns


async def test_a_dry_run_apply_stores_nothing() -> None:
    state, served = make_state()
    before = state.storage.revision
    assert (await apply(state, served, widget(), dry_run=True)).created
    assert state.storage.revision == before


OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1", "controller": True}
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


@pytest.fixture(scope="module", autouse=True)
def _kinds() -> None:
    preload_kinds()


async def outcome(state: ServerState, served: ServedResource, body: bytes, options: dict[str, Any]) -> Any:
    """Everything observable of an apply: the result, the stored object, the warnings, or the error."""
    named = WriteOptions("m", has_manager=True, **options)
    try:
        written = await apply_verb.apply(state, served, "x", "a", body, options=named)
    except ApiError as error:
        return type(error), error.code, str(error), error.causes, named.warnings
    stored = await state.storage.get(served.key("x", "a"))
    order = json.dumps(written.tree)
    return order, written.created, None if stored is None else stored.value, named.warnings


async def both_ways(body: bytes, *, builtin: bool = False, kind: ServedResource | None = None, **options: Any) -> Any:
    """The outcome, and whether the fast path produced it; asserts that an asynchronous storage has the same outcome."""
    quick, served = make_state(kind)
    slow, _ = make_state(served, storage=SlowStorage())
    served = configmaps(quick) if builtin else served
    made = await outcome(quick, served, body, options)
    assert made == await outcome(slow, served, body, options)
    again, _ = make_state(served)
    try:
        fast = create_applied(again, served, "x", "a", body, options=WriteOptions("m", has_manager=True, **options))
    except ApiError:
        return made, True
    return made, fast is not None


PLAIN: list[Any] = [
    widget(),
    widget(spec={"color": "red"}),
    widget(spec={"items": [{"name": "b", "v": "1"}, {"name": "a"}], "free": {"z": {}, "y": [], "x": {"w": 1}}}),
    widget(namespace="x", labels={"b": "1", "a": ""}, annotations={"k": "v"}, finalizers=["b/c", "a/b", "plain"]),
    widget(ownerReferences=[OWNER]),
    widget(ownerReferences=[{**OWNER, "uid": "2", "controller": None}, OWNER]),
    widget(labels=None, annotations={}, creationTimestamp="2020-01-01T00:00:00Z", generation=7, selfLink="/a"),
    widget(generateName="b"),
    widget(unknown="dropped"),
]


@pytest.mark.parametrize("config", PLAIN, ids=range(len(PLAIN)))
async def test_the_fast_path_creates_a_custom_resource_like_the_general_path(config: Any) -> None:
    (_, created, *_), fast = await both_ways(json.dumps(config).encode())
    assert (created, fast) == (True, True)


async def test_the_fast_path_creates_a_builtin_object_like_the_general_path() -> None:
    config = {**CONFIG_MAP, "data": {"b": "1", "a": ""}, "binaryData": {}}
    (_, created, *_), fast = await both_ways(json.dumps(config).encode(), builtin=True)
    assert (created, fast) == (True, True)


async def test_the_fast_path_creates_a_kind_without_schema_like_the_general_path() -> None:
    kind = ServedResource(
        "g", "v1", "Any", "anies", "any", "AnyList", True, "v1", custom=True, rules=Rules(generation=False)
    )
    config = {"apiVersion": "g/v1", "kind": "Any", "metadata": {"name": "a", "labels": {"l": "1"}}, "b": {"c": None}}
    (_, created, *_), fast = await both_ways(json.dumps(config).encode(), kind=kind)
    assert (created, fast) == (True, True)


REFUSED: list[Any] = [
    widget(labels={"a": "not valid!"}),
    widget(labels=["no map"]),
    widget("b"),
    widget(namespace="other"),
    widget(uid="1"),
    widget(resourceVersion="1"),
    widget(managedFields=[{}]),
    widget(ownerReferences=[{**OWNER, "kind": "Event", "uid": ""}]),
    widget(ownerReferences=[OWNER, {**OWNER, "uid": "2"}]),
    widget(ownerReferences=[OWNER, OWNER]),
    widget(spec={"replicas": 11}),
    widget(spec={"unknown": 1}),
    widget(spec={"color": None}),
    widget(spec={"items": [{"name": "a"}, {"name": "a"}]}),
    widget(spec={"items": [{"v": "a"}]}),
    {**widget(), "kind": "Other"},
    {"apiVersion": "example.com/v1", "kind": "Widget"},
    {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": None},
    {**widget(), "metadata": 1},
]


@pytest.mark.parametrize("config", REFUSED, ids=range(len(REFUSED)))
async def test_the_fast_path_rejects_invalid_objects_like_the_general_path(config: Any) -> None:
    made, _ = await both_ways(json.dumps(config).encode())
    assert issubclass(made[0], ApiError)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"a":1}', b"apiVersion: example.com/v1", b"\xff", b"{a: b}"])
async def test_the_fast_path_rejects_other_kinds_like_the_general_path(body: bytes) -> None:
    made, _ = await both_ways(body)
    assert issubclass(made[0], ApiError)


@pytest.mark.parametrize(
    "options",
    [{"dry_run": True}, {"subresource": "status"}, {"subresource": "scale"}, {"duplicates": ("a",)}],
    ids=["dry run", "status", "scale", "duplicates"],
)
async def test_other_options_take_the_general_path(options: dict[str, Any]) -> None:
    _, fast = await both_ways(json.dumps(widget()).encode(), **options)
    assert not fast


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({**widget(), "status": {"ok": True}}).encode(),
        b" " + json.dumps(widget()).encode(),
        b"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n",
    ],
    ids=["status", "space", "yaml"],
)
async def test_other_bodies_take_the_general_path(body: bytes) -> None:
    (_, created, *_), fast = await both_ways(body)
    assert (created, fast) == (True, False)


def test_kubectl_existing_objects_and_asynchronous_storages_take_the_general_path() -> None:
    state, served = make_state()
    body, options = json.dumps(widget()).encode(), WriteOptions("m", has_manager=True)
    assert create_applied(state, served, "x", "a", body, options=WriteOptions("kubectl", has_manager=True)) is None
    assert create_applied(state, make_served(converts_by_webhook=True), "x", "a", body, options=options) is None
    assert create_applied(make_state(served, storage=SlowStorage())[0], served, "x", "a", body, options=options) is None
    assert create_applied(state, served, "x", "a", body, options=options) is not None
    assert create_applied(state, served, "x", "a", body, options=options) is None


@pytest.mark.parametrize("space", [None, SPACE.replace(b'"x"', b'"x","deletionTimestamp":"2026-01-01T00:00:00Z"')])
async def test_a_missing_or_terminating_namespace_rejects_an_apply(space: bytes | None) -> None:
    refusals: list[Any] = []
    for storage in (MemoryStorage(), SlowStorage()):
        state, served = make_state(storage=storage)
        item = await storage.get("/registry/core/namespaces/x")
        assert item is not None
        if space is None:
            await storage.delete(item.key, expected=None)
        else:
            await storage.put(item.key, space, expected=None)
        refusals.append(await outcome(state, served, json.dumps(widget()).encode(), {}))
    assert refusals[0] == refusals[1]
    assert issubclass(refusals[0][0], ApiError)


async def test_an_object_that_a_validator_creates_meanwhile_is_updated_instead() -> None:
    state, served = make_state()
    other = json.dumps(widget(spec={"color": "blue"})).encode()

    def validator(tree: Any, old: Any) -> list[Any]:
        if state.validators.pop(("example.com", "Widget"), None):
            options = WriteOptions("validator", has_manager=True)
            run_sync(apply_verb.apply(state, served, "x", "a", other, options=options))
        return []

    state.validators["example.com", "Widget"] = [validator]
    body = json.dumps(widget(spec={"replicas": 2})).encode()
    written = await apply_verb.apply(state, served, "x", "a", body, options=WriteOptions("m", has_manager=True))
    assert (written.created, written.tree["spec"]) == (False, {"color": "blue", "replicas": 2})


@settings(max_examples=60, deadline=None)
@given(maps(), maps(), some.booleans())
async def test_the_fast_path_and_the_general_path_agree_for_any_object(spec: Any, metadata: Any, known: bool) -> None:
    named = {"labels": metadata} if known else metadata
    await both_ways(json.dumps(widget(spec={"color": "red", "free": spec}, **named)).encode())
    await both_ways(json.dumps({**CONFIG_MAP, "data": spec}).encode(), builtin=True)
