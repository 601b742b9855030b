"""Creates and updates, on synchronous storages, asynchronous ones, and those with group commit."""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver.registry import strategy
from levelset.apiserver.registry.storage_codec import served_bytes
from levelset.apiserver.resources.served_resource import Rules, ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.apiserver.verbs import commit, create_and_update
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.errors import AlreadyExists, ApiError, BadRequest, Cause, Conflict, Forbidden, Invalid, NotFound
from levelset.http import Deferred, Headers, Request, Response
from levelset.objects import decode_tree, encode_tree
from levelset.storage import Item, MemoryStorage, SqliteStorage
from tests.apiserver.support.in_process_server import CONFIGMAPS, InProcessServer, configmap, open_server
from tests.apiserver.support.server_state import SlowStorage, configmaps, make_served, make_state, preload_kinds, widget

DRY = WriteOptions(dry_run=True)


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    preload_kinds()


async def make(state: ServerState, served: ServedResource, name: str = "a", **words: Any) -> Tree:
    return (await create_and_update.create(state, served, "x", widget(name, **words))).tree


async def stored(state: ServerState, served: ServedResource, name: str = "a") -> Any:
    item = await state.storage.get(served.key("x", name))
    return None if item is None else decode_tree(item.value)


async def test_a_created_object_is_stored_and_returned_with_its_resource_version() -> None:
    state, served = make_state()
    written = await create_and_update.create(state, served, "x", widget(spec={"color": "red"}), WriteOptions("me"))
    assert written.created
    assert written.item is not None
    assert written.tree["metadata"]["resourceVersion"] == str(written.item.revision)
    assert written.tree["spec"] == {"color": "red", "replicas": 1}
    assert written.tree["metadata"]["managedFields"][0]["manager"] == "me"
    assert decode_tree(served_bytes(served, written.item)) == written.tree


