from typing import Any

import pytest

from levelset.storage import MemoryStorage
from tests.apiserver.box import CONFIGMAPS, Box, configmap, open_box, widgets

SECRETS = "/api/v1/namespaces/default/secrets"


def owner(tree: Any, *, block: bool = False) -> Any:
    reference = {
        "apiVersion": tree["apiVersion"],
        "kind": tree["kind"],
        "name": tree["metadata"]["name"],
        "uid": tree["metadata"]["uid"],
    }
    return {**reference, "blockOwnerDeletion": True} if block else reference


async def names(box: Box, path: str = CONFIGMAPS) -> list[str]:
    await box.server.idle()
    _, tree = await box.ask("GET", path)
    return [item["metadata"]["name"] for item in tree["items"]]


async def delete(box: Box, name: str, policy: str = "Background") -> Any:
    return (await box.ask("DELETE", f"{CONFIGMAPS}/{name}", {"propagationPolicy": policy}))[1]


async def test_dependents_go_through_several_generations() -> None:
    async with open_box() as box:
        first = await box.make(CONFIGMAPS, configmap("a"))
        second = await box.make(CONFIGMAPS, configmap("b", owners=[owner(first)]))
        await box.make(CONFIGMAPS, configmap("c", owners=[owner(second)]))
        assert await names(box) == ["a", "b", "c"]
        await delete(box, "a")
        assert await names(box) == []


async def test_a_dependent_loses_owners_that_are_gone_and_stays_with_the_others() -> None:
    async with open_box() as box:
        first, second = await box.make(CONFIGMAPS, configmap("a")), await box.make(CONFIGMAPS, configmap("b"))
        await box.make(CONFIGMAPS, configmap("c", owners=[owner(first), owner(second)]))
        await delete(box, "a")
        assert await names(box) == ["b", "c"]
        _, child = await box.ask("GET", f"{CONFIGMAPS}/c")
        assert [one["name"] for one in child["metadata"]["ownerReferences"]] == ["b"]
        await delete(box, "b")
        assert await names(box) == []


async def test_orphans_stay_and_lose_the_reference() -> None:
    async with open_box() as box:
        first = await box.make(CONFIGMAPS, configmap("a"))
        await box.make(CONFIGMAPS, configmap("b", owners=[owner(first, block=True)]))
        marked = await delete(box, "a", "Orphan")
        assert marked["metadata"]["finalizers"] == ["orphan"]
        assert await names(box) == ["b"]
        _, child = await box.ask("GET", f"{CONFIGMAPS}/b")
        assert "ownerReferences" not in child["metadata"]


async def test_in_foreground_an_owner_waits_for_dependents_that_block_it() -> None:
    async with open_box() as box:
        first = await box.make(CONFIGMAPS, configmap("a"))
        await box.make(CONFIGMAPS, configmap("b", owners=[owner(first, block=True)], finalizers=["example.com/f"]))
        marked = await delete(box, "a", "Foreground")
        assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
        assert await names(box) == ["a", "b"]
        patch = {"metadata": {"finalizers": None}}
        await box.ask("PATCH", f"{CONFIGMAPS}/b", patch, kind="application/merge-patch+json")
        assert await names(box) == []


async def test_in_foreground_an_owner_does_not_wait_for_dependents_that_do_not_block_it() -> None:
    async with open_box() as box:
        first = await box.make(CONFIGMAPS, configmap("a"))
        await box.make(CONFIGMAPS, configmap("b", owners=[owner(first)], finalizers=["example.com/f"]))
        await delete(box, "a", "Foreground")
        assert await names(box) == ["b"]
        _, child = await box.ask("GET", f"{CONFIGMAPS}/b")
        assert "deletionTimestamp" in child["metadata"]


async def test_in_foreground_dependents_of_dependents_go_first() -> None:
    async with open_box() as box:
        first = await box.make(CONFIGMAPS, configmap("a"))
        second = await box.make(CONFIGMAPS, configmap("b", owners=[owner(first, block=True)]))
        await box.make(CONFIGMAPS, configmap("c", owners=[owner(second, block=True)]))
        start = await box.revision()
        await delete(box, "a", "Foreground")
        assert await names(box) == []
        gone: list[str] = []
        async for event in box.watch(CONFIGMAPS, resourceVersion=start):
            if event["type"] == "DELETED":
                gone.append(event["object"]["metadata"]["name"])
            if len(gone) == 3:
                break
        assert gone == ["c", "b", "a"]


