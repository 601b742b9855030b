import asyncio
from copy import deepcopy
from functools import partial
from typing import Any

import pytest

from levelset.apiserver.registry import strategy
from levelset.apiserver.registry.storage_codec import served_bytes
from levelset.apiserver.resources.served_resource import Rules, ServedResource
from levelset.apiserver.resources.server_state import Tree, World
from levelset.apiserver.verbs import create_and_update
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.errors import AlreadyExists, ApiError, BadRequest, Cause, Conflict, Forbidden, Invalid, NotFound
from levelset.objects import decode_tree
from levelset.storage import Item
from tests.apiserver.writes import SlowStorage, configmaps, make_served, make_world, preload_kinds, widget

DRY = WriteOptions(dry_run=True)


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    preload_kinds()


async def make(world: World, served: ServedResource, name: str = "a", **words: Any) -> Tree:
    return (await create_and_update.create(world, served, "x", widget(name, **words))).tree


async def stored(world: World, served: ServedResource, name: str = "a") -> Any:
    item = await world.storage.get(served.key("x", name))
    return None if item is None else decode_tree(item.value)


async def test_a_created_object_is_stored_and_answered_with_its_version() -> None:
    world, served = make_world()
    written = await create_and_update.create(world, served, "x", widget(spec={"color": "red"}), WriteOptions("me"))
    assert written.created
    assert written.item is not None
    assert written.tree["metadata"]["resourceVersion"] == str(written.item.revision)
    assert written.tree["spec"] == {"color": "red", "replicas": 1}
    assert written.tree["metadata"]["managedFields"][0]["manager"] == "me"
    assert decode_tree(served_bytes(served, written.item)) == written.tree


