from typing import Any

import pytest

from levelset.apiserver.controllers import garbage_collector
from levelset.storage import MemoryStorage
from tests.apiserver.support.in_process_server import CONFIGMAPS, InProcessServer, configmap, open_server, widgets

SECRETS = "/api/v1/namespaces/default/secrets"


def owner(tree: Any, *, block: bool = False) -> Any:
    reference = {
        "apiVersion": tree["apiVersion"],
        "kind": tree["kind"],
        "name": tree["metadata"]["name"],
        "uid": tree["metadata"]["uid"],
    }
    return {**reference, "blockOwnerDeletion": True} if block else reference


async def names(api: InProcessServer, path: str = CONFIGMAPS) -> list[str]:
    await api.server.idle()
    _, tree = await api.request("GET", path)
    return [item["metadata"]["name"] for item in tree["items"]]


async def delete(api: InProcessServer, name: str, policy: str = "Background") -> Any:
    return (await api.request("DELETE", f"{CONFIGMAPS}/{name}", {"propagationPolicy": policy}))[1]


async def test_dependents_are_deleted_through_several_levels() -> None:
    async with open_server() as api:
        first = await api.create(CONFIGMAPS, configmap("a"))
        second = await api.create(CONFIGMAPS, configmap("b", owners=[owner(first)]))
        await api.create(CONFIGMAPS, configmap("c", owners=[owner(second)]))
        assert await names(api) == ["a", "b", "c"]
        await delete(api, "a")
        assert await names(api) == []


async def test_a_dependent_loses_absent_owners_and_stays_with_the_others() -> None:
    async with open_server() as api:
        first, second = await api.create(CONFIGMAPS, configmap("a")), await api.create(CONFIGMAPS, configmap("b"))
        await api.create(CONFIGMAPS, configmap("c", owners=[owner(first), owner(second)]))
        await delete(api, "a")
        assert await names(api) == ["b", "c"]
        _, child = await api.request("GET", f"{CONFIGMAPS}/c")
        assert [one["name"] for one in child["metadata"]["ownerReferences"]] == ["b"]
        await delete(api, "b")
        assert await names(api) == []


async def test_orphans_stay_and_lose_their_owner_reference() -> None:
    async with open_server() as api:
        first = await api.create(CONFIGMAPS, configmap("a"))
        await api.create(CONFIGMAPS, configmap("b", owners=[owner(first, block=True)]))
        marked = await delete(api, "a", "Orphan")
        assert marked["metadata"]["finalizers"] == ["orphan"]
        assert await names(api) == ["b"]
        _, child = await api.request("GET", f"{CONFIGMAPS}/b")
        assert "ownerReferences" not in child["metadata"]


async def test_foreground_deletion_waits_for_blocking_dependents() -> None:
    async with open_server() as api:
        first = await api.create(CONFIGMAPS, configmap("a"))
        await api.create(CONFIGMAPS, configmap("b", owners=[owner(first, block=True)], finalizers=["example.com/f"]))
        marked = await delete(api, "a", "Foreground")
        assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
        assert await names(api) == ["a", "b"]
        patch = {"metadata": {"finalizers": None}}
        await api.request("PATCH", f"{CONFIGMAPS}/b", patch, kind="application/merge-patch+json")
        assert await names(api) == []


async def test_foreground_deletion_does_not_wait_for_other_dependents() -> None:
    async with open_server() as api:
        first = await api.create(CONFIGMAPS, configmap("a"))
        await api.create(CONFIGMAPS, configmap("b", owners=[owner(first)], finalizers=["example.com/f"]))
        await delete(api, "a", "Foreground")
        assert await names(api) == ["b"]
        _, child = await api.request("GET", f"{CONFIGMAPS}/b")
        assert "deletionTimestamp" in child["metadata"]


async def test_foreground_deletion_deletes_the_lowest_level_first() -> None:
    async with open_server() as api:
        first = await api.create(CONFIGMAPS, configmap("a"))
        second = await api.create(CONFIGMAPS, configmap("b", owners=[owner(first, block=True)]))
        await api.create(CONFIGMAPS, configmap("c", owners=[owner(second, block=True)]))
        start = await api.revision()
        await delete(api, "a", "Foreground")
        assert await names(api) == []
        gone: list[str] = []
        async for event in api.watch(CONFIGMAPS, resourceVersion=start):
            if event["type"] == "DELETED":
                gone.append(event["object"]["metadata"]["name"])
            if len(gone) == 3:
                break
        assert gone == ["c", "b", "a"]


