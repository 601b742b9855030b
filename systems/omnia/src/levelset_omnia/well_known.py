"""Well-known names of Omnia: API group, labels, annotations, finalizer, mount paths and name suffixes."""

from typing import Final

__all__ = [
    "AGENT",
    "AGENT_API",
    "AGENT_FINALIZER",
    "API",
    "CANARY",
    "CANARY_SUFFIX",
    "CONFIG_HASH",
    "DEFAULT_AGENT_IMAGE",
    "FACADE",
    "GROUP",
    "LEASE",
    "PACK_LABEL",
    "PROMPTS_PATH",
    "SERVICE_NAME",
    "STABLE",
    "TOOLS_FILE",
    "TOOLS_PATH",
    "TOOLS_SUFFIX",
    "TOOL_DESCRIPTION",
    "TOOL_NAME",
    "TOOL_PATH",
    "TOOL_TYPE",
    "TRACK",
    "selector_of",
]

GROUP: Final = "omnia.altairalabs.ai"
API: Final = f"{GROUP}/v1alpha1"
AGENT_API: Final = f"{GROUP}/v1alpha2"
"""The version of AgentRuntimes in which they are stored; upstream changed v1alpha1 in place five days later."""

AGENT_FINALIZER: Final = f"agentruntime.{GROUP}/finalizer"
LEASE: Final = "4416a20d.altairalabs.ai"
"""The Lease for leader election among replicas of the operator."""
DEFAULT_AGENT_IMAGE: Final = "ghcr.io/altairalabs/omnia-agent:latest"

AGENT: Final = "agent"
"""The name of the container in an agent's Pod."""
FACADE: Final = "facade"
"""The name of an agent's port, in its container and in its Service."""
PROMPTS_PATH: Final = "/etc/omnia/prompts"
TOOLS_PATH: Final = "/etc/omnia/tools"
TOOLS_FILE: Final = "tools.json"
CANARY_SUFFIX: Final = "-canary"
TOOLS_SUFFIX: Final = "-tools"

TRACK: Final = f"{GROUP}/track"
"""The label that distinguishes Pods of the active version (`stable`) from those of a canary version (`canary`)."""
STABLE: Final = "stable"
CANARY: Final = "canary"
CONFIG_HASH: Final = f"{GROUP}/config-hash"
"""The Pod template annotation with the hash of what an agent reads when it starts; a change rolls the Pods."""
PACK_LABEL: Final = f"{GROUP}/promptpack"
"""The label that makes several PromptPacks versions of one pack."""

TOOL_NAME: Final = f"{GROUP}/tool-name"
TOOL_DESCRIPTION: Final = f"{GROUP}/tool-description"
TOOL_TYPE: Final = f"{GROUP}/tool-type"
TOOL_PATH: Final = f"{GROUP}/tool-path"
SERVICE_NAME: Final = "kubernetes.io/service-name"
"""The label of an EndpointSlice that names its Service."""


def selector_of(agent_name: str) -> dict[str, str]:
    """The labels of all children of an agent, by which its Service selects its Pods."""
    return {
        "app.kubernetes.io/name": "omnia-agent",
        "app.kubernetes.io/instance": agent_name,
        "app.kubernetes.io/managed-by": "omnia-operator",
    }
