import asyncio
import json
from typing import Any

import pytest

from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.apiserver.schema import compile_schema
from levelset.apiserver.verbs import create_and_update, delete
from levelset.apiserver.verbs import patch as patching
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.errors import ApiError, BadRequest, Conflict, Invalid, NotFound
from tests.apiserver.support.server_state import SlowStorage, configmaps, make_served, make_state, preload_kinds, widget

JSON, MERGE = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    preload_kinds()


async def patch(state: ServerState, served: ServedResource, body: Any, media: str = MERGE, **options: Any) -> Tree:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    settings = WriteOptions(**options)
    return (await patching.patch(state, served, "x", "a", media=media, body=raw, options=settings)).tree


async def start(**words: Any) -> tuple[ServerState, ServedResource, Tree]:
    state, served = make_state()
    return state, served, (await create_and_update.create(state, served, "x", widget(**words))).tree


async def test_a_merge_patch_adds_changes_and_removes() -> None:
    state, served, _ = await start(spec={"color": "red", "free": {"a": 1}}, labels={"l": "1"})
    tree = await patch(state, served, {"metadata": {"labels": None}, "spec": {"color": None, "free": {"b": 2}}})
    assert tree["spec"] == {"replicas": 1, "free": {"a": 1, "b": 2}}
    assert "labels" not in tree["metadata"]


async def test_a_json_patch_is_all_or_nothing() -> None:
    state, served, made = await start(spec={"color": "red"})
    operations = [
        {"op": "replace", "path": "/spec/color", "value": "blue"},
        {"op": "test", "path": "/spec/color", "value": "x"},
    ]
    with pytest.raises(Invalid) as caught:
        await patch(state, served, operations, JSON)
    assert (caught.value.details, caught.value.causes) == ({}, ())
    assert await patch(state, served, [], JSON) == made


async def test_a_json_patch_can_test_the_resource_version() -> None:
    state, served, made = await start()
    version = made["metadata"]["resourceVersion"]
    operations = [{"op": "test", "path": "/metadata/resourceVersion", "value": version}]
    assert await patch(state, served, operations, JSON) == made


async def test_a_strategic_patch_merges_by_key_in_built_in_kinds_only() -> None:
    state, served, _ = await start()
    kind = configmaps(state)
    await create_and_update.create(state, kind, "x", {"metadata": {"name": "a", "finalizers": ["e.x/a"]}})
    tree = await patch(state, kind, {"metadata": {"finalizers": ["e.x/b"]}}, STRATEGIC)
    assert sorted(tree["metadata"]["finalizers"]) == ["e.x/a", "e.x/b"]
    with pytest.raises(ApiError) as caught:
        await patch(state, served, {}, STRATEGIC)
    assert caught.value.code == 415


async def test_a_resource_version_in_a_patch_must_be_the_stored_one() -> None:
    state, served, made = await start()
    version = made["metadata"]["resourceVersion"]
    await patch(state, served, {"metadata": {"resourceVersion": version}, "spec": {"color": "red"}})
    with pytest.raises(Conflict):
        await patch(state, served, {"metadata": {"resourceVersion": version}, "spec": {"color": "blue"}})


async def test_concurrent_patches_all_succeed_and_none_is_lost() -> None:
    state, served = make_state(storage=SlowStorage())
    await create_and_update.create(state, served, "x", widget(spec={}))
    await asyncio.gather(*[patch(state, served, {"spec": {"free": {f"k{number}": number}}}) for number in range(8)])
    tree = await patch(state, served, {})
    assert (len(tree["spec"]["free"]), tree["metadata"]["generation"]) == (8, 9)


@pytest.mark.parametrize(
    ("media", "body"), [(JSON, b"{}"), (JSON, b"[{]"), (JSON, b"[1]"), (MERGE, b"[]"), (MERGE, b"x")]
)
async def test_a_malformed_patch_is_a_bad_request(media: str, body: bytes) -> None:
    state, served, _ = await start()
    with pytest.raises(BadRequest):
        await patch(state, served, body, media)


@pytest.mark.parametrize(
    "operation", [{"op": "frobnicate", "path": "/a"}, {"op": "remove"}, {"op": "add", "path": "data"}]
)
async def test_a_malformed_operation_is_invalid(operation: Any) -> None:
    state, served, _ = await start()
    with pytest.raises(Invalid):
        await patch(state, served, [operation], JSON)


