import asyncio
from typing import Any

import pytest

from levelset.apiserver.registry.selectors import Selection
from levelset.apiserver.resources.served_resource import Rules, ServedResource
from levelset.apiserver.resources.server_state import Tree, World
from levelset.apiserver.verbs import create_and_update, delete
from levelset.apiserver.verbs.delete import Deleted
from levelset.apiserver.wire.request_options import DeleteOptions
from levelset.errors import Conflict, NotFound
from levelset.objects import LabelSelector
from tests.apiserver.writes import SlowStorage, make_served, make_world, widget

HELD = ["example.com/f"]


async def make(world: World, served: ServedResource, name: str = "a", **words: Any) -> Tree:
    return (await create_and_update.create(world, served, "x", widget(name, **words))).tree


async def finalizers_after(*, has: list[str], **options: Any) -> list[str] | None:
    world, served = make_world()
    await make(world, served, finalizers=has)
    found = await delete.delete(world, served, "x", "a", DeleteOptions(**options))
    return None if found.gone else found.tree["metadata"]["finalizers"]


async def test_an_object_without_finalizers_goes_at_once() -> None:
    world, served = make_world()
    made = await make(world, served)
    found = await delete.delete(world, served, "x", "a")
    assert found == Deleted(made, gone=True)
    with pytest.raises(NotFound):
        await delete.delete(world, served, "x", "a")


async def test_an_object_with_finalizers_is_marked_and_stays() -> None:
    world, served = make_world()
    made = await make(world, served, finalizers=HELD)
    found = await delete.delete(world, served, "x", "a")
    metadata = found.tree["metadata"]
    assert not found.gone
    assert (metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]) == ("2026-01-31T12:00:00Z", 0)
    assert metadata["generation"] == 2
    assert int(metadata["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


async def test_marking_again_changes_nothing() -> None:
    world, served = make_world()
    await make(world, served, finalizers=HELD)
    first = await delete.delete(world, served, "x", "a")
    assert await delete.delete(world, served, "x", "a") == first
    again = await delete.delete(world, served, "x", "a", DeleteOptions(propagation="Background"))
    assert again.tree == first.tree


async def test_the_propagation_becomes_a_finalizer() -> None:
    assert await finalizers_after(has=[], propagation="Foreground") == ["foregroundDeletion"]
    assert await finalizers_after(has=HELD, propagation="Orphan") == [*HELD, "orphan"]
    assert await finalizers_after(has=[], propagation="Background") is None


async def test_an_explicit_propagation_beats_the_finalizers_of_the_object() -> None:
    assert await finalizers_after(has=["orphan"], propagation="Foreground") == ["foregroundDeletion"]
    assert await finalizers_after(has=["orphan"], propagation="Background") is None
    assert await finalizers_after(has=["orphan"]) == ["orphan"]


@pytest.mark.parametrize("words", [{"uid": "other"}, {"resource_version": "1"}])
async def test_a_delete_that_means_another_object_is_a_conflict(words: dict[str, Any]) -> None:
    world, served = make_world()
    await make(world, served)
    with pytest.raises(Conflict) as caught:
        await delete.delete(world, served, "x", "a", DeleteOptions(**words))
    assert caught.value.details["kind"] == "Widget"


async def test_a_delete_that_means_this_object_succeeds() -> None:
    world, served = make_world()
    metadata = (await make(world, served))["metadata"]
    options = DeleteOptions(uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    assert (await delete.delete(world, served, "x", "a", options)).gone


async def test_a_dry_delete_leaves_the_object() -> None:
    world, served = make_world()
    await make(world, served)
    await make(world, served, "b", finalizers=HELD)
    before = world.storage.revision
    assert (await delete.delete(world, served, "x", "a", DeleteOptions(dry_run=True))).gone
    assert not (await delete.delete(world, served, "x", "b", DeleteOptions(dry_run=True))).gone
    assert world.storage.revision == before


async def test_a_kind_can_add_a_finalizer_when_a_deletion_begins() -> None:
    def prepare(tree: Tree) -> None:
        tree["metadata"]["finalizers"] = ["cleanup"]

    world, served = make_world(make_served(rules=Rules(prepare_delete=prepare)))
    await make(world, served)
    assert not (await delete.delete(world, served, "x", "a")).gone


async def test_kinds_that_are_graceful_get_time_that_can_be_cut_short() -> None:
    schema_free = make_served(rules=Rules(graceful=True), schema=lambda: None)
    world, served = make_world(schema_free)
    await make(world, served, spec={"nodeName": "n"})
    first = await delete.delete(world, served, "x", "a")
    assert first.tree["metadata"]["deletionGracePeriodSeconds"] == 30
    assert first.tree["metadata"]["deletionTimestamp"] == "2026-01-31T12:00:30Z"
    later = await delete.delete(world, served, "x", "a", DeleteOptions(grace_seconds=60))
    assert later.tree == first.tree
    assert (await delete.delete(world, served, "x", "a", DeleteOptions(grace_seconds=0))).gone


@pytest.mark.parametrize(("asked", "found"), [(2**63 - 1, 2**63 - 1), (-1, 1), (-(2**63), 1)])
async def test_a_grace_beyond_all_time_is_kept_as_it_is(asked: int, found: int) -> None:
    world, served = make_world(make_served(rules=Rules(graceful=True), schema=lambda: None))
    await make(world, served, spec={"nodeName": "n", "terminationGracePeriodSeconds": asked})
    first = await delete.delete(world, served, "x", "a")
    assert first.tree["metadata"]["deletionGracePeriodSeconds"] == found
    again = await delete.delete(world, served, "x", "a", DeleteOptions(grace_seconds=asked))
    assert again.tree == first.tree


async def test_the_answer_names_what_went_or_shows_what_stays() -> None:
    _, served = make_world()
    tree = widget(uid="u")
    assert delete.answer(served, Deleted(tree, gone=False)) is tree
    assert delete.answer(served, Deleted(tree, gone=True)) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "group": "example.com", "kind": "widgets", "uid": "u"},
    }


async def test_a_collection_is_deleted_by_selector_and_up_to_a_limit() -> None:
    world, served = make_world()
    for name in "abc":
        await make(world, served, name, labels={"l": name})
    chosen = Selection(labels=LabelSelector.parse("l in (a,c)"))
    assert [one["metadata"]["name"] for one in await delete.delete_collection(world, served, "x", chosen)] == [
        "a",
        "c",
    ]
    await make(world, served, "a")
    assert len(await delete.delete_collection(world, served, "x", None, limit=1)) == 1
    assert await world.storage.count(served.prefix) == 1


async def test_of_concurrent_deletes_one_finds_the_object() -> None:
    world, served = make_world(storage=SlowStorage())
    await make(world, served)
    found = await asyncio.gather(*[delete.delete(world, served, "x", "a") for _ in range(3)], return_exceptions=True)
    assert [type(one) for one in found].count(NotFound) == 2
