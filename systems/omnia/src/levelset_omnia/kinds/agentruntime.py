"""AgentRuntime: an agent that is to run, with the prompts, tools, session store and model key that it uses."""

from typing import Annotated, Final, Literal

from levelset import Column, Condition, ListMap, Meta, Model, Resource, Rule, Scale, Spec, Status
from levelset.kinds.core_v1 import Affinity, ResourceRequirements, Toleration
from levelset_omnia.durations import Duration
from levelset_omnia.naming import API, CANARY_SUFFIX

__all__ = [
    "AgentRuntime",
    "AgentRuntimeSpec",
    "AgentRuntimeStatus",
    "CanaryReplicas",
    "Facade",
    "PromptPackRef",
    "ReplicaCounts",
    "Runtime",
    "SecretRef",
    "Session",
    "ToolRegistryRef",
]

Name = Annotated[str, Meta(min_length=1, max_length=253)]

# Its Service has the same name, and its canary and its tools have longer ones.
_NAME_RULE: Final = Rule(
    "self.metadata.name.matches('^[a-z]([-a-z0-9]{0,54}[a-z0-9])?$')",
    "the name of an AgentRuntime is that of its Service: at most 56 of a-z, 0-9 and -, a letter first",
)

_CANARY_RULE: Final = Rule(
    f"!self.metadata.name.endsWith('{CANARY_SUFFIX}')",
    f"names that end with {CANARY_SUFFIX} are those of Deployments of versions that are tried",
)


class SecretRef(Model):
    """A Secret in the same namespace."""

    name: Name


class PromptPackRef(Model):
    """The prompts that an agent uses: a pack, and which of its versions."""

    name: Name
    version: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    """This very version; without it, the newest one on the track."""
    track: Annotated[str, Meta(min_length=1, max_length=63)] = "stable"
    """`stable` passes prereleases over; any other word takes the newest version of all."""


class Facade(Model):
    """How people reach an agent."""

    type: Literal["websocket", "grpc"] = "websocket"
    port: Annotated[int, Meta(ge=1, le=65535)] = 8080


class ToolRegistryRef(Model):
    """The tools that an agent may call."""

    name: Name
    namespace: Name | None = None
    """Where the registry is; the agent's own namespace unless given."""


class Session(
    Model,
    rules=[Rule("self.type == 'memory' || has(self.storeRef)", "a session store needs storeRef, a Secret with a url")],
):
    """Where an agent keeps its conversations."""

    type: Literal["memory", "redis", "postgres"] = "memory"
    store_ref: SecretRef | None = None
    """The Secret with the store's address, under the key `url`."""
    ttl: Duration = "24h"


class Runtime(Model):
    """How many Pods run an agent, and where."""

    replicas: Annotated[int, Meta(ge=0, le=10_000)] = 1
    resources: ResourceRequirements = ResourceRequirements()
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None


class AgentRuntimeSpec(Spec):
    """What somebody wants of an agent."""

    prompt_pack_ref: PromptPackRef
    provider_secret_ref: SecretRef
    """The Secret with the key for the model provider, under `api-key`."""
    facade: Facade = Facade()
    tool_registry_ref: ToolRegistryRef | None = None
    session: Session | None = None
    runtime: Runtime = Runtime()


class ReplicaCounts(Model):
    """How many Pods there should be, and how many there are."""

    desired: int
    ready: int
    available: int


class CanaryReplicas(Model):
    """How far a version that is tried has come in this agent."""

    version: str
    weight: int
    """The share of traffic, in percent, that the pack asks for."""
    replicas: int
    """How many Pods that makes."""
    ready: int


class AgentRuntimeStatus(Status):
    """How an agent is."""

    phase: Literal["Pending", "Running", "Failed"] | None = None
    replicas: ReplicaCounts | None = None
    active_version: str | None = None
    canary: CanaryReplicas | None = None
    conditions: Annotated[tuple[Condition, ...], ListMap("type")] = ()
    observed_generation: int | None = None


class AgentRuntime(
    Resource[AgentRuntimeSpec, AgentRuntimeStatus],
    api=API,
    short_names=["agent", "ar"],
    columns=[
        Column("Phase", ".status.phase"),
        Column("Ready", ".status.replicas.ready", "integer"),
        Column("Version", ".status.activeVersion"),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ],
    scale=Scale(spec=".spec.runtime.replicas", status=".status.replicas.ready"),
    rules=[_NAME_RULE, _CANARY_RULE],
):
    """An agent that runs in Pods and is reached through a Service of the same name."""
