"""AgentRuntime: an agent, with the prompts, tools, session store and model provider that it uses."""

from typing import Annotated, Final, Literal

from levelset import Column, Condition, ListMap, Meta, Resource, Rule, Scale, Spec, Status
from levelset.kinds.core_v1 import Affinity, ResourceRequirements, Toleration
from levelset.objects import Model
from levelset_omnia.kinds.provider import ProviderConfig, SecretRef
from levelset_omnia.kinds.values import Duration
from levelset_omnia.well_known import AGENT_API, CANARY_SUFFIX

__all__ = [
    "COLUMNS",
    "RULES",
    "SCALE",
    "AgentRuntime",
    "AgentRuntimeSpec",
    "AgentRuntimeStatus",
    "CanaryReplicas",
    "Facade",
    "PromptPackRef",
    "ProviderRef",
    "ReplicaCounts",
    "Runtime",
    "Session",
    "ToolRegistryRef",
]

Name = Annotated[str, Meta(min_length=1, max_length=253)]

# The Service has the same name, and the canary Deployment and the tools ConfigMap add a suffix to it.
_NAME_RULE: Final = Rule(
    "self.metadata.name.matches('^[a-z]([-a-z0-9]{0,54}[a-z0-9])?$')",
    "the name of an AgentRuntime is that of its Service: at most 56 of a-z, 0-9 and -, a letter first",
)

_CANARY_RULE: Final = Rule(
    f"!self.metadata.name.endsWith('{CANARY_SUFFIX}')",
    f"names that end with {CANARY_SUFFIX} are reserved for canary Deployments",
)


class PromptPackRef(Model):
    """The prompts that an agent uses: a pack, and which of its versions."""

    name: Name
    version: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    """Pins this version; without it, the newest one on the track."""
    track: Annotated[str, Meta(min_length=1, max_length=63)] = "stable"
    """`stable` skips prereleases; any other track takes the newest version of all."""


class Facade(Model):
    """How clients reach an agent."""

    type: Literal["websocket", "grpc"] = "websocket"
    port: Annotated[int, Meta(ge=1, le=65535)] = 8080


class ToolRegistryRef(Model):
    """The tools that an agent may call."""

    name: Name
    namespace: Name | None = None
    """The namespace of the registry; defaults to that of the agent."""


class ProviderRef(Model):
    """The Provider that an agent uses."""

    name: Name
    namespace: Name | None = None
    """The namespace of the Provider; defaults to that of the agent. Its Secret is read in that of the agent."""


class Session(
    Model,
    rules=[Rule("self.type == 'memory' || has(self.storeRef)", "a session store needs storeRef, a Secret with a url")],
):
    """Where an agent stores its conversations."""

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
    """The desired state of an agent."""

    prompt_pack_ref: PromptPackRef
    provider_ref: ProviderRef | None = None
    """Takes precedence over `provider`."""
    provider: ProviderConfig | None = None
    """Without a provider and a reference to one, agents answer with a mock."""
    facade: Facade = Facade()
    tool_registry_ref: ToolRegistryRef | None = None
    session: Session | None = None
    runtime: Runtime = Runtime()


class ReplicaCounts(Model):
    """Desired, ready and available Pods."""

    desired: int
    ready: int
    available: int


class CanaryReplicas(Model):
    """The progress of a canary version in this agent."""

    version: str
    weight: int
    """The share of traffic, in percent, that the pack specifies."""
    replicas: int
    """The number of Pods for that share."""
    ready: int
    requests: int = 0
    """The requests that its Pods have answered; counted if the pack is rolled back by errors."""
    errors: int = 0


class AgentRuntimeStatus(Status):
    """The observed state of an agent."""

    phase: Literal["Pending", "Running", "Failed"] | None = None
    replicas: ReplicaCounts | None = None
    active_version: str | None = None
    canary: CanaryReplicas | None = None
    conditions: Annotated[tuple[Condition, ...], ListMap("type")] = ()
    observed_generation: int | None = None


COLUMNS: Final = [
    Column("Phase", ".status.phase"),
    Column("Ready", ".status.replicas.ready", "integer"),
    Column("Version", ".status.activeVersion"),
    Column("Age", ".metadata.creationTimestamp", "date"),
]
SCALE: Final = Scale(spec=".spec.runtime.replicas", status=".status.replicas.ready")
RULES: Final = [_NAME_RULE, _CANARY_RULE]


class AgentRuntime(
    Resource[AgentRuntimeSpec, AgentRuntimeStatus],
    api=AGENT_API,
    short_names=["agent", "ar"],
    columns=COLUMNS,
    scale=SCALE,
    rules=RULES,
    stored=True,
):
    """An agent that runs in Pods and is reached through a Service of the same name."""
