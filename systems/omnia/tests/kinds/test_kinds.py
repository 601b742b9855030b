"""The schemas of AgentRuntime, PromptPack and ToolRegistry: defaults, validation, columns and short names."""

from typing import Any

import pytest

from levelset import GroupVersionKind, MergePatch, Ref
from levelset.codegen import crd_of
from levelset.errors import Invalid
from levelset.testing import Cluster
from levelset_omnia import AgentRuntime, PromptPack, ToolRegistry
from levelset_omnia.kinds import AgentRuntimeV1Alpha1

__all__: list[str] = []

API = "omnia.altairalabs.ai/v1alpha1"


def agent(**spec: Any) -> dict[str, Any]:
    needed = {"promptPackRef": {"name": "support"}, "providerSecretRef": {"name": "key"}}
    return manifest("AgentRuntime", {**needed, **spec})


def pack(**spec: Any) -> dict[str, Any]:
    return manifest("PromptPack", {"source": {"configMapRef": {"name": "prompts"}}, "version": "1.0.0", **spec})


def tools(*given: dict[str, Any]) -> dict[str, Any]:
    return manifest("ToolRegistry", {"tools": list(given)})


def tool(**given: Any) -> dict[str, Any]:
    return {"name": "search", "type": "http", "endpoint": {"url": "http://a.example.dev"}, **given}


def manifest(kind: str, spec: dict[str, Any], name: str = "one") -> dict[str, Any]:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


async def test_an_agent_has_defaults(cluster: Cluster) -> None:
    await cluster.define(AgentRuntimeV1Alpha1)
    made = await cluster.create(agent(session={}))
    spec = made.tree["spec"]
    assert spec["facade"] == {"type": "websocket", "port": 8080}
    assert spec["runtime"]["replicas"] == 1
    assert spec["session"] == {"type": "memory", "ttl": "24h"}
    assert spec["promptPackRef"] == {"name": "support", "track": "stable"}


async def test_a_pack_and_a_tool_have_defaults(cluster: Cluster) -> None:
    await cluster.define(PromptPack, ToolRegistry)
    made = await cluster.create(pack(rollout={"type": "canary", "canary": {}}))
    assert made.tree["spec"]["rollout"]["canary"] == {"weight": 10, "stepWeight": 10, "interval": "5m"}
    assert (await cluster.create(manifest("PromptPack", pack()["spec"], "two"))).tree["spec"]["rollout"] == {
        "type": "immediate"
    }
    (one,) = (await cluster.create(tools(tool()))).tree["spec"]["tools"]
    assert (one["timeout"], one["retries"]) == ("30s", 0)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (agent(promptPackRef={"name": ""}), "spec.promptPackRef.name"),
        (manifest("AgentRuntime", {"promptPackRef": {"name": "a"}}), "spec.providerSecretRef"),
        (agent(facade={"type": "http"}), "spec.facade.type"),
        (agent(facade={"port": 0}), "spec.facade.port"),
        (agent(facade={"port": 65536}), "spec.facade.port"),
        (agent(session={"type": "redis"}), "storeRef"),
        (agent(session={"type": "file"}), "spec.session.type"),
        (agent(session={"ttl": "soon"}), "spec.session.ttl"),
        (agent(runtime={"replicas": -1}), "spec.runtime.replicas"),
        (manifest("AgentRuntime", agent()["spec"], "1st"), "name"),
        (manifest("AgentRuntime", agent()["spec"], "a" * 57), "name"),
        (manifest("AgentRuntime", agent()["spec"], "a-canary"), "names that end with -canary"),
        (pack(version="one"), "spec.version"),
        (pack(source={"type": "git"}), "spec.source.type"),
        (pack(rollout={"type": "slow"}), "spec.rollout.type"),
        (pack(rollout={"canary": {"weight": 101}}), "spec.rollout.canary.weight"),
        (pack(rollout={"canary": {"stepWeight": 0}}), "spec.rollout.canary.stepWeight"),
        (pack(rollout={"canary": {"interval": "5"}}), "spec.rollout.canary.interval"),
        (tools(), "spec.tools"),
        (tools(tool(name="Search")), "spec.tools[0].name"),
        (tools(tool(name="a" * 64)), "spec.tools[0].name"),
        (tools(tool(type="soap")), "spec.tools[0].type"),
        (tools(tool(endpoint={})), "spec.tools[0].endpoint"),
        (tools(tool(endpoint={"url": "http://a", "selector": {"matchLabels": {"a": "b"}}})), "spec.tools[0].endpoint"),
        (tools(tool(endpoint={"selector": {"matchLabels": {}}})), "matchLabels"),
        (tools(tool(endpoint={"url": "somewhere"})), "spec.tools[0].endpoint.url"),
        (tools(tool(retries=11)), "spec.tools[0].retries"),
        (tools(tool(timeout="x")), "spec.tools[0].timeout"),
        (tools(tool(), tool()), "spec.tools[1]"),
    ],
)
async def test_an_invalid_object_is_rejected_with_its_field(
    cluster: Cluster, wrong: dict[str, Any], field: str
) -> None:
    await cluster.define(AgentRuntimeV1Alpha1, PromptPack, ToolRegistry)
    with pytest.raises(Invalid) as caught:
        await cluster.create(wrong)
    assert field in str(caught.value)


@pytest.mark.parametrize("version", ["1.0.0", "v1.0.0", "1.0.0-rc.1+build.5"])
async def test_versions_are_semantic_with_or_without_a_v(cluster: Cluster, version: str) -> None:
    await cluster.define(PromptPack)
    assert (await cluster.create(pack(version=version))).tree["spec"]["version"] == version


async def test_status_and_scale_are_subresources(cluster: Cluster) -> None:
    await cluster.define(AgentRuntimeV1Alpha1)
    await cluster.create(agent())
    ref = Ref(AgentRuntimeV1Alpha1, "one")
    resource = await cluster.resource(AgentRuntimeV1Alpha1)
    assert {"status", "scale"} <= set(resource.subresources)
    scale = GroupVersionKind("omnia.altairalabs.ai", "v1alpha1", "AgentRuntime")
    await cluster.patch(Ref(scale, "one"), MergePatch({"spec": {"replicas": 5}}), subresource="scale")
    assert (await cluster.get(ref)).spec.runtime.replicas == 5
    assert (await cluster.get(ref)).status is None


def test_short_names_columns_and_condition_lists_are_those_of_the_document() -> None:
    found = {one.__name__: crd_of(one) for one in (AgentRuntime, PromptPack, ToolRegistry)}
    names = {kind: one["spec"]["names"]["shortNames"] for kind, one in found.items()}
    assert names == {"AgentRuntime": ["agent", "ar"], "PromptPack": ["pp"], "ToolRegistry": ["tr"]}
    shown = {kind: one["spec"]["versions"][0]["additionalPrinterColumns"] for kind, one in found.items()}
    columns = {kind: [one["name"] for one in several if not one.get("priority")] for kind, several in shown.items()}
    assert columns == {
        "AgentRuntime": ["Phase", "Ready", "Version", "Age"],
        "PromptPack": ["Version", "Phase", "Strategy", "Age"],
        "ToolRegistry": ["Tools", "Phase", "Age"],
    }
    for one in found.values():
        status = one["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
        assert status["properties"]["conditions"]["x-kubernetes-list-map-keys"] == ["type"]
