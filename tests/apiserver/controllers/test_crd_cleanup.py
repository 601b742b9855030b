import asyncio

import pytest

from levelset.apiserver.controllers import crd_cleanup
from levelset.apiserver.verbs import create_and_update, delete
from tests.apiserver.support.in_process_server import configmap, open_server, widgets
from tests.apiserver.support.kinds_harness import CRDS, KindsHarness, definition, load_data
from tests.apiserver.support.server_state import HeldStorage

V1 = ("example.com", "v1", "widgets")
NAME = "widgets.example.com"


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


async def remove(kinds: KindsHarness) -> None:
    await delete.delete(kinds.state, kinds.served(CRDS), None, NAME)
    await kinds.cleanup.settle()


async def test_deleting_a_crd_deletes_its_objects() -> None:
    kinds = await KindsHarness.make()
    await kinds.define(definition())
    for name in "abc":
        await kinds.create(V1, {}, name=name)
    await remove(kinds)
    assert await kinds.get(CRDS, NAME) is None
    assert kinds.kinds.catalog.find(*V1) is None
    assert await kinds.state.storage.count("/registry/example.com/widgets/") == 0


async def test_a_terminating_crd_waits_for_the_finalizers_of_its_objects() -> None:
    kinds = await KindsHarness.make()
    await kinds.define(definition())
    await kinds.create(V1, {"metadata": {"name": "a", "finalizers": ["example.com/f"]}})
    await remove(kinds)
    held = await kinds.get(V1)
    assert held is not None
    assert "deletionTimestamp" in held["metadata"]
    assert await kinds.get(CRDS, NAME) is not None
    del held["metadata"]["finalizers"]
    await create_and_update.update(kinds.state, kinds.served(V1), "default", "a", held)
    await kinds.cleanup.settle()
    assert await kinds.get(CRDS, NAME) is None


async def test_a_recreated_crd_has_no_old_objects() -> None:
    kinds = await KindsHarness.make()
    await kinds.define(definition())
    await kinds.create(V1, {})
    await remove(kinds)
    await kinds.define(definition())
    assert await kinds.get(V1) is None


async def test_freed_names_are_accepted_for_the_crd_that_waits_for_them() -> None:
    kinds = await KindsHarness.make()
    await kinds.define(definition())
    await kinds.define(definition("wodgets"))
    await remove(kinds)
    assert kinds.served(("example.com", "v1", "wodgets")).kind == "Widget"


async def test_a_crd_that_is_not_served_can_be_deleted() -> None:
    kinds = await KindsHarness.make()
    await kinds.define(definition(version={"served": False}))
    await remove(kinds)
    assert await kinds.get(CRDS, NAME) is None


async def test_pending_crd_deletions_resume_after_a_restart() -> None:
    kinds = await KindsHarness.make()
    await kinds.define(definition())
    await kinds.create(V1, {})
    await delete.delete(kinds.state, kinds.served(CRDS), None, NAME)
    again = await KindsHarness.make(kinds.state.storage)
    await again.cleanup.settle()
    assert await again.get(CRDS, NAME) is None


async def test_the_cleanup_runs_until_it_is_cancelled() -> None:
    kinds = await KindsHarness.make()
    gone = asyncio.Event()
    kinds.state.listeners.append(lambda _served, _before, after: None if after else gone.set())
    running = asyncio.create_task(kinds.cleanup.run())
    await kinds.define(definition())
    await delete.delete(kinds.state, kinds.served(CRDS), None, NAME)
    await gone.wait()
    assert await kinds.get(CRDS, NAME) is None
    running.cancel()
    assert isinstance((await asyncio.gather(running, return_exceptions=True))[0], asyncio.CancelledError)


async def test_an_in_flight_create_is_deleted_with_its_crd() -> None:
    storage = HeldStorage()
    kinds = await KindsHarness.make(storage)
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


async def test_a_crd_is_removed_after_the_foreground_deletion_of_its_last_object() -> None:
    async with open_server() as api:
        crds, where = (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "/apis/example.com/v1/namespaces/default",
        )
        await api.create(crds, widgets())
        tree = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        owner = {**tree, "name": "w", "uid": (await api.create(f"{where}/widgets", tree))["metadata"]["uid"]}
        owner = {**{k: v for k, v in owner.items() if k != "metadata"}, "blockOwnerDeletion": True}
        maps = "/api/v1/namespaces/default/configmaps"
        await api.create(maps, configmap("held", owners=[owner], finalizers=["example.com/f"]))
        await api.request("DELETE", f"{where}/widgets/w", propagationPolicy="Foreground")
        await api.server.idle()
        await api.request("DELETE", f"{crds}/{NAME}")
        await api.server.idle()
        assert (await api.request("GET", f"{crds}/{NAME}"))[0] == 200
        free = {"metadata": {"finalizers": None}}
        await api.request("PATCH", f"{maps}/held", free, kind="application/merge-patch+json")
        await api.server.idle()
        assert (await api.request("GET", f"{crds}/{NAME}"))[0] == 404


async def test_an_unexpected_error_does_not_end_the_cleanup(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kinds = await KindsHarness.make()
    await kinds.define(definition())
    original, raised = kinds.cleanup._reconcile, [ValueError("injected"), asyncio.CancelledError()]

    async def flaky(name: str) -> None:
        if raised:
            raise raised.pop(0)
        await original(name)

    monkeypatch.setattr(crd_cleanup, "RETRY_SECONDS", 0)
    monkeypatch.setattr(kinds.cleanup, "_reconcile", flaky)
    running = asyncio.create_task(kinds.cleanup.run())
    await delete.delete(kinds.state, kinds.served(CRDS), None, NAME)
    for _ in range(50):
        await asyncio.sleep(0)
    assert await kinds.get(CRDS, NAME) is None
    assert "injected" in caplog.text
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
