import asyncio
from typing import Any

import pytest

from levelset.storage import MemoryStorage
from tests.apiserver.box import Box, configmap, open_box, widgets
from tests.apiserver.writes import HeldStorage

NAMESPACES = "/api/v1/namespaces"
MERGE = "application/merge-patch+json"


async def make(box: Box, name: str = "n", **metadata: Any) -> Any:
    return await box.make(NAMESPACES, {"metadata": {"name": name, **metadata}})


async def test_some_namespaces_are_there_from_the_start() -> None:
    async with open_box() as box:
        _, tree = await box.ask("GET", NAMESPACES)
        names = [item["metadata"]["name"] for item in tree["items"]]
        assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
        assert {item["status"]["phase"] for item in tree["items"]} == {"Active"}


async def test_a_second_start_changes_nothing() -> None:
    storage = MemoryStorage()
    async with open_box(storage):
        revision = storage.revision
    async with open_box(storage):
        assert storage.revision == revision


async def test_the_contents_of_a_namespace_go_with_it() -> None:
    async with open_box() as box:
        await make(box)
        await box.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widgets())
        await box.make(f"{NAMESPACES}/n/configmaps", configmap("a"))
        await box.make(f"{NAMESPACES}/n/events", _event())
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        await box.make("/apis/example.com/v1/namespaces/n/widgets", widget)
        status, tree = await box.ask("DELETE", f"{NAMESPACES}/n")
        assert (status, tree["status"]["phase"]) == (200, "Terminating")
        await box.server.idle()
        assert (await box.ask("GET", f"{NAMESPACES}/n"))[0] == 404
        page = await box.storage.list("/registry/")
        assert [item.key for item in page.items if "/n/" in item.key] == []


def _event() -> Any:
    return {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "n"},
        "type": "Normal",
    }


async def test_a_namespace_says_what_keeps_it_and_goes_when_that_is_gone() -> None:
    async with open_box() as box:
        await make(box)
        await box.make(f"{NAMESPACES}/n/configmaps", configmap("a", finalizers=["example.com/f"]))
        await box.ask("DELETE", f"{NAMESPACES}/n")
        await box.server.idle()
        _, tree = await box.ask("GET", f"{NAMESPACES}/n")
        found = {one["type"]: (one["status"], one["reason"]) for one in tree["status"]["conditions"]}
        assert found["NamespaceContentRemaining"] == ("True", "SomeResourcesRemain")
        assert found["NamespaceFinalizersRemaining"] == ("True", "SomeFinalizersRemain")
        assert found["NamespaceDeletionDiscoveryFailure"] == ("False", "ResourcesDiscovered")
        await box.ask("PATCH", f"{NAMESPACES}/n/configmaps/a", {"metadata": {"finalizers": None}}, kind=MERGE)
        await box.server.idle()
        assert (await box.ask("GET", f"{NAMESPACES}/n"))[0] == 404


async def test_looking_again_at_a_namespace_that_waits_writes_nothing() -> None:
    async with open_box() as box:
        await make(box)
        await box.make(f"{NAMESPACES}/n/configmaps", configmap("a", finalizers=["example.com/f"]))
        await box.ask("DELETE", f"{NAMESPACES}/n")
        await box.server.idle()
        revision = box.storage.revision
        await box.ask("PATCH", f"{NAMESPACES}/n/configmaps/a", {"data": {"k": "v"}}, kind=MERGE)
        await box.server.idle()
        assert box.storage.revision == revision + 1


async def test_nothing_new_comes_into_a_namespace_that_goes() -> None:
    async with open_box() as box:
        await make(box)
        await box.make(f"{NAMESPACES}/n/configmaps", configmap("a", finalizers=["example.com/f"]))
        await box.ask("DELETE", f"{NAMESPACES}/n")
        status, tree = await box.ask("POST", f"{NAMESPACES}/n/configmaps", configmap("b"))
        assert (status, tree["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")


async def test_a_deletion_that_was_under_way_goes_on_at_the_next_start() -> None:
    storage = MemoryStorage()
    async with open_box(storage) as box:
        await make(box)
        await box.make(f"{NAMESPACES}/n/configmaps", configmap("a"))
        await box.server._parts.namespaces.stop()  # pyright: ignore[reportPrivateUsage] - as if it had crashed here
        await box.ask("DELETE", f"{NAMESPACES}/n")
    async with open_box(storage) as box:
        await box.server.idle()
        assert (await box.ask("GET", f"{NAMESPACES}/n"))[0] == 404


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_some_namespaces_cannot_be_deleted(name: str) -> None:
    async with open_box() as box:
        status, tree = await box.ask("DELETE", f"{NAMESPACES}/{name}")
        assert (status, tree["reason"], tree["details"]["name"]) == (403, "Forbidden", name)


async def test_finalizers_in_the_spec_are_changed_through_finalize_alone() -> None:
    async with open_box() as box:
        made = await make(box, finalizers=["example.com/f"])
        await box.ask("DELETE", f"{NAMESPACES}/n")
        await box.server.idle()
        _, tree = await box.ask("GET", f"{NAMESPACES}/n")
        assert "finalizers" not in tree["spec"]
        status, tree = await box.ask(
            "PUT", f"{NAMESPACES}/n/finalize", {**tree, "spec": {"finalizers": ["example.com/g"]}}
        )
        assert (status, tree["spec"]["finalizers"]) == (200, ["example.com/g"])
        await box.ask("PATCH", f"{NAMESPACES}/n", {"metadata": {"finalizers": None}}, kind=MERGE)
        assert (await box.ask("GET", f"{NAMESPACES}/n"))[0] == 200
        stale = {"metadata": {"name": "n", "resourceVersion": made["metadata"]["resourceVersion"]}}
        assert (await box.ask("PUT", f"{NAMESPACES}/n/finalize", stale))[0] == 409
        assert (await box.ask("PUT", f"{NAMESPACES}/n/finalize", {"metadata": {"name": "n"}}))[0] == 200
        assert (await box.ask("GET", f"{NAMESPACES}/n"))[0] == 404


@pytest.mark.parametrize(
    ("method", "name", "body", "expected"),
    [
        ("PUT", "nobody", {}, 404),
        ("PUT", "default", {"metadata": {"name": "other"}}, 400),
        ("PUT", "default", {"spec": {"finalizers": "all"}}, 400),
        ("POST", "default", {}, 405),
    ],
)
async def test_a_finalize_that_makes_no_sense_is_refused(method: str, name: str, body: Any, expected: int) -> None:
    async with open_box() as box:
        assert (await box.ask(method, f"{NAMESPACES}/{name}/finalize", body))[0] == expected


@pytest.mark.parametrize("way", ["POST", "PATCH"])
async def test_an_object_that_was_on_its_way_goes_with_the_namespace(way: str) -> None:
    storage = HeldStorage()
    async with open_box(storage) as box:
        await make(box)
        landing = storage.hold("/registry/core/configmaps/n/late")
        where, more = (f"{NAMESPACES}/n/configmaps", {})
        if way == "PATCH":
            where, more = f"{where}/late", {"kind": "application/apply-patch+yaml", "fieldManager": "me"}
        late = asyncio.ensure_future(box.ask(way, where, configmap("late"), **more))
        await asyncio.sleep(0)
        await box.ask("DELETE", f"{NAMESPACES}/n")
        for _ in range(50):
            await asyncio.sleep(0)
        landing.set()
        assert (await late)[0] == 201
        await box.server.idle()
        page = await storage.list("/registry/")
        assert [item.key for item in page.items if item.key.endswith(("/n", "/late"))] == []
