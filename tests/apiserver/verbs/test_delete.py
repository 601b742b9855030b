import asyncio
import gc
from typing import Any

import pytest

from levelset.apiserver.registry.selectors import Selectors
from levelset.apiserver.resources.served_resource import Rules, ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.apiserver.verbs import create_and_update, delete
from levelset.apiserver.verbs.delete import DeleteResult
from levelset.apiserver.wire.request_options import DeleteOptions
from levelset.errors import Conflict, NotFound
from levelset.objects import LabelSelector, decode_tree
from tests.apiserver.support.server_state import SlowStorage, make_served, make_state, widget

HELD = ["example.com/f"]


async def make(state: ServerState, served: ServedResource, name: str = "a", **words: Any) -> Tree:
    return (await create_and_update.create(state, served, "x", widget(name, **words))).tree


async def finalizers_after(*, has: list[str], **options: Any) -> list[str] | None:
    state, served = make_state()
    await make(state, served, finalizers=has)
    found = await delete.delete(state, served, "x", "a", DeleteOptions(**options))
    return None if found.gone else found.tree["metadata"]["finalizers"]


async def test_an_object_without_finalizers_is_removed_immediately() -> None:
    state, served = make_state()
    made = await make(state, served)
    found = await delete.delete(state, served, "x", "a")
    assert found == DeleteResult(made, gone=True)
    with pytest.raises(NotFound):
        await delete.delete(state, served, "x", "a")


