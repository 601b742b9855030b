"""Omnia: agents, their prompts and their tools as Kubernetes objects, and the operator that runs them."""

from levelset_omnia.agentruntime import agent_runtimes_controller
from levelset_omnia.kinds import (
    AgentRuntime,
    AgentRuntimeSpec,
    AgentRuntimeStatus,
    PromptPack,
    PromptPackSpec,
    PromptPackStatus,
    Provider,
    ProviderSpec,
    ProviderStatus,
    ToolRegistry,
    ToolRegistrySpec,
    ToolRegistryStatus,
)
from levelset_omnia.options import Options
from levelset_omnia.promptpack import prompt_packs_controller
from levelset_omnia.provider import providers_controller
from levelset_omnia.system import laptop_system, omnia_system
from levelset_omnia.toolregistry import tool_registries_controller

__all__ = [
    "AgentRuntime",
    "AgentRuntimeSpec",
    "AgentRuntimeStatus",
    "Options",
    "PromptPack",
    "PromptPackSpec",
    "PromptPackStatus",
    "Provider",
    "ProviderSpec",
    "ProviderStatus",
    "ToolRegistry",
    "ToolRegistrySpec",
    "ToolRegistryStatus",
    "agent_runtimes_controller",
    "laptop_system",
    "omnia_system",
    "prompt_packs_controller",
    "providers_controller",
    "tool_registries_controller",
]
