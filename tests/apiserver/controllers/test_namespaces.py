import asyncio
from typing import Any

import pytest

from levelset.storage import MemoryStorage
from tests.apiserver.support.in_process_server import InProcessServer, configmap, open_server, widgets
from tests.apiserver.support.server_state import HeldStorage

NAMESPACES = "/api/v1/namespaces"
MERGE = "application/merge-patch+json"


async def make(api: InProcessServer, name: str = "n", **metadata: Any) -> Any:
    return await api.create(NAMESPACES, {"metadata": {"name": name, **metadata}})


async def test_system_namespaces_exist_from_the_start() -> None:
    async with open_server() as api:
        _, tree = await api.request("GET", NAMESPACES)
        names = [item["metadata"]["name"] for item in tree["items"]]
        assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
        assert {item["status"]["phase"] for item in tree["items"]} == {"Active"}


async def test_a_second_start_changes_nothing() -> None:
    storage = MemoryStorage()
    async with open_server(storage):
        revision = storage.revision
    async with open_server(storage):
        assert storage.revision == revision


async def test_deleting_a_namespace_deletes_its_contents() -> None:
    async with open_server() as api:
        await make(api)
        await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets())
        await api.create(f"{NAMESPACES}/n/configmaps", configmap("a"))
        await api.create(f"{NAMESPACES}/n/events", _event())
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        await api.create("/apis/example.com/v1/namespaces/n/widgets", widget)
        status, tree = await api.request("DELETE", f"{NAMESPACES}/n")
        assert (status, tree["status"]["phase"]) == (200, "Terminating")
        await api.server.idle()
        assert (await api.request("GET", f"{NAMESPACES}/n"))[0] == 404
        page = await api.storage.list("/registry/")
        assert [item.key for item in page.items if "/n/" in item.key] == []


async def test_pods_are_deleted_before_everything_else() -> None:
    async with open_server() as api:
        await make(api)
        spec = {"containers": [{"name": "c", "image": "i"}]}
        metadata = {"name": "p", "finalizers": ["example.com/f"]}
        await api.create(f"{NAMESPACES}/n/pods", {"metadata": metadata, "spec": spec})
        await api.create(f"{NAMESPACES}/n/configmaps", configmap("a"))
        await api.request("DELETE", f"{NAMESPACES}/n")
        await api.server.idle()
        assert "deletionTimestamp" in (await api.request("GET", f"{NAMESPACES}/n/pods/p"))[1]["metadata"]
        assert "deletionTimestamp" not in (await api.request("GET", f"{NAMESPACES}/n/configmaps/a"))[1]["metadata"]
        await api.request("PATCH", f"{NAMESPACES}/n/pods/p", {"metadata": {"finalizers": None}}, kind=MERGE)
        await api.server.idle()
        assert (await api.request("GET", f"{NAMESPACES}/n"))[0] == 404


def _event() -> Any:
    return {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "n"},
        "type": "Normal",
    }


async def test_a_terminating_namespace_reports_what_is_left_and_is_removed_when_empty() -> None:
    async with open_server() as api:
        await make(api)
        await api.create(f"{NAMESPACES}/n/configmaps", configmap("a", finalizers=["example.com/f"]))
        await api.request("DELETE", f"{NAMESPACES}/n")
        await api.server.idle()
        _, tree = await api.request("GET", f"{NAMESPACES}/n")
        found = {one["type"]: (one["status"], one["reason"]) for one in tree["status"]["conditions"]}
        assert found["NamespaceContentRemaining"] == ("True", "SomeResourcesRemain")
        assert found["NamespaceFinalizersRemaining"] == ("True", "SomeFinalizersRemain")
        assert found["NamespaceDeletionDiscoveryFailure"] == ("False", "ResourcesDiscovered")
        await api.request("PATCH", f"{NAMESPACES}/n/configmaps/a", {"metadata": {"finalizers": None}}, kind=MERGE)
        await api.server.idle()
        assert (await api.request("GET", f"{NAMESPACES}/n"))[0] == 404


async def test_reconciling_a_waiting_namespace_again_writes_nothing() -> None:
    async with open_server() as api:
        await make(api)
        await api.create(f"{NAMESPACES}/n/configmaps", configmap("a", finalizers=["example.com/f"]))
        await api.request("DELETE", f"{NAMESPACES}/n")
        await api.server.idle()
        revision = api.storage.revision
        await api.request("PATCH", f"{NAMESPACES}/n/configmaps/a", {"data": {"k": "v"}}, kind=MERGE)
        await api.server.idle()
        assert api.storage.revision == revision + 1