async def test_a_cycle_of_owners_does_not_block_itself() -> None:
    async with open_server() as api:
        first = await api.create(CONFIGMAPS, configmap("a"))
        second = await api.create(CONFIGMAPS, configmap("b", owners=[owner(first, block=True)]))
        patch = {"metadata": {"ownerReferences": [owner(second, block=True)]}}
        await api.request("PATCH", f"{CONFIGMAPS}/a", patch, kind="application/merge-patch+json")
        assert await names(api) == ["a", "b"]
        await delete(api, "a", "Foreground")
        assert await names(api) == []


@pytest.mark.parametrize("uid", ["7c0ff9a1-0000-4000-8000-000000000001", ""])
async def test_a_dependent_of_an_owner_that_never_existed_is_deleted(uid: str) -> None:
    async with open_server() as api:
        first = await api.create(CONFIGMAPS, configmap("a"))
        ghost = {**owner(first), "uid": uid or "7c0ff9a1-0000-4000-8000-000000000002", "name": "a" if uid else "ghost"}
        await api.create(CONFIGMAPS, configmap("b", owners=[ghost]))
        assert await names(api) == ["a"]


async def test_an_owner_in_another_namespace_does_not_count_and_creates_an_event() -> None:
    async with open_server() as api:
        first = await api.create("/api/v1/namespaces/kube-public/configmaps", configmap("a"))
        await api.create(CONFIGMAPS, configmap("b", owners=[owner(first)]))
        assert await names(api) == []
        _, events = await api.request("GET", "/api/v1/namespaces/default/events")
        assert [(one["type"], one["reason"], one["involvedObject"]["name"]) for one in events["items"]] == [
            ("Warning", "OwnerRefInvalidNamespace", "b")
        ]


async def test_a_cluster_scoped_dependent_of_a_namespaced_owner_is_left_alone() -> None:
    async with open_server() as api:
        first = await api.create(CONFIGMAPS, configmap("a"))
        made = {"metadata": {"name": "n", "ownerReferences": [owner(first)]}}
        await api.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", made)
        await delete(api, "a")
        assert await names(api, "/apis/rbac.authorization.k8s.io/v1/clusterroles") == ["n"]


async def test_dependents_of_an_unserved_kind_wait_until_it_is_served() -> None:
    async with open_server() as api:
        ghost = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "name": "w",
            "uid": "7c0ff9a1-0000-4000-8000-000000000001",
        }
        await api.create(CONFIGMAPS, configmap("a", owners=[ghost]))
        assert await names(api) == ["a"]
        await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets())
        assert await names(api) == []


@pytest.mark.parametrize("page", [1, 2, 5_000])
async def test_dependents_left_behind_are_collected_at_the_next_start(
    page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage_collector, "_PAGE", page)  # objects are read so many at a time
    storage = MemoryStorage()
    async with open_server(storage) as api:
        first = await api.create(CONFIGMAPS, configmap("a"))
        await api.create(CONFIGMAPS, configmap("b", owners=[owner(first)]))
        await api.create(SECRETS, {"metadata": {"name": "s"}})
        await api.server.idle()
    await storage.delete("/registry/core/configmaps/default/a", expected=None)
    async with open_server(storage) as api:
        assert await names(api) == []
        assert await names(api, SECRETS) == ["s"]


async def test_a_pending_foreground_deletion_resumes_at_the_next_start() -> None:
    storage = MemoryStorage()
    async with open_server(storage) as api:
        first = await api.create(CONFIGMAPS, configmap("a"))
        await api.create(CONFIGMAPS, configmap("b", owners=[owner(first, block=True)]))
        await api.server.idle()
        await api.server._components.garbage_collector.stop()  # pyright: ignore[reportPrivateUsage] - as if it had crashed here
        await delete(api, "a", "Foreground")
    async with open_server(storage) as api:
        assert await names(api) == []


async def test_dependents_of_custom_resources_are_deleted_with_the_crd() -> None:
    async with open_server() as api:
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await api.create(crds, widgets())
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        made = await api.create("/apis/example.com/v1/namespaces/default/widgets", widget)
        await api.create(CONFIGMAPS, configmap("a", owners=[owner(made)]))
        await api.request("DELETE", f"{crds}/widgets.example.com")
        assert await names(api) == []
        assert (await api.request("GET", f"{crds}/widgets.example.com"))[0] == 404
