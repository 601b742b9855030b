"""ToolRegistries: their tools are found among Services, and watched for somebody who answers."""

from levelset_omnia.toolregistry.discovery import Found, choose_service, discover, endpoint_of, has_ready_endpoints
from levelset_omnia.toolregistry.reconcile import tool_registries_controller
from levelset_omnia.toolregistry.status import phase_of, registry_status

__all__ = [
    "Found",
    "choose_service",
    "discover",
    "endpoint_of",
    "has_ready_endpoints",
    "phase_of",
    "registry_status",
    "tool_registries_controller",
]
