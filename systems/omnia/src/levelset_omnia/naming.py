"""The names that Omnia's objects, its operator and its agents agree on: labels, annotations, paths and suffixes."""

from typing import Final

__all__ = [
    "AGENT",
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

AGENT_FINALIZER: Final = f"agentruntime.{GROUP}/finalizer"
LEASE: Final = "4416a20d.altairalabs.ai"
"""The Lease by which replicas of the operator elect a leader."""
DEFAULT_AGENT_IMAGE: Final = "ghcr.io/altairalabs/omnia-agent:latest"

AGENT: Final = "agent"
"""The container of an agent's Pod."""
FACADE: Final = "facade"
"""The port that an agent is reached at, in its container and in its Service."""
PROMPTS_PATH: Final = "/etc/omnia/prompts"
TOOLS_PATH: Final = "/etc/omnia/tools"
TOOLS_FILE: Final = "tools.json"
CANARY_SUFFIX: Final = "-canary"
TOOLS_SUFFIX: Final = "-tools"

TRACK: Final = f"{GROUP}/track"
"""The label that tells Pods of the active version (`stable`) from those of one that is tried (`canary`)."""
STABLE: Final = "stable"
CANARY: Final = "canary"
CONFIG_HASH: Final = f"{GROUP}/config-hash"
"""The annotation of a Pod template that changes with what the agent reads when it starts."""
PACK_LABEL: Final = f"{GROUP}/promptpack"
"""The label that makes several PromptPacks versions of one pack."""

TOOL_NAME: Final = f"{GROUP}/tool-name"
TOOL_DESCRIPTION: Final = f"{GROUP}/tool-description"
TOOL_TYPE: Final = f"{GROUP}/tool-type"
TOOL_PATH: Final = f"{GROUP}/tool-path"
SERVICE_NAME: Final = "kubernetes.io/service-name"
"""The label by which an EndpointSlice says which Service it belongs to."""


def selector_of(agent_name: str) -> dict[str, str]:
    """The labels of everything that runs for an agent, by which its Service finds its Pods."""
    return {
        "app.kubernetes.io/name": "omnia-agent",
        "app.kubernetes.io/instance": agent_name,
        "app.kubernetes.io/managed-by": "omnia-operator",
    }
