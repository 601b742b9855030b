"""Helpers for tests of Omnia: object builders, and a fake data plane that makes every Deployment ready."""

from typing import Any

from levelset import Context, Controller, ObjectMeta, Ref
from levelset.kinds.apps_v1 import Deployment, DeploymentStatus
from levelset.kinds.core_v1 import ConfigMap, Secret, Service, ServicePort, ServiceSpec
from levelset.kinds.discovery_v1 import Endpoint, EndpointConditions, EndpointPort, EndpointSlice
from levelset.testing import Cluster
from levelset_omnia import (
    AgentRuntime,
    AgentRuntimeSpec,
    Options,
    PromptPack,
    PromptPackSpec,
    Provider,
    ProviderSpec,
    ToolRegistry,
    ToolRegistrySpec,
    omnia_system,
)
from levelset_omnia.kinds import (
    Canary,
    ConfigMapRef,
    PromptPackRef,
    ProviderConfig,
    Rollback,
    Rollout,
    Runtime,
    SecretKeyRef,
    SecretRef,
    Source,
    Tool,
    ToolEndpoint,
    ToolRegistryRef,
    ToolSelector,
)
from levelset_omnia.well_known import PACK_LABEL, SERVICE_NAME

__all__ = [
    "FakeDataPlane",
    "agent",
    "canary",
    "condition",
    "controllers",
    "endpoints",
    "pack",
    "prompts",
    "provider",
    "registry",
    "secret",
    "service",
    "tool",
    "weights",
]

NS = "test"


def controllers(options: Options | None = None) -> list[Controller[Any]]:
    """The three controllers."""
    return list(omnia_system(options).controllers)


class FakeDataPlane:
    """Makes Deployments ready at once, except those in `stuck`."""

    def __init__(self) -> None:
        self.stuck: set[str] = set()

    def controller(self) -> Controller[Deployment]:
        """The controller of the fake data plane; Deployments in `stuck` get Pods that are never ready."""
        return Controller(Deployment, self._reconcile, name="plane")

    async def _reconcile(self, one: Deployment, ctx: Context) -> None:
        wanted = 1 if one.spec.replicas is None else one.spec.replicas
        ready = 0 if one.name in self.stuck else wanted
        status = DeploymentStatus(
            observed_generation=one.metadata.generation,
            replicas=wanted,
            updated_replicas=wanted,
            ready_replicas=ready,
            available_replicas=ready,
            unavailable_replicas=wanted - ready,
        )
        await ctx.set_status(one, status)


def agent(name: str = "helper", *, replicas: int = 1, pack: str = "support", **spec: Any) -> AgentRuntime:
    """An agent that uses the pack `support`."""
    given: dict[str, Any] = {
        "prompt_pack_ref": PromptPackRef(name=pack),
        "provider": ProviderConfig(secret_ref=SecretRef(name="provider")),
        "runtime": Runtime(replicas=replicas),
        **spec,
    }
    if isinstance(given.get("tool_registry_ref"), str):
        given["tool_registry_ref"] = ToolRegistryRef(name=given["tool_registry_ref"])
    return AgentRuntime.new(name, AgentRuntimeSpec(**given), namespace=NS)


def canary(weight: int = 10, step: int = 30, interval: str = "1s", *, rollback: Rollback | None = None) -> Rollout:
    """A canary rollout."""
    strategy = Canary(weight=weight, step_weight=step, interval=interval, rollback=rollback)
    return Rollout(type="canary", canary=strategy)


def pack(
    name: str = "support",
    version: str = "1.0.0",
    *,
    source: str | None = "prompts",
    rollout: Rollout | None = None,
    of: str | None = None,
) -> PromptPack:
    """A pack whose prompts are in the ConfigMap `prompts`; `of` makes it a version of another pack."""
    ref = None if source is None else ConfigMapRef(name=source)
    spec = PromptPackSpec(source=Source(config_map_ref=ref), version=version, rollout=rollout or Rollout())
    return PromptPack.new(name, spec, namespace=NS, labels={} if of is None else {PACK_LABEL: of})


def prompts(name: str = "prompts", **data: str) -> ConfigMap:
    """A ConfigMap with prompts."""
    return ConfigMap.new(name, namespace=NS, data=data or {"system": "You help."})


def provider(**spec: Any) -> Provider:
    """A Provider with its key in the Secret `key`."""
    given: dict[str, Any] = {"type": "openai", "secret_ref": SecretKeyRef(name="key"), **spec}
    return Provider.new("models", ProviderSpec(**given), namespace=NS)


def secret(name: str = "provider", *, key: bytes = b"k", **data: bytes) -> Secret:
    """A Secret with a key, or with other data."""
    return Secret.new(name, namespace=NS, data=data or {"api-key": key})


def tool(name: str = "search", *, url: str | None = None, port: str | None = None, **more: Any) -> Tool:
    """A tool with a URL, or one that is discovered by the label `tool: <name>`."""
    namespace = more.pop("namespace", None)
    labels = more.pop("labels", {"tool": name})
    selector = None if url else ToolSelector(match_labels=labels, port=port, namespace=namespace)
    return Tool(name=name, type=more.pop("type", "http"), endpoint=ToolEndpoint(url=url, selector=selector), **more)


def registry(*tools: Tool, name: str = "tools", namespace: str = NS) -> ToolRegistry:
    """A registry of some tools."""
    return ToolRegistry.new(name, ToolRegistrySpec(tools=tools or (tool(),)), namespace=namespace)


def service(name: str = "search", *, label: str | None = None, namespace: str = NS, **more: Any) -> Service:
    """A Service with the label by which a tool is discovered."""
    ports = more.pop("ports", (ServicePort(port=8080),))
    labels = more.pop("labels", {"tool": label or name})
    meta = ObjectMeta(name=name, namespace=namespace, labels=labels, annotations=more.pop("annotations", {}))
    return Service(metadata=meta, spec=ServiceSpec(ports=ports, selector={"app": name}, **more))


def endpoints(of: str = "search", *, ready: bool | None = True, namespace: str = NS, **more: Any) -> EndpointSlice:
    """An EndpointSlice of a Service, with one address."""
    return EndpointSlice.new(
        f"{of}-1",
        namespace=namespace,
        labels={SERVICE_NAME: of},
        address_type="IPv4",
        endpoints=(Endpoint(addresses=("10.0.0.9",), conditions=EndpointConditions(ready=ready)),),
        ports=more.pop("ports", (EndpointPort(name="", port=8080),)),
    )


def condition(obj: Any, kind: str) -> tuple[str, str] | None:
    """The status and the reason of a condition."""
    for one in obj.status.conditions if obj.status else ():
        if one.type == kind:
            return one.status, one.reason
    return None


def weights(cluster: Cluster, ref: Ref[PromptPack]) -> list[int | None]:
    """The successive weights of a pack, without repetitions; None for no canary."""
    found: list[int | None] = []
    for version in cluster.history(ref):
        one = None if version.after is None else version.after.get("status", {}).get("canaryWeight")
        if not found or found[-1] != one:
            found.append(one)
    return found