async def test_an_object_with_finalizers_is_marked_for_deletion_and_stays() -> None:
    state, served = make_state()
    made = await make(state, served, finalizers=HELD)
    found = await delete.delete(state, served, "x", "a")
    metadata = found.tree["metadata"]
    assert not found.gone
    assert (metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]) == ("2026-01-31T12:00:00Z", 0)
    assert metadata["generation"] == 2
    assert int(metadata["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


async def test_deleting_a_terminating_object_again_changes_nothing() -> None:
    state, served = make_state()
    await make(state, served, finalizers=HELD)
    first = await delete.delete(state, served, "x", "a")
    assert await delete.delete(state, served, "x", "a") == first
    again = await delete.delete(state, served, "x", "a", DeleteOptions(propagation="Background"))
    assert again.tree == first.tree


async def test_the_propagation_policy_becomes_a_finalizer() -> None:
    assert await finalizers_after(has=[], propagation="Foreground") == ["foregroundDeletion"]
    assert await finalizers_after(has=HELD, propagation="Orphan") == [*HELD, "orphan"]
    assert await finalizers_after(has=[], propagation="Background") is None


async def test_an_explicit_propagation_beats_the_finalizers_of_the_object() -> None:
    assert await finalizers_after(has=["orphan"], propagation="Foreground") == ["foregroundDeletion"]
    assert await finalizers_after(has=["orphan"], propagation="Background") is None
    assert await finalizers_after(has=["orphan"]) == ["orphan"]


@pytest.mark.parametrize("words", [{"uid": "other"}, {"resource_version": "1"}])
async def test_a_delete_with_failing_preconditions_is_a_conflict(words: dict[str, Any]) -> None:
    state, served = make_state()
    await make(state, served)
    with pytest.raises(Conflict) as caught:
        await delete.delete(state, served, "x", "a", DeleteOptions(**words))
    assert caught.value.details["kind"] == "Widget"


async def test_a_delete_with_matching_preconditions_succeeds() -> None:
    state, served = make_state()
    metadata = (await make(state, served))["metadata"]
    options = DeleteOptions(uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    assert (await delete.delete(state, served, "x", "a", options)).gone


async def test_a_dry_run_delete_leaves_the_object() -> None:
    state, served = make_state()
    await make(state, served)
    await make(state, served, "b", finalizers=HELD)
    before = state.storage.revision
    assert (await delete.delete(state, served, "x", "a", DeleteOptions(dry_run=True))).gone
    assert not (await delete.delete(state, served, "x", "b", DeleteOptions(dry_run=True))).gone
    assert state.storage.revision == before


async def test_a_kind_can_add_a_finalizer_when_deletion_starts() -> None:
    def prepare(tree: Tree) -> None:
        tree["metadata"]["finalizers"] = ["cleanup"]

    state, served = make_state(make_served(rules=Rules(prepare_delete=prepare)))
    await make(state, served)
    assert not (await delete.delete(state, served, "x", "a")).gone


async def test_graceful_kinds_get_a_grace_period_that_can_be_shortened() -> None:
    schema_free = make_served(rules=Rules(graceful=True), schema=lambda: None)
    state, served = make_state(schema_free)
    await make(state, served, spec={"nodeName": "n"})
    first = await delete.delete(state, served, "x", "a")
    assert first.tree["metadata"]["deletionGracePeriodSeconds"] == 30
    assert first.tree["metadata"]["deletionTimestamp"] == "2026-01-31T12:00:30Z"
    later = await delete.delete(state, served, "x", "a", DeleteOptions(grace_seconds=60))
    assert later.tree == first.tree
    assert (await delete.delete(state, served, "x", "a", DeleteOptions(grace_seconds=0))).gone


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_what_has_ended_gets_no_grace_period_and_is_returned_as_it_was_marked(phase: str) -> None:
    state, served = make_state(make_served(rules=Rules(graceful=True), schema=lambda: None, status=False))
    tree = {**widget(spec={"nodeName": "n"}), "status": {"phase": phase}}
    await create_and_update.create(state, served, "x", tree)
    removed = await delete.delete(state, served, "x", "a", DeleteOptions(grace_seconds=20))
    assert removed.gone
    assert removed.tree["metadata"]["deletionGracePeriodSeconds"] == 0


@pytest.mark.parametrize(("requested", "found"), [(2**63 - 1, 2**63 - 1), (-1, 1), (-(2**63), 1)])
async def test_a_huge_grace_period_is_retained(requested: int, found: int) -> None:
    state, served = make_state(make_served(rules=Rules(graceful=True), schema=lambda: None))
    await make(state, served, spec={"nodeName": "n", "terminationGracePeriodSeconds": requested})
    first = await delete.delete(state, served, "x", "a")
    assert first.tree["metadata"]["deletionGracePeriodSeconds"] == found
    again = await delete.delete(state, served, "x", "a", DeleteOptions(grace_seconds=requested))
    assert again.tree == first.tree


async def test_the_response_is_a_status_or_the_marked_object() -> None:
    _, served = make_state()
    tree = widget(uid="u")
    assert delete.response_body(served, DeleteResult(tree, gone=False)) is tree
    assert delete.response_body(served, DeleteResult(tree, gone=True)) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "group": "example.com", "kind": "widgets", "uid": "u"},
    }


async def test_a_collection_is_deleted_by_selector_and_up_to_a_limit() -> None:
    state, served = make_state()
    for name in "abc":
        await make(state, served, name, labels={"l": name})
    chosen = Selectors(labels=LabelSelector.parse("l in (a,c)"))
    deleted = await delete.delete_collection(state, served, "x", chosen)
    assert [decode_tree(one)["metadata"]["name"] for one in deleted] == ["a", "c"]
    assert not any(map(gc.is_tracked, deleted)), "a garbage collection would walk the values of all of them"
    await make(state, served, "a")
    assert len(await delete.delete_collection(state, served, "x", None, limit=1)) == 1
    assert await state.storage.count(served.prefix) == 1


async def test_only_one_of_concurrent_deletes_finds_the_object() -> None:
    state, served = make_state(storage=SlowStorage())
    await make(state, served)
    found = await asyncio.gather(*[delete.delete(state, served, "x", "a") for _ in range(3)], return_exceptions=True)
    assert [type(one) for one in found].count(NotFound) == 2