async def test_a_ring_of_owners_does_not_block_itself() -> None:
    async with open_box() as box:
        first = await box.make(CONFIGMAPS, configmap("a"))
        second = await box.make(CONFIGMAPS, configmap("b", owners=[owner(first, block=True)]))
        patch = {"metadata": {"ownerReferences": [owner(second, block=True)]}}
        await box.ask("PATCH", f"{CONFIGMAPS}/a", patch, kind="application/merge-patch+json")
        assert await names(box) == ["a", "b"]
        await delete(box, "a", "Foreground")
        assert await names(box) == []


@pytest.mark.parametrize("uid", ["7c0ff9a1-0000-4000-8000-000000000001", ""])
async def test_an_owner_that_never_existed_owns_nothing(uid: str) -> None:
    async with open_box() as box:
        first = await box.make(CONFIGMAPS, configmap("a"))
        ghost = {**owner(first), "uid": uid or "7c0ff9a1-0000-4000-8000-000000000002", "name": "a" if uid else "ghost"}
        await box.make(CONFIGMAPS, configmap("b", owners=[ghost]))
        assert await names(box) == ["a"]


async def test_an_owner_in_another_namespace_does_not_count_and_an_event_says_so() -> None:
    async with open_box() as box:
        first = await box.make("/api/v1/namespaces/kube-public/configmaps", configmap("a"))
        await box.make(CONFIGMAPS, configmap("b", owners=[owner(first)]))
        assert await names(box) == []
        _, events = await box.ask("GET", "/api/v1/namespaces/default/events")
        assert [(one["type"], one["reason"], one["involvedObject"]["name"]) for one in events["items"]] == [
            ("Warning", "OwnerRefInvalidNamespace", "b")
        ]


async def test_a_cluster_scoped_dependent_of_a_namespaced_owner_is_left_alone() -> None:
    async with open_box() as box:
        first = await box.make(CONFIGMAPS, configmap("a"))
        made = {"metadata": {"name": "n", "ownerReferences": [owner(first)]}}
        await box.make("/apis/rbac.authorization.k8s.io/v1/clusterroles", made)
        await delete(box, "a")
        assert await names(box, "/apis/rbac.authorization.k8s.io/v1/clusterroles") == ["n"]


async def test_dependents_of_kinds_that_are_not_known_wait_for_them() -> None:
    async with open_box() as box:
        ghost = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "name": "w",
            "uid": "7c0ff9a1-0000-4000-8000-000000000001",
        }
        await box.make(CONFIGMAPS, configmap("a", owners=[ghost]))
        assert await names(box) == ["a"]
        await box.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets())
        assert await names(box) == []


async def test_what_was_left_behind_is_collected_at_the_next_start() -> None:
    storage = MemoryStorage()
    async with open_box(storage) as box:
        first = await box.make(CONFIGMAPS, configmap("a"))
        await box.make(CONFIGMAPS, configmap("b", owners=[owner(first)]))
        await box.make(SECRETS, {"metadata": {"name": "s"}})
        await box.server.idle()
    await storage.delete("/registry/core/configmaps/default/a", expected=None)
    async with open_box(storage) as box:
        assert await names(box) == []
        assert await names(box, SECRETS) == ["s"]


async def test_a_deletion_that_was_under_way_goes_on_at_the_next_start() -> None:
    storage = MemoryStorage()
    async with open_box(storage) as box:
        first = await box.make(CONFIGMAPS, configmap("a"))
        await box.make(CONFIGMAPS, configmap("b", owners=[owner(first, block=True)]))
        await box.server.idle()
        await box.server._parts.garbage.stop()  # pyright: ignore[reportPrivateUsage] - as if it had crashed here
        await delete(box, "a", "Foreground")
    async with open_box(storage) as box:
        assert await names(box) == []


async def test_dependents_go_with_the_objects_of_a_definition_that_goes() -> None:
    async with open_box() as box:
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await box.make(crds, widgets())
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        made = await box.make("/apis/example.com/v1/namespaces/default/widgets", widget)
        await box.make(CONFIGMAPS, configmap("a", owners=[owner(made)]))
        await box.ask("DELETE", f"{crds}/widgets.example.com")
        assert await names(box) == []
        assert (await box.ask("GET", f"{crds}/widgets.example.com"))[0] == 404