async def test_too_many_operations_are_too_large() -> None:
    state, served, _ = await start()
    with pytest.raises(ApiError) as caught:
        await patch(state, served, [{"op": "test", "path": "", "value": 1}] * 10_001, JSON)
    assert caught.value.code == 413


@pytest.mark.parametrize(
    ("media", "body"),
    [
        (JSON, [{"op": "replace", "path": "/data", "value": "text"}]),
        (JSON, [{"op": "replace", "path": "/kind", "value": "Secret"}]),
        (JSON, [{"op": "replace", "path": "", "value": [1]}]),
        (MERGE, {"metadata": {"labels": {"l": 1}}}),
    ],
)
async def test_a_result_of_another_kind_is_an_invalid_patch(media: str, body: Any) -> None:
    state, _, _ = await start()
    kind = configmaps(state)
    await create_and_update.create(state, kind, "x", {"metadata": {"name": "a"}, "data": {"k": "v"}})
    with pytest.raises(Invalid) as caught:
        await patch(state, kind, body, media)
    assert [one.field for one in caught.value.causes] == ["patch"]


async def test_name_and_namespace_cannot_be_patched() -> None:
    state, served, _ = await start()
    for metadata in ({"name": "b"}, {"namespace": "y"}):
        with pytest.raises(BadRequest):
            await patch(state, served, {"metadata": metadata})


async def test_duplicate_fields_in_a_patch_are_reported() -> None:
    state, served, _ = await start()
    body = b'{"spec":{"color":"red","color":"blue"}}'
    warnings: list[str] = []
    await patch(state, served, body, warnings=warnings)
    assert warnings == ['duplicate field "spec.color"']
    with pytest.raises(Invalid):
        await patch(state, served, body, validation="Strict")


async def test_force_is_for_apply_only() -> None:
    state, served, _ = await start()
    with pytest.raises(Invalid) as caught:
        await patch(state, served, {}, force=False)
    assert [(one.field, one.reason) for one in caught.value.causes] == [("force", "FieldValueForbidden")]


async def test_a_missing_object_cannot_be_patched() -> None:
    state, served = make_state()
    with pytest.raises(NotFound):
        await patch(state, served, {})


async def test_the_status_is_patched_through_its_subresource() -> None:
    state, served, _ = await start(spec={"color": "red"})
    tree = await patch(state, served, {"status": {"ok": True}, "spec": {"color": "blue"}}, subresource="status")
    assert (tree["spec"]["color"], tree["status"], tree["metadata"]["generation"]) == ("red", {"ok": True}, 1)
    assert {one.get("subresource") for one in tree["metadata"]["managedFields"]} == {None, "status"}
    assert (await patch(state, served, {"status": None}))["status"] == {"ok": True}


OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
STATUSES: list[Any] = [
    {"status": {"ready": 2}},
    {"status": {"ready": 2}, "metadata": {"resourceVersion": "3"}},
    {"status": {"ready": 2}, "metadata": {"resourceVersion": "2"}},
    {"status": {"ready": 2}, "metadata": {"resourceVersion": ""}},
    {"status": {"ready": 1, "list": [{"a": None}]}, "metadata": {}},
    {"status": {"ready": 1}},
    {"status": {"ready": None, "deep": {"x": 1}}},
    {"status": None},
    {"status": 5},
    {},
    {"metadata": None, "status": {"ready": 3}},
    {"metadata": {"labels": {"l": "2"}}, "status": {"ready": 3}},
    {"metadata": {"resourceVersion": 3}, "status": {"ready": 3}},
    {"metadata": {"managedFields": []}, "status": {"ready": 3}},
    {"spec": {"color": "blue"}, "status": {"ready": 3}},
    {"spec": {"replicas": 11}, "status": {"ready": 3}},
    {"kind": "Other", "status": {"ready": 3}},
]


@pytest.mark.parametrize("body", STATUSES, ids=repr)
@pytest.mark.parametrize("is_tracked", [True, False])
async def test_a_status_only_patch_equals_a_general_patch(
    monkeypatch: pytest.MonkeyPatch, body: Any, is_tracked: bool
) -> None:
    quick = await outcome_of_status(body, is_tracked=is_tracked)
    monkeypatch.setattr(patching, "_is_only_status", lambda *_: False)
    assert await outcome_of_status(body, is_tracked=is_tracked) == quick