async def test_listeners_are_notified_of_every_write() -> None:
    state, served = make_state()
    events: list[tuple[Any, Any]] = []
    state.listeners.append(lambda _, before, after: events.append((before, after)))
    made = await make(state, served)
    await create_and_update.mutate(state, served, "x", "a", lambda tree: {**tree, "spec": {"color": "red"}})
    assert events[0] == (None, made)
    assert events[1][0]["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert events[1][1]["spec"] == {"color": "red"}


async def test_a_name_is_used_once() -> None:
    state, served = make_state()
    await make(state, served)
    for options in (WriteOptions(), DRY):
        with pytest.raises(AlreadyExists):
            await create_and_update.create(state, served, "x", widget(), options)


async def test_a_dry_run_create_stores_nothing_and_has_no_resource_version() -> None:
    state, served = make_state()
    written = await create_and_update.create(state, served, "x", widget(), DRY)
    assert (written.created, written.item) == (True, None)
    assert "resourceVersion" not in written.tree["metadata"]
    assert await stored(state, served) is None


async def test_a_dry_run_create_may_have_a_resource_version_and_returns_it() -> None:
    state, served = make_state()
    new = widget()
    new["metadata"]["resourceVersion"] = "5"
    written = await create_and_update.create(state, served, "x", new, WriteOptions(dry_run=True))
    assert written.tree["metadata"]["resourceVersion"] == "5"
    assert await stored(state, served) is None


async def test_nothing_is_created_in_a_missing_or_terminating_namespace() -> None:
    state, served = make_state()
    with pytest.raises(NotFound, match='namespaces "y" not found'):
        await create_and_update.create(state, served, "y", widget())
    namespaces = state.catalog.find("", "v1", "namespaces")
    assert namespaces is not None
    await create_and_update.mutate(state, namespaces, None, "x", marked)
    with pytest.raises(Forbidden) as caught:
        await create_and_update.create(state, served, "x", widget())
    assert [one.reason for one in caught.value.causes] == ["NamespaceTerminating"]


def marked(tree: Tree) -> Tree:
    tree["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    tree["metadata"]["finalizers"] = ["example.com/f"]
    return tree


async def test_an_annotation_named_like_the_deletion_timestamp_does_not_terminate_a_namespace() -> None:
    state, served = make_state()
    odd = b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x","annotations":{"deletionTimestamp":""}}}'
    await state.storage.put("/registry/core/namespaces/x", odd, expected=None)
    await make(state, served)


async def test_nothing_is_created_while_the_crd_is_terminating() -> None:
    state, served = make_state(make_served(terminating=True))
    with pytest.raises(Forbidden, match="terminating"):
        await make(state, served)


async def test_a_generated_name_is_unused() -> None:
    state, served = make_state()
    made = [await create_and_update.create(state, served, "x", widget("", generateName="g-")) for _ in range(50)]
    names = [one.tree["metadata"]["name"] for one in made]
    assert len(set(names)) == 50
    assert all(name.startswith("g-") and len(name) == 7 for name in names)


async def test_a_resource_version_in_a_new_object_is_rejected() -> None:
    state, served = make_state()
    with pytest.raises(ApiError, match="resourceVersion should not be set") as caught:
        await make(state, served, resourceVersion="5")
    assert (caught.value.code, caught.value.reason) == (500, "")


@pytest.mark.parametrize("version", ["0", "", "abc"])
async def test_a_resource_version_that_is_none_is_ignored_in_a_new_object(version: str) -> None:
    state, served = make_state()
    made = await make(state, served, resourceVersion=version)
    assert int(made["metadata"]["resourceVersion"]) > 0


async def test_all_causes_are_reported_together() -> None:
    state, served = make_state(
        make_served(rules=Rules(validate=lambda new, _: [Cause("spec", "FieldValueInvalid", "odd")]))
    )
    state.validators[("example.com", "Widget")] = [lambda new, _: [Cause("spec.x", "FieldValueForbidden", "no")]]
    with pytest.raises(Invalid) as caught:
        await make(state, served, "Not_Valid", spec={"replicas": 11}, labels={"a b": ""})
    fields = [one.field for one in caught.value.causes]
    assert fields == ["spec.replicas", "metadata.name", "metadata.labels", "spec", "spec.x"]


async def test_an_update_must_have_the_stored_resource_version() -> None:
    state, served = make_state()
    made = await make(state, served)
    newer = await create_and_update.update(state, served, "x", "a", {**made, "spec": {"color": "red"}})
    assert newer.tree["metadata"]["generation"] == 2
    with pytest.raises(Conflict):
        await create_and_update.update(state, served, "x", "a", {**made, "spec": {"color": "blue"}})
    with pytest.raises(Invalid) as caught:
        await create_and_update.update(state, served, "x", "a", widget())
    assert caught.value.details["kind"] == "widgets"


async def test_some_kinds_can_be_updated_without_a_resource_version() -> None:
    state, _ = make_state()
    kind = configmaps(state)
    await create_and_update.create(state, kind, "x", {"metadata": {"name": "a"}, "data": {"k": "1"}})
    written = await create_and_update.update(state, kind, "x", "a", {"metadata": {"name": "a"}, "data": {"j": "2"}})
    assert written.tree["data"] == {"j": "2"}


async def test_an_update_with_another_uid_is_a_conflict() -> None:
    state, _ = make_state()
    kind = configmaps(state)
    await create_and_update.create(state, kind, "x", {"metadata": {"name": "a"}})
    with pytest.raises(Conflict, match="UID"):
        await create_and_update.update(state, kind, "x", "a", {"metadata": {"name": "a", "uid": "other"}})


async def test_an_update_without_change_retains_the_resource_version_and_notifies_no_listener() -> None:
    state, served = make_state()
    made = await make(state, served, spec={"color": "red"})
    events: list[Any] = []
    state.listeners.append(lambda _, before, after: events.append((before, after)))
    written = await create_and_update.update(state, served, "x", "a", made, options=WriteOptions("another manager"))
    assert written.tree == made
    assert events == []


async def test_metadata_and_status_do_not_change_the_generation() -> None:
    state, served = make_state()
    made = await make(state, served)
    labelled = {**made, "metadata": {**made["metadata"], "labels": {"l": "1"}}}
    tree = (await create_and_update.update(state, served, "x", "a", labelled)).tree
    status = WriteOptions(subresource="status")
    tree = (
        await create_and_update.update(state, served, "x", "a", {**tree, "status": {"ok": True}}, options=status)
    ).tree
    assert (tree["metadata"]["generation"], tree["status"]) == (1, {"ok": True})


async def test_a_dry_run_update_returns_the_result_with_the_old_resource_version() -> None:
    state, served = make_state()
    made = await make(state, served)
    written = await create_and_update.update(state, served, "x", "a", {**made, "spec": {"color": "red"}}, options=DRY)
    assert written.tree["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert "spec" not in await stored(state, served)


async def test_some_kinds_can_be_created_by_an_update() -> None:
    state, served = make_state(make_served(rules=Rules(create_on_update=True)))
    written = await create_and_update.update(state, served, "x", "a", widget())
    assert written.created


async def test_an_update_of_a_missing_object_is_not_found() -> None:
    state, served = make_state()
    with pytest.raises(NotFound):
        await create_and_update.update(state, served, "x", "a", widget(resourceVersion="1"))


async def test_an_update_that_removes_the_last_finalizer_removes_a_terminating_object() -> None:
    state, served = make_state()
    await make(state, served)
    await create_and_update.mutate(state, served, "x", "a", marked)
    tree = await create_and_update.mutate(state, served, "x", "a", lambda tree: tree)
    assert tree is not None
    tree["metadata"]["finalizers"] = []
    written = await create_and_update.update(state, served, "x", "a", tree)
    assert written.item is None
    assert await stored(state, served) is None


async def test_a_kind_can_hold_a_terminating_object_without_finalizers() -> None:
    state, served = make_state(make_served(rules=Rules(held=lambda tree: True)))
    await make(state, served)
    await create_and_update.mutate(state, served, "x", "a", marked)
    await create_and_update.mutate(
        state, served, "x", "a", lambda tree: {**tree, "metadata": {**tree["metadata"], "finalizers": []}}
    )
    assert await stored(state, served) is not None


async def test_mutate_writes_nothing_without_a_change() -> None:
    state, served = make_state()
    made = await make(state, served)
    assert await create_and_update.mutate(state, served, "x", "a", lambda tree: None) == made
    assert await create_and_update.mutate(state, served, "x", "a", lambda tree: tree) == made
    assert await create_and_update.mutate(state, served, "x", "none", lambda tree: tree) is None


async def test_concurrent_updates_are_all_applied() -> None:
    state, served = make_state(storage=SlowStorage())
    await make(state, served)

    def note(number: int, tree: Tree) -> Tree:
        tree["metadata"].setdefault("annotations", {})[f"n{number}"] = ""
        return tree

    await asyncio.gather(
        *[create_and_update.mutate(state, served, "x", "a", partial(note, number)) for number in range(8)]
    )
    assert len((await stored(state, served))["metadata"]["annotations"]) == 8


async def test_concurrent_updates_from_their_sources_are_all_made() -> None:
    state, _ = make_state(storage=SlowStorage())
    served = configmaps(state)
    made = await create_and_update.create(state, served, "x", {"metadata": {"name": "a"}, "data": {"j": "0"}})
    sources = [encode_tree({"metadata": {"name": "a"}, "data": {"j": str(number)}}) for number in range(1, 5)]
    update = create_and_update.update
    written = await asyncio.gather(
        *[update(state, served, "x", "a", decode_tree(source), source=source) for source in sources]
    )
    assert [one.tree["data"] for one in written] == [{"j": "1"}, {"j": "2"}, {"j": "3"}, {"j": "4"}]
    assert len({one.tree["metadata"]["resourceVersion"] for one in written}) == 4
    assert {one.tree["metadata"]["uid"] for one in written} == {made.tree["metadata"]["uid"]}


async def test_of_concurrent_creates_one_succeeds() -> None:
    state, served = make_state(storage=SlowStorage())
    made = await asyncio.gather(*[make(state, served) for _ in range(4)], return_exceptions=True)
    assert [type(one) for one in made].count(AlreadyExists) == 3


async def test_an_object_that_is_nested_too_deeply_is_a_bad_request() -> None:
    state, served = make_state()
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(BadRequest):
        await make(state, served, spec={"free": deep})


async def test_an_update_is_retried_if_its_change_wrote_in_between() -> None:
    state, served = make_state()
    await make(state, served)
    key, seen = served.key("x", "a"), list[str]()

    def change(old: Tree, item: Item) -> strategy.PreparedUpdate:
        seen.append(old["metadata"]["resourceVersion"])
        if len(seen) == 1:
            assert isinstance(state.storage, MemoryStorage)
            state.storage.put_nowait(key, item.value, expected=None)
        return strategy.PreparedUpdate({**old, "spec": {"color": "red"}}, changed=True)

    written = await create_and_update.guaranteed_update(state, served, "x", "a", change, options=WriteOptions())
    assert seen == ["2", "3"]
    assert (written.tree["metadata"]["resourceVersion"], written.item is not None) == ("4", True)


async def test_a_change_of_unstored_fields_writes_nothing() -> None:
    state, served = make_state()
    await make(state, served)
    events: list[Any] = []
    state.listeners.append(lambda *change: events.append(change))

    def change(old: Tree, _: Item) -> strategy.PreparedUpdate:
        return strategy.PreparedUpdate({**old, "metadata": {**old["metadata"], "resourceVersion": "1"}}, changed=True)

    written = await create_and_update.guaranteed_update(state, served, "x", "a", change, options=WriteOptions())
    assert (written.tree["metadata"]["resourceVersion"], events) == ("2", [])


async def test_the_object_size_is_limited() -> None:
    state, served = make_state()
    await make(state, served)

    def change(old: Tree, _: Item) -> strategy.PreparedUpdate:
        return strategy.PreparedUpdate({**old, "spec": {"color": "r" * commit.MAX_OBJECT_BYTES}}, changed=True)

    with pytest.raises(ApiError, match="too large"):
        await create_and_update.guaranteed_update(state, served, "x", "a", change, options=WriteOptions())


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[InProcessServer]:
    async with await SqliteStorage.open(tmp_path / "data.db") as storage, open_server(storage) as api:
        # Two writes: a single one may be committed, and its response available, when the call returns.
        await asyncio.gather(*(storage.put(f"/other/{number}", b"", expected=0) for number in range(2)))
        yield api


def begin(api: InProcessServer, method: str, path: str, body: Any = None, *, query: str = "", **headers: str) -> Any:
    named = Headers({name.replace("_", "-"): value for name, value in headers.items()})
    data = b"" if body is None else json.dumps(body).encode()
    return api.server.handle(Request(method, path, query, named, data, api.server.owner))


async def test_single_object_writes_create_no_task(api: InProcessServer) -> None:
    before = asyncio.all_tasks()
    merge = {"content_type": "application/merge-patch+json"}
    for method, path, body, headers, status in (
        ("POST", CONFIGMAPS, configmap("a"), {}, 201),
        ("PUT", f"{CONFIGMAPS}/a", configmap("a", labels={"k": "2"}), {}, 200),
        ("PATCH", f"{CONFIGMAPS}/a", {"data": {"k": "3"}}, merge, 200),
        ("DELETE", f"{CONFIGMAPS}/a", None, {}, 200),
    ):
        made = begin(api, method, path, body, **headers)
        assert isinstance(made, Deferred)
        assert asyncio.all_tasks() == before
        assert (await made).status == status


async def test_a_write_without_change_responds_without_a_commit(api: InProcessServer) -> None:
    await api.create(CONFIGMAPS, configmap("a"))
    made = begin(api, "PATCH", f"{CONFIGMAPS}/a", {}, content_type="application/merge-patch+json")
    assert isinstance(made, Response)
    assert made.status == 200


async def test_a_conflict_after_a_commit_is_reported(api: InProcessServer) -> None:
    responses = [begin(api, "POST", CONFIGMAPS, configmap("a")) for _ in range(3)]
    assert sorted([(await one).status for one in responses]) == [201, 409, 409]


async def test_an_invalid_write_is_rejected_without_waiting(api: InProcessServer) -> None:
    made = begin(api, "POST", CONFIGMAPS, configmap("A!"))
    assert isinstance(made, Response)
    assert made.status == 422


async def test_a_write_with_a_timeout_times_out(api: InProcessServer) -> None:
    made = begin(api, "POST", CONFIGMAPS, configmap("a"), query="timeout=30s")
    assert not isinstance(made, Deferred)
    assert (await made).status == 201


async def test_a_write_in_flight_cannot_be_cancelled(api: InProcessServer) -> None:
    events: list[Any] = []
    api.server.state.listeners.append(lambda _, __, after: events.append(after and after["metadata"]["name"]))
    made = begin(api, "POST", CONFIGMAPS, configmap("a"))
    assert not made.cancel()
    assert ((await made).status, events) == (201, ["a"])
