"""Omnia on a laptop: many AgentRuntimes, each with a Pod that is a real process, from the first create to all Running.

Run: python benchmarks/omnia.py [number of agents]
"""

import asyncio
import resource
import sys
import time
from collections import Counter
from typing import Any

from levelset import Client, GroupVersionKind, Ref, open_local
from levelset.kinds.core_v1 import Pod
from levelset_local import Options as LocalOptions
from levelset_local import local_system
from levelset_omnia import omnia_system
from levelset_omnia.kinds import AgentRuntime
from levelset_omnia.well_known import DEFAULT_AGENT_IMAGE

# The least that a probe takes for an agent: no framework, no threads, one response for all requests.
PROGRAM = """
import os, signal, socket
signal.signal(signal.SIGTERM, signal.SIG_DFL)
with socket.create_server((os.environ["POD_IP"], int(os.environ["OMNIA_FACADE_PORT"]))) as server:
    while True:
        one, _ = server.accept()
        with one:
            one.recv(4096)
            one.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 3\\r\\nConnection: close\\r\\n\\r\\nok\\n")
"""
API = "omnia.altairalabs.ai/v1alpha1"


def shared() -> list[dict[str, Any]]:
    """The objects that all agents share."""
    meta = {"namespace": "default"}
    source = {"type": "configmap", "configMapRef": {"name": "prompts"}}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prompts", **meta}, "data": {"system": "Hi."}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", **meta}, "stringData": {"api-key": "x"}},
        {
            "apiVersion": API,
            "kind": "PromptPack",
            "metadata": {"name": "pack", **meta},
            "spec": {"version": "1.0.0", "source": source},
        },
    ]


def agent(number: int) -> dict[str, Any]:
    """One agent."""
    spec = {"promptPackRef": {"name": "pack"}, "providerSecretRef": {"name": "key"}}
    metadata = {"name": f"agent-{number}", "namespace": "default"}
    return {"apiVersion": API, "kind": "AgentRuntime", "metadata": metadata, "spec": spec}


async def running(client: Client) -> int:
    """How many agents are Running."""
    found = await client.list(AgentRuntime)
    return sum(one.status is not None and one.status.phase == "Running" for one in found)


async def measure(number: int) -> None:
    """Prints one table."""
    images = {DEFAULT_AGENT_IMAGE: [sys.executable, "-S", "-E", "-c", PROGRAM]}
    async with open_local(local_system(LocalOptions(images=images)), omnia_system()) as local:
        client = local.client
        for one in shared():
            await client.create(one)
        before, cpu = local.server.state.storage.revision, time.process_time()
        began = time.perf_counter()
        await asyncio.gather(*(client.create(agent(one)) for one in range(number)))
        created = time.perf_counter() - began
        while await running(client) < number:
            await asyncio.sleep(0.25)
            if time.perf_counter() - began > 600:
                raise SystemExit(f"only {await running(client)} of {number} agents run after 10 minutes")
        converged = time.perf_counter() - began
        writes = local.server.state.storage.revision - before
        spent = time.process_time() - cpu
        idle = local.server.state.storage.revision
        await asyncio.sleep(10)
        later = local.server.state.storage.revision - idle
        pods = len(await client.list(Pod))
        kinds = await counted(client)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        began = time.perf_counter()
        for one in range(number):
            await client.delete(Ref(AgentRuntime, f"agent-{one}", "default"))
        for one in await client.list(Pod):
            await client.wait_gone(one.ref, within=120)
        removed = time.perf_counter() - began
    print("| what | figure |\n|---|---|")
    rows = {
        "agents": number,
        "Pods, each a process": pods,
        "created in": f"{created:.2f} s",
        "all Running after": f"{converged:.2f} s (5 s of it is the delay of the readiness probe)",
        "CPU of the control plane": f"{spent:.1f} s",
        "writes for each agent": f"{writes / number:.1f}",
        "objects for each agent": f"{kinds:.1f}",
        "writes in 10 s after that": later,
        "memory of the control plane": f"{memory:.0f} MB",
        "all processes gone after deletion": f"{removed:.2f} s",
    }
    for name, value in rows.items():
        print(f"| {name} | {value} |")


async def counted(client: Client) -> float:
    """How many objects there are for each agent: what the writes were for, Events included."""
    kinds = [
        ("apps", "v1", "Deployment"),
        ("apps", "v1", "ReplicaSet"),
        ("", "v1", "Pod"),
        ("", "v1", "Service"),
        ("", "v1", "Endpoints"),
        ("discovery.k8s.io", "v1", "EndpointSlice"),
        ("", "v1", "Event"),
        ("omnia.altairalabs.ai", "v1alpha1", "AgentRuntime"),
    ]
    counts: Counter[str] = Counter()
    for group, version, kind in kinds:
        counts[kind] = len(await client.list(GroupVersionKind(group, version, kind)))
    return sum(counts.values()) / max(1, counts["AgentRuntime"])


if __name__ == "__main__":
    asyncio.run(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