async def outcome_of_status(body: Any, *, is_tracked: bool) -> tuple[Any, ...]:
    """The result of a status patch, the stored object, and the events of the listeners."""
    state, served, _ = await start(labels={"l": "1"}, ownerReferences=[OWNER], finalizers=["e.x/a"])
    old = await patch(state, served, {"status": {"ready": 1, "deep": {"y": []}}}, subresource="status")
    key = served.key("x", "a")
    if not is_tracked:
        del old["metadata"]["managedFields"], old["metadata"]["resourceVersion"]
        await state.storage.put(key, json.dumps(old, separators=(",", ":")).encode(), expected=None)
        body = json.loads(json.dumps(body).replace('"3"', '"4"'))
    events: list[Any] = []
    state.listeners.append(lambda _served, before, after: events.append(json.dumps([before, after])))
    raw, options = json.dumps(body).encode(), WriteOptions("m", subresource="status")
    try:
        written = await patching.patch(state, served, "x", "a", media=MERGE, body=raw, options=options)
        result: Any = written.tree
    except ApiError as error:
        result = (type(error), str(error), error.causes)
    return result, await state.storage.get(key), events, options.warnings


async def test_a_patched_status_is_validated_by_the_schema() -> None:
    numbers = {"type": "object", "properties": {"n": {"type": "integer"}, "m": {"type": "integer", "default": 7}}}
    schema = compile_schema({"type": "object", "properties": {"status": numbers}})
    state, served = make_state(make_served(schema=lambda: schema))
    await create_and_update.create(state, served, "x", widget())
    tree = await patch(state, served, {"status": {"n": 1, "unknown": 1}}, subresource="status")
    assert tree["status"] == {"n": 1, "m": 7}
    with pytest.raises(Invalid, match=r"status\.n"):
        await patch(state, served, {"status": {"n": "one"}}, subresource="status")


@pytest.mark.parametrize("body", [{"status": {"n": 1}}, {"status": {}}, {}], ids=repr)
async def test_a_default_added_to_an_old_status_belongs_to_the_manager_of_the_patch(body: Any) -> None:
    # Stored through another version, which does not have this default.
    inner = {"type": "object", "properties": {"e": {"type": "integer", "default": 7}}}
    status = {"type": "object", "properties": {"n": {"type": "integer"}, "nest": inner}}
    schema = compile_schema({"type": "object", "properties": {"status": status}})
    state, served = make_state(make_served(schema=lambda: schema))
    made = (await create_and_update.create(state, served, "x", widget(labels={"l": "1"}))).tree
    del made["metadata"]["resourceVersion"]
    stored = json.dumps({**made, "status": {"nest": {}}}, separators=(",", ":")).encode()
    item = await state.storage.put(served.key("x", "a"), stored, expected=None)
    tree = await patch(state, served, body, subresource="status")
    assert tree["status"]["nest"] == {"e": 7}
    assert tree["metadata"]["resourceVersion"] != str(item.revision)
    (entry,) = [one for one in tree["metadata"]["managedFields"] if one.get("subresource") == "status"]
    assert entry["fieldsV1"]["f:status"]["f:nest"] == {"f:e": {}}


def test_a_converted_object_is_decoded_completely_before_its_status_is_patched() -> None:
    served = make_served(convert=lambda tree, wanted: {**tree, "apiVersion": wanted})
    assert not patching._is_only_status(served, {"status": {}}, WriteOptions(subresource="status"))
    assert patching._is_only_status(make_served(), {"status": {}}, WriteOptions(subresource="status"))
    assert not patching._is_only_status(make_served(), {"status": {}}, WriteOptions())


async def test_a_dry_run_patch_stores_nothing() -> None:
    state, served, made = await start()
    dry = WriteOptions(dry_run=True)
    body = b'{"spec":{"color":"red"}}'
    written = await patching.patch(state, served, "x", "a", media=MERGE, body=body, options=dry)
    assert (written.item, written.tree["spec"]["color"]) == (None, "red")
    assert (await patch(state, served, {})) == made
    with pytest.raises(NotFound):
        await patching.patch(state, served, "x", "b", media=MERGE, body=body, options=WriteOptions())


async def test_a_patch_of_the_last_finalizer_removes_a_terminating_object() -> None:
    state, served, _ = await start(finalizers=["e.x/a"])
    await delete.delete(state, served, "x", "a")
    body, options = b'{"metadata":{"finalizers":null}}', WriteOptions()
    written = await patching.patch(state, served, "x", "a", media=MERGE, body=body, options=options)
    assert written.item is None
    assert await state.storage.get(served.key("x", "a")) is None
