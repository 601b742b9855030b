"""Omnia on any cluster: the same operator and manifests, the same conditions and reasons."""

from typing import Any

from levelset.client import Client
from levelset.codegen import crd_of
from levelset.errors import AlreadyExists
from levelset.kinds.apps_v1 import Deployment
from levelset.kinds.core_v1 import Service
from levelset.objects import GroupVersionKind, Ref, find_condition
from levelset.runtime.manager import Manager
from levelset_omnia import omnia_system
from levelset_omnia.kinds import AgentRuntime, PromptPack, Provider, ToolRegistry
from tests.cluster.kinds import is_established

API = "omnia.altairalabs.ai/v1alpha1"
DEFINITION = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
DEFINITIONS = [
    crd_of(kind) for kind in (AgentRuntime, PromptPack, Provider, ToolRegistry)
]  # reads files, so not on the loop
REASONS = {
    "PromptPackReady": "PromptPackFound",
    "ToolRegistryReady": "ToolRegistryFound",
    "DeploymentReady": "DeploymentCreated",
    "ServiceReady": "ServiceCreated",
}


def manifests(namespace: str) -> list[dict[str, Any]]:
    """An agent, its prompts and an external tool; the agent comes first and has to wait for the others."""
    source = {"type": "configmap", "configMapRef": {"name": "prompts"}}
    tools = [{"name": "search", "type": "http", "endpoint": {"url": "http://search.example.com"}}]
    agent = {
        "promptPackRef": {"name": "pack"},
        "toolRegistryRef": {"name": "tools"},
        "provider": {"secretRef": {"name": "key"}},
        "runtime": {"replicas": 0},
    }
    found: list[tuple[str, str, str, dict[str, Any]]] = [
        ("omnia.altairalabs.ai/v1alpha2", "AgentRuntime", "helper", {"spec": agent}),
        (API, "PromptPack", "pack", {"spec": {"version": "1.0.0", "source": source}}),
        (API, "ToolRegistry", "tools", {"spec": {"tools": tools}}),
        ("v1", "Secret", "key", {"stringData": {"api-key": "x"}}),
        ("v1", "ConfigMap", "prompts", {"data": {"system": "Be kind."}}),
    ]
    return [
        {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **rest}
        for api, kind, name, rest in found
    ]


async def define(client: Client) -> None:
    """Installs the CRDs of Omnia; on a shared cluster they may exist already."""
    for tree in DEFINITIONS:
        try:
            await client.create(tree)
        except AlreadyExists:
            continue
        ref: Any = Ref(DEFINITION, tree["metadata"]["name"])
        await client.wait(ref, is_established, within=60)


def has_status(agent: AgentRuntime) -> bool:
    conditions = agent.status.conditions if agent.status else ()
    found = {one.type: one.reason for one in conditions if one.status == "True"}
    return all(found.get(type_) == reason for type_, reason in REASONS.items())


async def test_an_agent_gets_its_deployment_and_service_with_the_documented_reasons(
    client: Client, namespace: str
) -> None:
    await define(client)
    manager = Manager(client)
    for one in omnia_system().controllers:
        manager.add(one.with_options(namespace=namespace))
    async with manager:
        for tree in manifests(namespace):
            await client.create(tree)
        agent = await client.wait(Ref(AgentRuntime, "helper", namespace), has_status, within=60)
        assert agent.status is not None
        ready = find_condition(agent.status.conditions, "Ready")
        assert (agent.status.phase, ready and ready.reason) == ("Pending", "RuntimeNotReady")
        assert agent.status.active_version == "1.0.0"
        children: list[Any] = [Deployment, Service]
        for kind in children:
            child: Any = await client.get(Ref(kind, "helper", namespace))
            assert [one.uid for one in child.metadata.owner_references] == [agent.metadata.uid]
        await client.delete(agent.ref)
        await client.wait_gone(agent.ref, within=60)
