import asyncio

import pytest

from levelset.apiserver.verbs import create_and_update, delete
from tests.apiserver.box import configmap, open_box, widgets
from tests.apiserver.kinds_world import CRDS, KindsWorld, definition, load_data
from tests.apiserver.writes import HeldStorage

V1 = ("example.com", "v1", "widgets")
NAME = "widgets.example.com"


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


async def remove(kinds: KindsWorld) -> None:
    await delete.delete(kinds.world, kinds.served(CRDS), None, NAME)
    await kinds.cleanup.settle()


async def test_a_deleted_definition_takes_its_objects_with_it() -> None:
    kinds = await KindsWorld.make()
    await kinds.define(definition())
    for name in "abc":
        await kinds.create(V1, {}, name=name)
    await remove(kinds)
    assert await kinds.get(CRDS, NAME) is None
    assert kinds.kinds.catalog.find(*V1) is None
    assert await kinds.world.storage.count("/registry/example.com/widgets/") == 0


async def test_a_definition_waits_for_the_finalizers_of_its_objects() -> None:
    kinds = await KindsWorld.make()
    await kinds.define(definition())
    await kinds.create(V1, {"metadata": {"name": "a", "finalizers": ["example.com/f"]}})
    await remove(kinds)
    held = await kinds.get(V1)
    assert held is not None
    assert "deletionTimestamp" in held["metadata"]
    assert await kinds.get(CRDS, NAME) is not None
    del held["metadata"]["finalizers"]
    await create_and_update.update(kinds.world, kinds.served(V1), "default", "a", held)
    await kinds.cleanup.settle()
    assert await kinds.get(CRDS, NAME) is None


async def test_a_definition_can_be_made_again_and_has_no_old_objects() -> None:
    kinds = await KindsWorld.make()
    await kinds.define(definition())
    await kinds.create(V1, {})
    await remove(kinds)
    await kinds.define(definition())
    assert await kinds.get(V1) is None


async def test_freed_names_go_to_the_one_that_waits_for_them() -> None:
    kinds = await KindsWorld.make()
    await kinds.define(definition())
    await kinds.define(definition("wodgets"))
    await remove(kinds)
    assert kinds.served(("example.com", "v1", "wodgets")).kind == "Widget"


async def test_a_definition_that_is_not_served_goes_too() -> None:
    kinds = await KindsWorld.make()
    await kinds.define(definition(version={"served": False}))
    await remove(kinds)
    assert await kinds.get(CRDS, NAME) is None


async def test_deletions_that_were_under_way_go_on_after_a_restart() -> None:
    kinds = await KindsWorld.make()
    await kinds.define(definition())
    await kinds.create(V1, {})
    await delete.delete(kinds.world, kinds.served(CRDS), None, NAME)
    again = await KindsWorld.make(kinds.world.storage)
    await again.cleanup.settle()
    assert await again.get(CRDS, NAME) is None


async def test_it_runs_beside_the_server_until_it_is_cancelled() -> None:
    kinds = await KindsWorld.make()
    gone = asyncio.Event()
    kinds.world.listeners.append(lambda _served, _before, after: None if after else gone.set())
    running = asyncio.create_task(kinds.cleanup.run())
    await kinds.define(definition())
    await delete.delete(kinds.world, kinds.served(CRDS), None, NAME)
    await gone.wait()
    assert await kinds.get(CRDS, NAME) is None
    running.cancel()
    assert isinstance((await asyncio.gather(running, return_exceptions=True))[0], asyncio.CancelledError)


async def test_an_object_that_was_on_its_way_goes_with_the_definition() -> None:
    storage = HeldStorage()
    kinds = await KindsWorld.make(storage)
    await kinds.create(("", "v1", "namespaces"), {}, name="default")
    await kinds.define(definition())
    landing = storage.hold("/registry/example.com/widgets/default/late")
    late = asyncio.ensure_future(kinds.create(V1, {}, name="late"))
    await asyncio.sleep(0)
    removing = asyncio.ensure_future(remove(kinds))
    for _ in range(50):
        await asyncio.sleep(0)
    landing.set()
    await asyncio.gather(late, removing)
    assert await kinds.get(CRDS, NAME) is None
    assert await storage.count("/registry/example.com/widgets/") == 0


async def test_a_definition_goes_although_its_last_object_was_held_by_its_dependents() -> None:
    async with open_box() as box:
        crds, where = (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "/apis/example.com/v1/namespaces/default",
        )
        await box.make(crds, widgets())
        tree = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        owner = {**tree, "name": "w", "uid": (await box.make(f"{where}/widgets", tree))["metadata"]["uid"]}
        owner = {**{k: v for k, v in owner.items() if k != "metadata"}, "blockOwnerDeletion": True}
        maps = "/api/v1/namespaces/default/configmaps"
        await box.make(maps, configmap("held", owners=[owner], finalizers=["example.com/f"]))
        await box.ask("DELETE", f"{where}/widgets/w", propagationPolicy="Foreground")
        await box.server.idle()
        await box.ask("DELETE", f"{crds}/{NAME}")
        await box.server.idle()
        assert (await box.ask("GET", f"{crds}/{NAME}"))[0] == 200
        free = {"metadata": {"finalizers": None}}
        await box.ask("PATCH", f"{maps}/held", free, kind="application/merge-patch+json")
        await box.server.idle()
        assert (await box.ask("GET", f"{crds}/{NAME}"))[0] == 404
