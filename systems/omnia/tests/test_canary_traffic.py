"""A canary with real processes and a model over HTTP: its share of the traffic, and its rollback by errors."""

import asyncio
import json
from collections import Counter
from functools import cache
from typing import Any

import pytest

from levelset import Client, MergePatch, Ref, open_local
from levelset.http import Server
from levelset.kinds.apps_v1 import Deployment
from levelset.kinds.core_v1 import ConfigMap, Pod, Service
from levelset_local import Options as LocalOptions
from levelset_local import local_system
from levelset_machine import free_port
from levelset_omnia import AgentRuntime, Options, PromptPack, omnia_system
from levelset_omnia.images import IMAGES
from levelset_omnia.well_known import CANARY, TRACK
from systems.omnia.tests.agent.model_server import ModelServer

__all__: list[str] = []

REAL = 300
PACK, HELPER = Ref(PromptPack, "pack", "default"), Ref(AgentRuntime, "helper", "default")
QUICK = Options(readiness_delay=0, readiness_period=1, report_seconds=0.5)


@cache
def agent_port() -> int:
    """The port of the agents on the addresses of their Pods: one that nothing uses on all addresses."""
    return free_port()


def objects(url: str) -> list[dict[str, Any]]:
    v1, group = "v1", "omnia.altairalabs.ai"
    found: list[tuple[str, str, str, dict[str, Any]]] = [
        (v1, "ConfigMap", "one", {"data": {"system": "Be kind."}}),
        (v1, "ConfigMap", "two", {"data": {"system": "Be brief."}}),
        (v1, "Secret", "key", {"stringData": {"OPENAI_API_KEY": "k-1"}}),
        (f"{group}/v1alpha1", "PromptPack", "pack", {"spec": {"version": "1.0.0", "source": source("one")}}),
        (
            f"{group}/v1alpha1",
            "Provider",
            "models",
            {"spec": {"type": "openai", "model": "small", "baseURL": url, "secretRef": {"name": "key"}}},
        ),
        (
            f"{group}/v1alpha2",
            "AgentRuntime",
            "helper",
            {
                "spec": {
                    "promptPackRef": {"name": "pack"},
                    "providerRef": {"name": "models"},
                    "facade": {"port": agent_port()},
                    "runtime": {"replicas": 4},
                }
            },
        ),
    ]
    return [
        {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "default"}, **rest}
        for api, kind, name, rest in found
    ]


def source(config_map: str) -> dict[str, Any]:
    return {"type": "configmap", "configMapRef": {"name": config_map}}


async def send(address: str) -> tuple[int, str]:
    """Sends one message over a new connection; the status and the version that answered, or the error."""
    reader, writer = await asyncio.open_connection(address, agent_port())
    body = json.dumps({"message": "hello"}).encode()
    writer.write(b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nConnection: close\r\n")
    writer.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    try:
        head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    answer = json.loads(rest)
    return int(head.split()[1]), answer.get("version") or answer["error"]


@pytest.mark.robustness
async def test_a_quarter_of_the_requests_goes_to_the_canary_until_its_errors_roll_it_back() -> None:
    model = ModelServer()
    systems = local_system(LocalOptions(images=IMAGES)), omnia_system(QUICK)
    async with Server(model.handle) as provider, open_local(*systems) as local:
        client: Client = local.client
        for one in objects(f"{provider.url}/v1"):
            await client.create(one)
        await client.wait(HELPER, lambda it: ready(it) == 4, within=REAL)
        address = (await client.get(Ref(Service, "helper", "default"))).spec.cluster_ip or ""
        assert await send(address) == (200, "1.0.0")
        await begin_canary(client)
        await client.wait(HELPER, has_one_canary_pod, within=REAL)
        counted = Counter([await send(address) for _ in range(400)])
        assert set(counted) == {(200, "1.0.0"), (200, "2.0.0")}
        # 100 of 400 are expected; four standard deviations of a fair split are 35.
        assert 65 <= counted[200, "2.0.0"] <= 135
        assert model.keys[-1] == "Bearer k-1"
        await client.patch(Ref(ConfigMap, "two", "default"), MergePatch({"data": {"system": "Fail, always."}}))
        await roll_back(client, address)
        await client.wait_gone(Ref(Deployment, "helper-canary", "default"), within=REAL)
        for pod in await client.list(Pod, labels={TRACK: CANARY}):
            await client.wait_gone(pod.ref, within=REAL)
        assert {await send(address) for _ in range(50)} == {(200, "1.0.0")}


async def begin_canary(client: Client) -> None:
    limit = {"maxErrorRate": 20, "minRequests": 10}
    strategy = {"weight": 25, "stepWeight": 25, "interval": "1h", "rollback": limit}
    spec = {"version": "2.0.0", "source": source("two"), "rollout": {"type": "canary", "canary": strategy}}
    await client.patch(PACK, MergePatch({"spec": spec}))


async def roll_back(client: Client, address: str) -> None:
    """Sends requests until the pack is rolled back."""
    async with asyncio.timeout(REAL):
        while True:
            await send(address)
            found = await client.get(PACK)
            if found.status is not None and found.status.rolled_back is not None:
                assert found.status.active_version == "1.0.0"
                assert found.status.rolled_back.errors * 5 > found.status.rolled_back.requests
                return


def ready(agent: AgentRuntime) -> int:
    return 0 if agent.status is None or agent.status.replicas is None else agent.status.replicas.ready


def has_one_canary_pod(agent: AgentRuntime) -> bool:
    canary = None if agent.status is None else agent.status.canary
    return canary is not None and canary.ready == 1 and ready(agent) == 4
