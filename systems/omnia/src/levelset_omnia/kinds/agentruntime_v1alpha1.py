"""AgentRuntime as in Omnia's document, version v1alpha1: the key of the provider is all that it says about a model."""

from levelset import Resource, Spec
from levelset_omnia.kinds.agentruntime import (
    COLUMNS,
    RULES,
    SCALE,
    AgentRuntimeStatus,
    Facade,
    PromptPackRef,
    Runtime,
    Session,
    ToolRegistryRef,
)
from levelset_omnia.kinds.provider import SecretRef
from levelset_omnia.well_known import API

__all__ = ["AgentRuntimeSpecV1Alpha1", "AgentRuntimeV1Alpha1"]


class AgentRuntimeSpecV1Alpha1(Spec):
    """The desired state of an agent."""

    prompt_pack_ref: PromptPackRef
    provider_secret_ref: SecretRef
    """The Secret with the key for the model provider, under `api-key`."""
    facade: Facade = Facade()
    tool_registry_ref: ToolRegistryRef | None = None
    session: Session | None = None
    runtime: Runtime = Runtime()


class AgentRuntimeV1Alpha1(
    Resource[AgentRuntimeSpecV1Alpha1, AgentRuntimeStatus],
    api=API,
    kind="AgentRuntime",
    short_names=["agent", "ar"],
    columns=COLUMNS,
    scale=SCALE,
    rules=RULES,
):
    """An agent that runs in Pods and is reached through a Service of the same name."""
