"""Omnia with real processes, ports and prompts: the operator with the local data plane."""

import asyncio
import itertools
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from levelset import Client, MergePatch, NotFound, Ref, open_local
from levelset.kinds.apps_v1 import Deployment
from levelset.kinds.core_v1 import ConfigMap, Event, Pod, Service
from levelset.objects import read_manifests, to_tree
from levelset_local import Options, local_system
from levelset_machine import free_port, identity_of, is_alive
from levelset_omnia import Options as OmniaOptions
from levelset_omnia import omnia_system
from levelset_omnia.images import IMAGES
from levelset_omnia.kinds import AgentRuntime, PromptPack, ToolRegistry

EXAMPLES = Path(__file__).parents[3] / "examples" / "omnia"
API = "omnia.altairalabs.ai/v1alpha1"
REAL = 300  # seconds for real processes: generous, because the machine may be busy
# Nothing is polled within the time of a test: what it waits for comes by watches.
QUICK = OmniaOptions(readiness_delay=0, readiness_period=1, dependency_seconds=3600)


def local_omnia(**options: Any) -> Any:
    return open_local(local_system(Options(images=IMAGES)), omnia_system(QUICK), **options)


@cache
def agent_port() -> int:
    """The port of agents and tools on the addresses of their Pods: one that nothing uses on all addresses."""
    return free_port()


def manifests(namespace: str = "default") -> dict[str, dict[str, Any]]:
    """The minimal objects of an agent, by kind."""
    meta = {"namespace": namespace}
    source = {"type": "configmap", "configMapRef": {"name": "prompts"}}
    agent = {"promptPackRef": {"name": "pack"}, "providerSecretRef": {"name": "key"}, "facade": {"port": agent_port()}}
    made = {
        "ConfigMap": {"apiVersion": "v1", "metadata": {"name": "prompts", **meta}, "data": {"system": "Be kind."}},
        "Secret": {"apiVersion": "v1", "metadata": {"name": "key", **meta}, "stringData": {"api-key": "x"}},
        "PromptPack": {
            "apiVersion": API,
            "metadata": {"name": "pack", **meta},
            "spec": {"version": "1.0.0", "source": source},
        },
        "AgentRuntime": {"apiVersion": API, "metadata": {"name": "helper", **meta}, "spec": agent},
    }
    return {kind: {"kind": kind, **tree} for kind, tree in made.items()}


def is_running(agent: AgentRuntime) -> bool:
    status = agent.status
    return (
        status is not None and status.phase == "Running" and status.replicas is not None and status.replicas.ready > 0
    )


