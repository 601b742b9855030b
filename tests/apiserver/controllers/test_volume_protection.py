from typing import Any

import pytest

from levelset.apiserver.controllers.volume_protection import claims_of
from levelset.storage import MemoryStorage
from tests.apiserver.support.in_process_server import InProcessServer, open_server

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
PODS = "/api/v1/namespaces/default/pods"
SIZE = {"requests": {"storage": "1Gi"}}


def claim(name: str = "data") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": SIZE}}


def pod(name: str = "p", **more: Any) -> dict[str, Any]:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}], "volumes": volumes, **more}
    return {"metadata": {"name": name}, "spec": spec}


async def is_gone(server: InProcessServer, path: str) -> bool:
    await server.server.idle()
    return (await server.request("GET", path))[0] == 404


async def set_phase(server: InProcessServer, path: str, phase: str) -> None:
    _, tree = await server.request("GET", path)
    status, _ = await server.request("PUT", f"{path}/status", {**tree, "status": {**tree["status"], "phase": phase}})
    assert status == 200


async def test_a_deleted_claim_goes_when_no_pod_uses_it() -> None:
    async with open_server() as server:
        made = await server.create(CLAIMS, claim())
        assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
        await server.request("DELETE", f"{CLAIMS}/data")
        assert await is_gone(server, f"{CLAIMS}/data")


async def test_a_deleted_claim_stays_while_a_scheduled_pod_uses_it() -> None:
    async with open_server() as server:
        await server.create(CLAIMS, claim())
        await server.create(PODS, pod())
        await server.request("DELETE", f"{CLAIMS}/data")
        assert not await is_gone(server, f"{CLAIMS}/data")
        await server.request("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        assert await is_gone(server, f"{CLAIMS}/data")


async def test_a_deleted_volume_stays_while_it_is_bound() -> None:
    async with open_server() as server:
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/d"}}
        await server.create(VOLUMES, {"metadata": {"name": "v"}, "spec": spec})
        await set_phase(server, f"{VOLUMES}/v", "Bound")
        await server.request("DELETE", f"{VOLUMES}/v")
        assert not await is_gone(server, f"{VOLUMES}/v")
        await set_phase(server, f"{VOLUMES}/v", "Released")
        assert await is_gone(server, f"{VOLUMES}/v")


async def test_a_start_releases_what_was_deleted_before() -> None:
    storage = MemoryStorage()
    async with open_server(storage) as server:
        await server.create(CLAIMS, claim())
        await server.create(PODS, pod())
        await server.request("DELETE", f"{CLAIMS}/data")
        assert not await is_gone(server, f"{CLAIMS}/data")
        await server.server._components.volume_protection.stop()
        await set_phase(server, f"{PODS}/p", "Succeeded")
    async with open_server(storage) as server:
        assert await is_gone(server, f"{CLAIMS}/data")


@pytest.mark.parametrize(
    ("tree", "names"),
    [
        (pod(), {"data"}),
        (pod(nodeName=None), set()),
        ({**pod(), "status": {"phase": "Failed"}}, set()),
        (pod(volumes=[{"name": "v", "ephemeral": {}}, {"name": "w", "emptyDir": {}}]), {"p-v"}),
    ],
)
def test_a_pod_uses_its_claims_from_being_scheduled_until_it_ends(tree: Any, names: set[str]) -> None:
    assert claims_of(tree) == names