async def test_listeners_hear_of_every_write() -> None:
    world, served = make_world()
    heard: list[tuple[Any, Any]] = []
    world.listeners.append(lambda _, before, after: heard.append((before, after)))
    made = await make(world, served)
    await create_and_update.mutate(world, served, "x", "a", lambda tree: {**tree, "spec": {"color": "red"}})
    assert heard[0] == (None, made)
    assert heard[1][0]["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert heard[1][1]["spec"] == {"color": "red"}


async def outcome(nowait: bool, namespace: str, tree: Tree, options: WriteOptions) -> Any:
    """What a create leads to, and what the listeners heard, in a world that has one object."""
    world, served = make_world()
    await make(world, served, "taken")
    heard: list[Any] = []
    world.listeners.append(lambda _, before, after: heard.append((before, after)))
    try:
        if nowait:
            written = create_and_update.create_nowait(world, served, namespace, tree, options)
        else:
            written = await create_and_update.create(world, served, namespace, tree, options)
    except ApiError as error:
        return type(error), str(error), heard
    return written.tree, written.created, written.item and written.item.value, heard


@pytest.mark.parametrize("options", [WriteOptions("me"), WriteOptions("me", dry_run=True)])
@pytest.mark.parametrize(
    ("namespace", "tree"),
    [
        ("x", widget(spec={"color": "red", "bogus": 1}, labels={"a": "b"})),
        ("x", {**widget(generateName="a-"), "metadata": {"generateName": "a-"}}),
        ("x", {**widget(), "metadata": {}}),
        ("x", widget("Bad_name", managedFields=[])),
        ("x", widget("taken")),
        ("nowhere", widget()),
    ],
)
async def test_a_create_at_once_is_the_same_as_one_that_may_wait(
    namespace: str, tree: Tree, options: WriteOptions
) -> None:
    at_once, waited = [await outcome(nowait, namespace, deepcopy(tree), options) for nowait in (True, False)]
    assert at_once == waited


async def test_a_name_is_used_once() -> None:
    world, served = make_world()
    await make(world, served)
    for options in (WriteOptions(), DRY):
        with pytest.raises(AlreadyExists):
            await create_and_update.create(world, served, "x", widget(), options)


async def test_a_dry_create_stores_nothing_and_has_no_version() -> None:
    world, served = make_world()
    written = await create_and_update.create(world, served, "x", widget(), DRY)
    assert (written.created, written.item) == (True, None)
    assert "resourceVersion" not in written.tree["metadata"]
    assert await stored(world, served) is None


async def test_nothing_is_created_in_a_namespace_that_is_not_there_or_goes() -> None:
    world, served = make_world()
    with pytest.raises(NotFound, match='namespaces "y" not found'):
        await create_and_update.create(world, served, "y", widget())
    namespaces = world.catalog.find("", "v1", "namespaces")
    assert namespaces is not None
    await create_and_update.mutate(world, namespaces, None, "x", marked)
    with pytest.raises(Forbidden) as caught:
        await create_and_update.create(world, served, "x", widget())
    assert [one.reason for one in caught.value.causes] == ["NamespaceTerminating"]


def marked(tree: Tree) -> Tree:
    tree["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    tree["metadata"]["finalizers"] = ["example.com/f"]
    return tree


async def test_an_annotation_called_like_the_deletion_timestamp_marks_no_namespace() -> None:
    world, served = make_world()
    odd = b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x","annotations":{"deletionTimestamp":""}}}'
    await world.storage.put("/registry/core/namespaces/x", odd, expected=None)
    await make(world, served)


async def test_nothing_is_created_while_the_definition_goes() -> None:
    world, served = make_world(make_served(terminating=True))
    with pytest.raises(Forbidden, match="terminating"):
        await make(world, served)


async def test_a_generated_name_is_not_one_that_is_taken() -> None:
    world, served = make_world()
    made = [await create_and_update.create(world, served, "x", widget("", generateName="g-")) for _ in range(50)]
    names = [one.tree["metadata"]["name"] for one in made]
    assert len(set(names)) == 50
    assert all(name.startswith("g-") and len(name) == 7 for name in names)


async def test_a_version_in_a_new_object_is_refused() -> None:
    world, served = make_world()
    with pytest.raises(BadRequest, match="resourceVersion"):
        await make(world, served, resourceVersion="5")


async def test_everything_that_is_wrong_is_told_at_once() -> None:
    world, served = make_world(
        make_served(rules=Rules(validate=lambda new, _: [Cause("spec", "FieldValueInvalid", "odd")]))
    )
    world.validators[("example.com", "Widget")] = [lambda new, _: [Cause("spec.x", "FieldValueForbidden", "no")]]
    with pytest.raises(Invalid) as caught:
        await make(world, served, "Not_Valid", spec={"replicas": 11}, labels={"a b": ""})
    fields = [one.field for one in caught.value.causes]
    assert fields == ["spec.replicas", "metadata.name", "metadata.labels", "spec", "spec.x"]


async def test_an_update_must_name_the_stored_version() -> None:
    world, served = make_world()
    made = await make(world, served)
    newer = await create_and_update.update(world, served, "x", "a", {**made, "spec": {"color": "red"}})
    assert newer.tree["metadata"]["generation"] == 2
    with pytest.raises(Conflict):
        await create_and_update.update(world, served, "x", "a", {**made, "spec": {"color": "blue"}})
    with pytest.raises(Invalid) as caught:
        await create_and_update.update(world, served, "x", "a", widget())
    assert caught.value.details["kind"] == "widgets"


async def test_a_kind_may_be_updated_without_a_version() -> None:
    world, _ = make_world()
    kind = configmaps(world)
    await create_and_update.create(world, kind, "x", {"metadata": {"name": "a"}, "data": {"k": "1"}})
    written = await create_and_update.update(world, kind, "x", "a", {"metadata": {"name": "a"}, "data": {"j": "2"}})
    assert written.tree["data"] == {"j": "2"}


async def test_an_update_of_another_object_of_the_same_name_is_a_conflict() -> None:
    world, _ = make_world()
    kind = configmaps(world)
    await create_and_update.create(world, kind, "x", {"metadata": {"name": "a"}})
    with pytest.raises(Conflict, match="UID"):
        await create_and_update.update(world, kind, "x", "a", {"metadata": {"name": "a", "uid": "other"}})


async def test_a_write_that_changes_nothing_keeps_the_version_and_is_not_told() -> None:
    world, served = make_world()
    made = await make(world, served, spec={"color": "red"})
    heard: list[Any] = []
    world.listeners.append(lambda _, before, after: heard.append((before, after)))
    written = await create_and_update.update(world, served, "x", "a", made, options=WriteOptions("somebody else"))
    assert written.tree == made
    assert heard == []


async def test_metadata_and_status_do_not_count_for_the_generation() -> None:
    world, served = make_world()
    made = await make(world, served)
    labelled = {**made, "metadata": {**made["metadata"], "labels": {"l": "1"}}}
    tree = (await create_and_update.update(world, served, "x", "a", labelled)).tree
    status = WriteOptions(subresource="status")
    tree = (
        await create_and_update.update(world, served, "x", "a", {**tree, "status": {"ok": True}}, options=status)
    ).tree
    assert (tree["metadata"]["generation"], tree["status"]) == (1, {"ok": True})


async def test_a_dry_update_shows_the_result_under_the_old_version() -> None:
    world, served = make_world()
    made = await make(world, served)
    written = await create_and_update.update(world, served, "x", "a", {**made, "spec": {"color": "red"}}, options=DRY)
    assert written.tree["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert "spec" not in await stored(world, served)


async def test_a_kind_may_be_created_by_an_update() -> None:
    world, served = make_world(make_served(rules=Rules(create_on_update=True)))
    written = await create_and_update.update(world, served, "x", "a", widget())
    assert written.created


async def test_an_update_of_nothing_is_not_found() -> None:
    world, served = make_world()
    with pytest.raises(NotFound):
        await create_and_update.update(world, served, "x", "a", widget(resourceVersion="1"))


async def test_the_update_that_removes_the_last_finalizer_of_a_marked_object_removes_it() -> None:
    world, served = make_world()
    await make(world, served)
    await create_and_update.mutate(world, served, "x", "a", marked)
    tree = await create_and_update.mutate(world, served, "x", "a", lambda tree: tree)
    assert tree is not None
    tree["metadata"]["finalizers"] = []
    written = await create_and_update.update(world, served, "x", "a", tree)
    assert written.item is None
    assert await stored(world, served) is None


async def test_an_object_can_be_held_without_finalizers() -> None:
    world, served = make_world(make_served(rules=Rules(held=lambda tree: True)))
    await make(world, served)
    await create_and_update.mutate(world, served, "x", "a", marked)
    await create_and_update.mutate(
        world, served, "x", "a", lambda tree: {**tree, "metadata": {**tree["metadata"], "finalizers": []}}
    )
    assert await stored(world, served) is not None


async def test_mutate_writes_nothing_without_a_change() -> None:
    world, served = make_world()
    made = await make(world, served)
    assert await create_and_update.mutate(world, served, "x", "a", lambda tree: None) == made
    assert await create_and_update.mutate(world, served, "x", "a", lambda tree: tree) == made
    assert await create_and_update.mutate(world, served, "x", "none", lambda tree: tree) is None


async def test_concurrent_changes_are_all_made() -> None:
    world, served = make_world(storage=SlowStorage())
    await make(world, served)

    def note(number: int, tree: Tree) -> Tree:
        tree["metadata"].setdefault("annotations", {})[f"n{number}"] = ""
        return tree

    await asyncio.gather(
        *[create_and_update.mutate(world, served, "x", "a", partial(note, number)) for number in range(8)]
    )
    assert len((await stored(world, served))["metadata"]["annotations"]) == 8


async def test_of_concurrent_creates_one_succeeds() -> None:
    world, served = make_world(storage=SlowStorage())
    made = await asyncio.gather(*[make(world, served) for _ in range(4)], return_exceptions=True)
    assert [type(one) for one in made].count(AlreadyExists) == 3


async def test_an_object_that_is_nested_too_deeply_is_a_bad_request() -> None:
    world, served = make_world()
    deep: Any = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(BadRequest):
        await make(world, served, spec={"free": deep})


async def test_a_change_at_once_decides_again_if_its_decision_wrote_in_between() -> None:
    world, served = make_world()
    await make(world, served)
    key, seen = served.key("x", "a"), list[str]()

    def change(old: Tree, item: Item) -> strategy.Settled:
        seen.append(old["metadata"]["resourceVersion"])
        if len(seen) == 1:
            assert world.writer is not None
            world.writer.put_nowait(key, item.value, expected=None)
        return strategy.Settled({**old, "spec": {"color": "red"}}, changed=True)

    written = create_and_update.rewrite_nowait(world, served, "x", "a", change, options=WriteOptions())
    assert seen == ["2", "3"]
    assert (written.tree["metadata"]["resourceVersion"], written.item is not None) == ("4", True)


async def test_what_is_not_stored_is_no_write_whether_it_waits_or_not() -> None:
    world, served = make_world()
    await make(world, served)
    told: list[Any] = []
    world.listeners.append(lambda *change: told.append(change))

    def change(old: Tree, _: Item) -> strategy.Settled:
        return strategy.Settled({**old, "metadata": {**old["metadata"], "resourceVersion": "1"}}, changed=True)

    at_once = create_and_update.rewrite_nowait(world, served, "x", "a", change, options=WriteOptions())
    assert at_once == await create_and_update.rewrite(world, served, "x", "a", change, options=WriteOptions())
    assert (at_once.tree["metadata"]["resourceVersion"], told) == ("2", [])


async def test_an_object_grows_to_a_bound_whether_it_waits_or_not() -> None:
    world, served = make_world()
    await make(world, served)

    def change(old: Tree, _: Item) -> strategy.Settled:
        return strategy.Settled({**old, "spec": {"color": "r" * create_and_update.LARGEST}}, changed=True)

    with pytest.raises(ApiError, match="too large"):
        create_and_update.rewrite_nowait(world, served, "x", "a", change, options=WriteOptions())
    with pytest.raises(ApiError, match="too large"):
        await create_and_update.rewrite(world, served, "x", "a", change, options=WriteOptions())