async def send(address: str, message: str) -> dict[str, Any]:
    """Sends one message over a new connection, as curl does."""
    reader, writer = await asyncio.open_connection(address, agent_port())
    body = json.dumps({"message": message}).encode()
    writer.write(b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nConnection: close\r\n")
    writer.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    try:
        head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    assert head.startswith(b"HTTP/1.1 200"), head
    answer: dict[str, Any] = json.loads(rest)
    return answer


async def test_each_kind_is_watched_once() -> None:
    async with local_omnia() as local:
        watched = [one.name.removesuffix(" (metadata only)") for one in local.manager.cluster.stats()]
    assert {"apps/v1 Deployment", "v1 Service"} <= set(watched)
    # The node needs the content of Secrets; Omnia has their metadata only, since it must not cache keys on a cluster.
    assert [name for name, times in Counter(watched).items() if times > 1] == ["v1 Secret"]


async def test_the_agent_runs_in_every_order_of_creation() -> None:
    orders = list(itertools.permutations(["ConfigMap", "PromptPack", "AgentRuntime"]))
    async with local_omnia() as local, asyncio.TaskGroup() as group:
        for number, order in enumerate(orders):
            group.create_task(create_in_order(local.client, f"order-{number}", order))


async def create_in_order(client: Client, namespace: str, order: tuple[str, ...]) -> None:
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    made = manifests(namespace)
    for kind in ("Secret", *order):
        await client.create(made[kind])
    await client.wait(Ref(AgentRuntime, "helper", namespace), is_running, within=REAL)


async def test_the_examples_run_an_agent_that_answers_and_calls_its_tool() -> None:
    trees = await asyncio.to_thread(lambda: [tree for one in sorted(EXAMPLES.glob("*.yaml")) for tree in example(one)])
    async with local_omnia() as local:
        for one in trees:
            await local.client.create(one)
        await local.client.wait(Ref(AgentRuntime, "helper", "default"), is_running, within=REAL)
        await local.client.wait(Ref(ToolRegistry, "tools", "default"), is_ready, within=REAL)
        service = await local.client.get(Ref(Service, "helper", "default"))
        address = service.spec.cluster_ip or ""
        assert (await send(address, "hello"))["text"] == "[You answer questions about our shop.] hello"
        answer = await wait_for_tool(address)
        assert answer["text"] == '{"sum": 42}'


def example(path: Path) -> list[Any]:
    """The objects of an example, with a free port in place of 8080 and 80."""
    found: list[Any] = [to_tree(one) for one in read_manifests(path.read_text())]
    for tree in found:
        spec = tree.get("spec", {})
        if tree["kind"] == "AgentRuntime":
            assert spec["facade"]["port"] == 8080
            spec["facade"]["port"] = agent_port()
        if tree["kind"] == "Service":
            assert spec["ports"][0]["port"] == 80
            spec["ports"][0]["port"] = agent_port()
        if tree["kind"] == "Deployment":
            (container,) = spec["template"]["spec"]["containers"]
            assert container["ports"][0]["containerPort"] == 8080
            container["ports"][0]["containerPort"] = agent_port()
            container["env"] = [{"name": "PORT", "value": str(agent_port())}]
    return found


def is_ready(registry: ToolRegistry) -> bool:
    return registry.status is not None and registry.status.phase == "Ready"


async def wait_for_tool(address: str) -> dict[str, Any]:
    """Retries until the agent has its tool: the tools file may change after the agent has started."""
    async with asyncio.timeout(120):
        while True:
            answer = await send(address, '/tool add {"numbers": [40, 2]}')
            if "is not known" not in answer["text"]:
                return answer
            await asyncio.sleep(0.2)


async def test_a_changed_prompt_rolls_the_pods_and_loses_no_request() -> None:
    async with local_omnia() as local:
        client: Client = local.client
        for one in manifests().values():
            await client.create(one)
        await client.wait(Ref(AgentRuntime, "helper", "default"), is_running, within=REAL)
        address = (await client.get(Ref(Service, "helper", "default"))).spec.cluster_ip or ""
        (before,) = await client.list(Pod)
        answers = asyncio.Queue[str]()
        async with asyncio.timeout(REAL), asyncio.TaskGroup() as group:
            sending = group.create_task(send_continuously(address, answers))
            assert await answers.get() == "[Be kind.] hello"
            await client.patch(Ref(ConfigMap, "prompts", "default"), MergePatch({"data": {"system": "Be brief."}}))
            await client.wait_gone(before.ref, uid=before.metadata.uid, within=REAL)
            while await answers.get() != "[Be brief.] hello":
                pass
            sending.cancel()
        await delete_everything(client)


async def send_continuously(address: str, answers: asyncio.Queue[str]) -> None:
    """Sends messages one after the other, each over a new connection; a failure fails the test."""
    while True:
        answers.put_nowait((await send(address, "hello"))["text"])
        await asyncio.sleep(0.01)


async def delete_everything(client: Client) -> None:
    """Deletes the agent, and checks that neither objects nor processes are left."""
    pods = await client.list(Pod)
    pids = [int(line) for pod in pods for line in await pid_of(client, pod)]
    alive = [found for found in map(identity_of, pids) if found is not None]
    await client.delete(Ref(AgentRuntime, "helper", "default"))
    for ref in (Ref(Deployment, "helper", "default"), Ref(Service, "helper", "default"), *(one.ref for one in pods)):
        await client.wait_gone(ref, within=REAL)
    assert not any(map(is_alive, alive))


async def pid_of(client: Client, pod: Pod) -> list[str]:
    """The pids of a Pod, from its container IDs."""
    try:
        found = await client.get(pod.ref)
    except NotFound:
        return []
    statuses = found.status.container_statuses if found.status else ()
    ids = [one.container_id or "" for one in statuses]
    return [one.rpartition("/")[2].split("-")[0] for one in ids if one.rpartition("/")[2].split("-")[0].isdigit()]


async def test_the_watch_of_its_pod_makes_a_tool_available() -> None:
    trees = await asyncio.to_thread(example, EXAMPLES / "2-tools.yaml")
    tools, calculator = Ref(ToolRegistry, "tools", "default"), Ref(Deployment, "calculator", "default")
    async with local_omnia() as local:
        for one in trees:
            await local.client.create(one)
        await local.client.patch(calculator, MergePatch({"spec": {"replicas": 0}}))
        await local.client.wait(calculator, lambda it: it.status is not None and not it.status.replicas, within=REAL)
        await local.client.wait(tools, is_failed, within=REAL)
        await local.client.patch(calculator, MergePatch({"spec": {"replicas": 1}}))
        await local.client.wait(
            calculator, lambda it: it.status is not None and it.status.ready_replicas == 1, within=REAL
        )
        await local.client.wait(tools, is_ready, within=REAL)


def has_one_replica(deployment: Deployment) -> bool:
    return deployment.status is not None and deployment.status.ready_replicas == 1


def is_failed(registry: ToolRegistry) -> bool:
    return registry.status is not None and registry.status.phase != "Ready"


async def test_a_canary_continues_after_a_restart_of_the_manager(tmp_path: Path) -> None:
    pack = Ref(PromptPack, "pack", "default")
    data = str(tmp_path / "omnia.db")
    async with local_omnia(data=data) as local:
        for one in manifests().values():
            await local.client.create(one)
        await local.client.wait(Ref(AgentRuntime, "helper", "default"), is_running, within=REAL)
        second = manifests()["ConfigMap"] | {"metadata": {"name": "second", "namespace": "default"}}
        await local.client.create(second)
        source = {"type": "configmap", "configMapRef": {"name": "second"}}
        rollout = {"type": "canary", "canary": {"weight": 10, "stepWeight": 30, "interval": "1s"}}
        spec = {"version": "2.0.0", "source": source, "rollout": rollout}
        await local.client.patch(pack, MergePatch({"spec": spec}))
        await local.client.wait(pack, lambda it: it.status is not None and it.status.canary_weight == 40, within=REAL)
    async with local_omnia(data=data) as local:
        await local.client.wait(pack, lambda it: it.status is not None and it.status.phase == "Active", within=REAL)
        events = sorted(await local.client.list(Event, namespace="default"), key=lambda it: str(it.event_time))
    messages = " ".join(it.message or "" for it in events if (it.reason or "").startswith("Canary"))
    assert re.findall(r"(\d+) %", messages) == ["10", "40", "70", "100"]
