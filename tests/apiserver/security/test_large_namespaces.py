"""Namespaces with thousands of Pods: what counts or checks all of them keeps no other request waiting."""

import asyncio
from typing import Any

import pytest

from tests.apiserver.support.in_process_server import InProcessServer, open_server
from tests.apiserver.support.loop_watchdog import LIMIT, undisturbed, watch_loop

CORE = "/api/v1/namespaces/default"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MERGE = "application/merge-patch+json"
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


async def fill(api: InProcessServer, count: int) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1m"}}}
    for number in range(count):
        metadata = {"name": f"p{number}", "labels": {"app": "a"}}
        await api.create(f"{CORE}/pods", {"metadata": metadata, "spec": {"containers": [container]}})
    for name in ("p0", "p1"):
        assert (await api.request("PATCH", f"{CORE}/pods/{name}/status", {"status": READY}, kind=MERGE))[0] == 200


async def evict(api: InProcessServer) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}
    await api.create(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p0"}}
    with watch_loop() as watchdog:
        await asyncio.sleep(0)
        assert (await api.request("POST", f"{CORE}/pods/p0/eviction", eviction))[0] == 201
        eviction["metadata"] = {"name": "p1"}
        assert (await api.request("POST", f"{CORE}/pods/p1/eviction", eviction))[0] == 429
    assert watchdog.longest < LIMIT, watchdog.culprit


async def count(api: InProcessServer) -> None:
    quota: dict[str, Any] = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "9000", "requests.cpu": "9"}}}
    with watch_loop() as watchdog:
        await api.create(f"{CORE}/resourcequotas", quota)
        await api.server.idle()
        await api.request("DELETE", f"{CORE}/pods/p1")
        await api.server.idle()
    assert watchdog.longest < LIMIT, watchdog.culprit
    status = (await api.request("GET", f"{CORE}/resourcequotas/q"))[1]["status"]
    assert status["used"]["pods"] == str(len((await api.request("GET", f"{CORE}/pods"))[1]["items"]))


async def enforce(api: InProcessServer) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    with watch_loop() as watchdog:
        await asyncio.sleep(0)
        assert (await api.request("PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": labels}}, kind=MERGE))[
            0
        ] == 200
    assert watchdog.longest < LIMIT, watchdog.culprit


@pytest.mark.parametrize("pods", [400, pytest.param(5_000, marks=pytest.mark.robustness)])
@undisturbed
async def test_evictions_quotas_and_pod_security_of_many_pods_keep_no_other_request_waiting(pods: int) -> None:
    async with open_server() as api:
        await fill(api, pods)
        await evict(api)
        await count(api)
        await enforce(api)
