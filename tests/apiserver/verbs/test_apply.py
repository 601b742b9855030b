"""Server-side apply: of a new object, and of one that exists."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from levelset.apiserver.resources.served_resource import Rules, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.schema import compile_schema
from levelset.apiserver.verbs import create_and_update, patch
from levelset.apiserver.verbs.create_and_update import WriteResult
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.errors import ApiError, ApplyConflict, BadRequest, Conflict, Forbidden, Invalid, NotFound
from levelset.patch import resource_shape
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


async def test_a_field_that_the_schema_does_not_have_is_reported_before_a_conflict() -> None:
    state, served = make_state()
    await apply(state, served, widget(spec={"color": "red"}))
    with pytest.raises(ApiError, match=r"spec\.odd"):
        await apply(state, served, widget(spec={"color": "blue", "odd": 1}), "m2")


async def test_a_list_in_place_of_a_quantity_is_reported_before_a_conflict() -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}
    state, served = make_state(make_served(schema=lambda: compile_schema(schema)))
    await apply(state, served, widget(spec={"a": "x"}))
    with pytest.raises(ApiError, match=r"spec\.a: expected string"):
        await apply(state, served, widget(spec={"a": []}), "m2")


async def test_a_conflict_comes_before_another_namespace() -> None:
    state, served = make_state()
    await apply(state, served, widget(spec={"color": "red"}))
    elsewhere = widget(spec={"color": "blue"})
    elsewhere["metadata"]["namespace"] = "other"
    with pytest.raises(ApplyConflict):
        await apply(state, served, elsewhere, "m2")
    with pytest.raises(BadRequest, match="does not match the namespace"):
        await apply(state, served, elsewhere, "m2", force=True)


async def test_a_whole_number_with_a_fraction_is_applied_as_an_integer() -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "number"}}}}}
    state, served = make_state(make_served(schema=lambda: compile_schema(schema)))
    for number, written in ((1.0, 1), (1e10, 10**10), (0.5, 0.5), (1e30, 1e30)):
        found = (await apply(state, served, widget(spec={"a": number}))).tree["spec"]["a"]
        assert (found, type(found)) == (written, type(written))


async def test_a_uid_that_no_object_has_comes_before_another_namespace() -> None:
    state, served = make_state()
    elsewhere = widget(spec={"color": "blue"})
    elsewhere["metadata"] |= {"namespace": "other", "uid": "u"}
    with pytest.raises(Conflict, match="uid mismatch"):
        await apply(state, served, elsewhere)


@pytest.mark.parametrize("as_yaml", [False, True])
async def test_a_field_that_the_schema_does_not_have_cannot_be_applied_to_an_object_that_exists(as_yaml: bool) -> None:
    state, served = make_state()
    await apply(state, served, widget(spec={"color": "red"}))
    body = b"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {odd: 1}\n"
    with pytest.raises(ApiError, match=r"spec\.odd"):
        await apply(state, served, body if as_yaml else widget(spec={"odd": 1}))


async def test_a_null_that_the_schema_drops_cannot_be_applied_where_the_object_has_a_value() -> None:
    state, served = make_state()
    await apply(state, served, widget(spec={"color": "red", "free": {"a": 1}}))
    with pytest.raises(Invalid, match="must be of type object"):
        await apply(state, served, widget(spec={"color": "red", "free": None}))


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
ANY = ServedResource("g", "v1", "Any", "anies", "any", "AnyList", True, "v1", custom=True, rules=Rules())


@pytest.fixture(scope="module", autouse=True)
def _kinds() -> None:
    preload_kinds()


async def check_applied_twice(state: ServerState, served: ServedResource, config: Any) -> WriteResult:
    """Creates the object, and asserts that applying the same to the existing one, byte by byte, changes nothing."""
    first = await apply(state, served, config)
    stored = await state.storage.get(served.key("x", "a"))
    assert first.created
    assert first.item is stored
    second = await apply(state, served, config)
    assert (second.created, second.item, json.dumps(second.tree)) == (False, stored, json.dumps(first.tree))
    return first


PLAIN: list[Any] = [
    widget(),
    widget(spec={"color": "red"}),
    widget(spec={"items": [{"name": "b", "v": "1"}, {"name": "a"}], "free": {"z": {}, "y": [], "x": {"w": 1}}}),
    widget(namespace="x", labels={"b": "1", "a": ""}, annotations={"k": "v"}, finalizers=["b/c", "a/b", "plain"]),
    widget(ownerReferences=[OWNER]),
    widget(ownerReferences=[{**OWNER, "uid": "2", "controller": None}, OWNER]),
    widget(labels=None, annotations={}, creationTimestamp="2020-01-01T00:00:00Z", generation=7, selfLink="/a"),
    widget(generateName="b"),
    {**widget(), "status": {"ok": True}},
    b" " + json.dumps(widget(spec={"color": "red"})).encode(),
    b"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {color: red}\n",
]


@pytest.mark.parametrize("config", PLAIN, ids=range(len(PLAIN)))
async def test_applying_what_created_a_custom_resource_changes_nothing(config: Any) -> None:
    state, served = make_state()
    written = await check_applied_twice(state, served, config)
    assert "status" not in written.tree


async def test_applying_what_created_a_builtin_object_changes_nothing() -> None:
    state, _ = make_state()
    config = {**CONFIG_MAP, "data": {"b": "1", "a": ""}}
    written = await check_applied_twice(state, configmaps(state), config)
    assert fields_of(written) == {"m1": {"f:data": {"f:a": {}, "f:b": {}}}}


async def test_applying_what_created_an_object_without_schema_changes_nothing() -> None:
    state, _ = make_state()
    config = {"apiVersion": "g/v1", "kind": "Any", "metadata": {"name": "a", "labels": {"l": "1"}}, "b": {"c": None}}
    written = await check_applied_twice(state, ANY, config)
    owned = {"f:b": {".": {}, "f:c": {}}, "f:metadata": {"f:labels": {".": {}, "f:l": {}}}}
    assert fields_of(written) == {"m1": owned}


async def test_kubectl_may_create_an_object_by_applying() -> None:
    state, served = make_state()
    first = await apply(state, served, widget(spec={"color": "red"}), "kubectl")
    assert (await apply(state, served, widget(spec={"color": "red"}), "kubectl")).tree == first.tree
    assert fields_of(first) == {"kubectl": {"f:spec": {"f:color": {}}}}


@settings(max_examples=60, deadline=None)
@given(maps(), maps(), some.booleans())
async def test_applying_what_created_any_object_changes_nothing(spec: Any, metadata: Any, known: bool) -> None:
    named = {"labels": metadata} if known else metadata
    state, served = make_state()
    for kind, config in (
        (served, widget(spec={"color": "red", "free": spec}, **named)),
        (configmaps(state), {**CONFIG_MAP, "data": spec}),
        (ANY, {"apiVersion": "g/v1", "kind": "Any", "metadata": {"name": "a"}, **spec}),
    ):
        with suppress(ApiError):
            await check_applied_twice(state, kind, config)


REFUSED: list[tuple[Any, type[ApiError], str]] = [
    (widget(labels={"a": "not valid!"}), Invalid, "metadata.labels"),
    (widget(labels=["no map"]), ApiError, "failed to create typed patch object"),
    (widget("b"), BadRequest, "does not match the name on the URL"),
    (widget(namespace="other"), BadRequest, "namespace of the provided object"),
    (widget(uid="1"), Conflict, "uid mismatch"),
    (widget(managedFields=[{}]), BadRequest, "managedFields must be nil"),
    (
        widget(ownerReferences=[{**OWNER, "kind": "Event", "uid": ""}]),
        Invalid,
        "must not be empty",
    ),
    (widget(ownerReferences=[OWNER, {**OWNER, "uid": "2"}]), Invalid, "Only one reference can have Controller"),
    (widget(ownerReferences=[OWNER, OWNER]), ApiError, "duplicate entries for key"),
    (widget(spec={"replicas": 11}), Invalid, "spec.replicas"),
    (widget(spec={"unknown": 1}), ApiError, r"Kind=Widget\): \.spec\.unknown: field not declared in schema"),
    (widget(spec={"color": None}), Invalid, "spec.color: .*must be of type string"),
    (widget(spec={"unknown": 1, "color": None, "replicas": 11}), ApiError, r"\.spec\.unknown: field not declared"),
    (widget(spec={"items": [{"name": "a"}, {"name": "a"}]}), ApiError, "failed to create typed patch object"),
    (widget(spec={"items": [{"v": "a"}]}), ApiError, "failed to create typed patch object"),
    (widget(unknown="x"), ApiError, r"Kind=Widget\): \.metadata\.unknown: field not declared in schema"),
    ({**widget(), "kind": "Other"}, BadRequest, "invalid object type: example.com/v1, Kind=Other"),
    ({"apiVersion": "example.com/v1", "kind": "Widget"}, BadRequest, "name must be provided"),
    ({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": None}, BadRequest, "name must be provided"),
    ({**widget(), "metadata": 1}, ApiError, r"\.metadata: expected map, got &{1}"),
    ({**widget(), "status": 1, "spec": {"bogus": 1}}, ApiError, r"\.spec\.bogus: field not declared"),
]


@pytest.mark.parametrize(("config", "kind", "text"), REFUSED, ids=range(len(REFUSED)))
async def test_an_invalid_object_is_not_created(config: Any, kind: type[ApiError], text: str) -> None:
    state, served = make_state()
    before = state.storage.revision
    with pytest.raises(kind, match=text) as caught:
        await apply(state, served, config)
    assert (type(caught.value) is kind or kind is BadRequest, state.storage.revision) == (True, before)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"a":1}', b"apiVersion: example.com/v1", b"\xff", b"{a: b}"])
async def test_a_body_that_is_no_object_of_the_kind_is_rejected(body: bytes) -> None:
    state, served = make_state()
    with pytest.raises(BadRequest):
        await apply(state, served, body)


async def test_unknown_fields_of_an_ignored_status_are_a_bad_request() -> None:
    schema = {"type": "object", "properties": {"status": {"type": "object", "properties": {"ok": {"type": "boolean"}}}}}
    compiled, shape = compile_schema(schema), resource_shape(schema)
    state, served = make_state(make_served(schema=lambda: compiled, shape=lambda: shape, scale=None))
    with pytest.raises(ApiError, match=r"\.status\.bogus: field not declared"):
        await apply(state, served, {**widget(), "status": {"bogus": 1}})
    assert (await apply(state, served, {**widget(), "status": {"ok": True}})).created


async def test_a_default_of_the_status_is_not_stored() -> None:
    status = {"type": "object", "default": {}, "properties": {"phase": {"type": "string", "default": "New"}}}
    compiled, shape = (
        make({"type": "object", "properties": {"status": status}}) for make in (compile_schema, resource_shape)
    )
    state, served = make_state(make_served(schema=lambda: compiled, shape=lambda: shape, scale=None))
    written = await apply(state, served, widget())
    assert written.item is not None
    assert "status" not in json.loads(written.item.value)


@pytest.mark.parametrize("space", [None, SPACE.replace(b'"x"', b'"x","deletionTimestamp":"2026-01-01T00:00:00Z"')])
async def test_a_missing_or_terminating_namespace_rejects_an_apply(space: bytes | None) -> None:
    state, served = make_state()
    if space is None:
        await state.storage.delete("/registry/core/namespaces/x", expected=None)
    else:
        await state.storage.put("/registry/core/namespaces/x", space, expected=None)
    with pytest.raises(NotFound if space is None else Forbidden):
        await apply(state, served, widget())


async def test_an_object_that_a_validator_creates_meanwhile_is_updated_instead() -> None:
    state, served = make_state()
    item = (await apply(make_state(served)[0], served, widget(spec={"color": "blue"}), "other")).item

    def validator(tree: Any, old: Any) -> list[Any]:
        if state.validators.pop(("example.com", "Widget"), None):
            assert item is not None
            assert isinstance(state.storage, MemoryStorage)
            state.storage.put_nowait(item.key, item.value, expected=0)
        return []

    state.validators["example.com", "Widget"] = [validator]
    written = await apply(state, served, widget(spec={"replicas": 2}))
    assert (written.created, written.tree["spec"]) == (False, {"color": "blue", "replicas": 2})
    assert fields_of(written) == {"other": {"f:spec": {"f:color": {}}}, "m1": {"f:spec": {"f:replicas": {}}}}
