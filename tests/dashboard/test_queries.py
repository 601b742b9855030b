"""The queries of the page: from the server and the controllers, in bounded pages."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from levelset import Context, Sharding
from levelset.dashboard import DashboardSource, Queries
from levelset.dashboard.resource_table import TableQuery
from levelset.errors import NotFound, NotReady, UnknownKind
from levelset.objects import GroupVersionKind, Unstructured
from levelset.runtime.cache.informer import Stats
from levelset.runtime.controller import Controller
from levelset.runtime.manager import Manager
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import CONFIG_MAP, WEBSITE, Website, website
from tests.dashboard.fixtures import open_client, tree

DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")


def owned(kind: str, name: str, owner: Any) -> Unstructured:
    gvk = owner.ref.gvk
    ref = {"apiVersion": gvk.api_version, "kind": gvk.kind, "name": owner.name, "uid": owner.metadata.uid}
    return tree("v1", kind, name, metadata={"ownerReferences": [{**ref, "controller": True}]}, data={})


@virtual
async def test_kinds_are_counted_and_listed_once() -> None:
    async with open_client() as client:
        for number in range(3):
            await client.create(tree("v1", "ConfigMap", f"map-{number}", data={}))
        found = (await Queries(DashboardSource.of_client(client)).kinds())["kinds"]
    counts = {one["kind"]: one["count"] for one in found}
    assert (counts["v1/ConfigMap"], counts["v1/Pod"], counts["example.dev/v1/Website"]) == (3, 0, 0)
    assert len({(one["group"], one["name"]) for one in found}) == len(found)


@virtual
async def test_a_kind_that_is_installed_later_is_in_the_next_query() -> None:
    async with open_client() as client:
        queries = Queries(DashboardSource.of_client(client))
        before = len((await queries.kinds())["kinds"])
        name = {"plural": "gadgets", "kind": "Gadget"}
        schema = {"openAPIV3Schema": {"type": "object"}}
        version = {"name": "v1", "served": True, "storage": True, "schema": schema}
        spec = {"group": "later.dev", "names": name, "scope": "Namespaced", "versions": [version]}
        definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
        await client.create(Unstructured({**definition, "metadata": {"name": "gadgets.later.dev"}}))
        assert len((await queries.kinds())["kinds"]) == before + 1


@virtual
async def test_an_object_comes_with_its_events_owners_and_children() -> None:
    async with open_client() as client:
        site = await client.create(website("blog"))
        settings = await client.create(owned("ConfigMap", "settings", site))
        await client.create(owned("Secret", "inner", settings))
        about = {"apiVersion": "example.dev/v1", "kind": "Website", "name": "blog", "namespace": "default"}
        await client.create(tree("v1", "Event", "e", involvedObject=about, reason="Served", message="<b>"))
        await client.create(tree("v1", "Event", "f", involvedObject={**about, "name": "shop"}, reason="Other"))
        queries = Queries(DashboardSource.of_client(client))
        found = await queries.object(WEBSITE, "blog", "default")
        child = await queries.object(CONFIG_MAP, "settings", None)
    assert [one["reason"] for one in found["events"]] == ["Served"]
    (below,) = found["children"]
    assert (below["name"], [one["name"] for one in below["children"]]) == ("settings", ["inner"])
    assert [one["name"] for one in child["owners"]] == ["blog"]
    assert "managedFields" not in found["source"]["text"]


@virtual
async def test_a_watch_that_begins_to_lag_changes_the_pulse_although_nothing_happens() -> None:
    def stats(lag: float) -> Stats:
        counts: dict[str, Any] = dict.fromkeys(
            ("objects", "bytes", "events", "relists", "reconnects", "bookmarks", "errors"), 0
        )
        return Stats(
            name="v1 Pod", is_ready=True, resource_version="1", lag=lag, readers=1, waiting=0, error=None, **counts
        )

    async with open_client() as client:
        lag = [1.0]
        source = structs.replace(DashboardSource.of_client(client), watches=lambda: [stats(lag[0])])
        queries = Queries(source)
        before = queries.pulse()
        lag[0] = 100.0
        assert queries.pulse() == before
        lag[0] = 151.0
        late = queries.pulse()
        assert late != before
        lag[0] = 160.0
        assert queries.pulse() == late
        assert [one["lags"] for one in (await queries.status())["watches"]] == [True]


@virtual
async def test_a_running_controller_shows_its_reconciles_and_reasons() -> None:
    async def reconcile(site: Website, _: object) -> None:
        if site.name == "bad":
            raise ValueError("no image")

    async with open_client() as client, Manager(client) as manager:
        manager.add(Controller(Website, reconcile))
        await manager.wait_elected()
        await asyncio.sleep(0.1)
        queries = Queries(DashboardSource.of(manager))
        before = queries.pulse()
        for name in ("good", "bad"):
            await client.create(website(name))
        await asyncio.sleep(0.1)
        await manager.wait_idle()
        status, good = (await queries.status()), await queries.object(WEBSITE, "good", "default")
        rows = (await queries.table(TableQuery(gvk=WEBSITE)))["rows"]
        assert queries.pulse() != before
        first = (await queries.kinds())["kinds"][0]
    (controller,) = status["controllers"]
    assert (controller["failing"], controller["lastError"]["message"]) == (1, "ValueError: no image")
    assert [one["name"] for one in status["watches"]] == ["example.dev/v1 Website"]
    assert good["reconciles"][0]["result"] == "done"
    assert good["reconciles"][0]["reasons"] == ["it has changed"]
    assert {one["name"]: one["lastResult"] for one in rows} == {"good": "done", "bad": "failed"}
    assert (first["kind"], first["hasController"]) == ("example.dev/v1/Website", True)


@virtual
async def test_missing_objects_and_kinds_are_errors() -> None:
    async with open_client() as client:
        queries = Queries(DashboardSource.of_client(client))
        with pytest.raises(NotFound, match="there is no Website default/blog"):
            await queries.object(WEBSITE, "blog", None)
        with pytest.raises(UnknownKind):
            await queries.table(TableQuery(gvk=GroupVersionKind("no.dev", "v1", "Such")))
        with pytest.raises(NotReady):
            await Queries(DashboardSource.of(Manager(client))).kinds()


@virtual
async def test_events_are_limited() -> None:
    async with open_client() as client:
        about = {"kind": "Website", "name": "blog", "namespace": "default"}
        for number in range(110):
            await client.create(tree("v1", "Event", f"e{number}", involvedObject=about, reason="Served"))
        found = await Queries(DashboardSource.of_client(client)).events()
    assert len(found["events"]) == 100
    assert not found["isPartial"]


@virtual
async def test_the_status_has_the_members_and_the_objects_that_moved() -> None:
    async def reconcile(site: Website, ctx: Context) -> None:
        pass

    shards = Sharding(name="sites")
    async with open_client() as client:
        for number in range(8):
            await client.create(website(f"site-{number}"))
        async with Manager(client, shards=replace(shards, identity="pod-a")) as first:
            first.add(Controller(Website, reconcile, name="sites"))
            await first.wait_elected()
            await first.wait_idle()
            async with Manager(client, shards=replace(shards, identity="pod-b")) as second:
                second.add(Controller(Website, reconcile, name="sites"))
                await second.wait_elected()
                await second.wait_idle()
                await asyncio.sleep(2 * shards.retry)  # both have published their objects
                status = await Queries(DashboardSource.of(first)).status()
    keys = {one["identity"]: one["keys"] for one in status["members"]}
    owned, gained, lost = status["moves"]["sites"]
    assert keys == {"pod-a": owned, "pod-b": 8 - owned}
    assert (gained, lost) == (0, 8 - owned)
    assert 0 < owned < 8