async def test_a_terminating_namespace_accepts_no_new_objects() -> None:
    async with open_server() as api:
        await make(api)
        await api.create(f"{NAMESPACES}/n/configmaps", configmap("a", finalizers=["example.com/f"]))
        await api.request("DELETE", f"{NAMESPACES}/n")
        status, tree = await api.request("POST", f"{NAMESPACES}/n/configmaps", configmap("b"))
        assert (status, tree["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")


async def test_a_pending_namespace_deletion_resumes_at_the_next_start() -> None:
    storage = MemoryStorage()
    async with open_server(storage) as api:
        await make(api)
        await api.create(f"{NAMESPACES}/n/configmaps", configmap("a"))
        await api.server._components.namespaces.stop()  # pyright: ignore[reportPrivateUsage] - as if it had crashed here
        await api.request("DELETE", f"{NAMESPACES}/n")
    async with open_server(storage) as api:
        await api.server.idle()
        assert (await api.request("GET", f"{NAMESPACES}/n"))[0] == 404


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_system_namespaces_cannot_be_deleted(name: str) -> None:
    async with open_server() as api:
        status, tree = await api.request("DELETE", f"{NAMESPACES}/{name}")
        assert (status, tree["reason"], tree["details"]["name"]) == (403, "Forbidden", name)


async def test_spec_finalizers_change_only_through_finalize() -> None:
    async with open_server() as api:
        made = await make(api, finalizers=["example.com/f"])
        await api.request("DELETE", f"{NAMESPACES}/n")
        await api.server.idle()
        _, tree = await api.request("GET", f"{NAMESPACES}/n")
        assert "finalizers" not in tree["spec"]
        status, tree = await api.request(
            "PUT", f"{NAMESPACES}/n/finalize", {**tree, "spec": {"finalizers": ["example.com/g"]}}
        )
        assert (status, tree["spec"]["finalizers"]) == (200, ["example.com/g"])
        await api.request("PATCH", f"{NAMESPACES}/n", {"metadata": {"finalizers": None}}, kind=MERGE)
        assert (await api.request("GET", f"{NAMESPACES}/n"))[0] == 200
        stale = {"metadata": {"name": "n", "resourceVersion": made["metadata"]["resourceVersion"]}}
        assert (await api.request("PUT", f"{NAMESPACES}/n/finalize", stale))[0] == 409
        assert (await api.request("PUT", f"{NAMESPACES}/n/finalize", {"metadata": {"name": "n"}}))[0] == 200
        assert (await api.request("GET", f"{NAMESPACES}/n"))[0] == 404


@pytest.mark.parametrize(
    ("method", "name", "body", "expected"),
    [
        ("PUT", "missing", {"metadata": {"name": "missing"}}, 404),
        ("PUT", "default", {}, 400),
        ("PUT", "default", {"metadata": {"name": "other"}}, 400),
        ("PUT", "default", {"spec": {"finalizers": "all"}}, 400),
        ("POST", "default", {}, 405),
    ],
)
async def test_an_invalid_finalize_request_is_rejected(method: str, name: str, body: Any, expected: int) -> None:
    async with open_server() as api:
        assert (await api.request(method, f"{NAMESPACES}/{name}/finalize", body))[0] == expected


@pytest.mark.parametrize("way", ["POST", "PATCH"])
async def test_an_in_flight_create_is_deleted_with_its_namespace(way: str) -> None:
    storage = HeldStorage()
    async with open_server(storage) as api:
        await make(api)
        landing = storage.hold("/registry/core/configmaps/n/late")
        where, more = (f"{NAMESPACES}/n/configmaps", {})
        if way == "PATCH":
            where, more = f"{where}/late", {"kind": "application/apply-patch+yaml", "fieldManager": "me"}
        late = asyncio.ensure_future(api.request(way, where, configmap("late"), **more))
        await asyncio.sleep(0)
        await api.request("DELETE", f"{NAMESPACES}/n")
        for _ in range(50):
            await asyncio.sleep(0)
        landing.set()
        assert (await late)[0] == 201
        await api.server.idle()
        page = await storage.list("/registry/")
        assert [item.key for item in page.items if item.key.endswith(("/n", "/late"))] == []
