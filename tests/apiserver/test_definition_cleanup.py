import asyncio

import pytest

from levelset.apiserver import deleting, writing
from tests.apiserver.kinds_world import CRDS, KindsWorld, definition, load_data

V1 = ("example.com", "v1", "widgets")
NAME = "widgets.example.com"


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


async def remove(kinds: KindsWorld) -> None:
    await deleting.delete(kinds.world, kinds.served(CRDS), None, NAME)
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
    await writing.update(kinds.world, kinds.served(V1), "default", "a", held)
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
    await deleting.delete(kinds.world, kinds.served(CRDS), None, NAME)
    again = await KindsWorld.make(kinds.world.storage)
    await again.cleanup.settle()
    assert await again.get(CRDS, NAME) is None


async def test_it_runs_beside_the_server_until_it_is_cancelled() -> None:
    kinds = await KindsWorld.make()
    gone = asyncio.Event()
    kinds.world.listeners.append(lambda _served, _before, after: None if after else gone.set())
    running = asyncio.create_task(kinds.cleanup.run())
    await kinds.define(definition())
    await deleting.delete(kinds.world, kinds.served(CRDS), None, NAME)
    await gone.wait()
    assert await kinds.get(CRDS, NAME) is None
    running.cancel()
    assert isinstance((await asyncio.gather(running, return_exceptions=True))[0], asyncio.CancelledError)
