"""The controller of ToolRegistries: discovers tools among Services, and checks their endpoints."""

from levelset_omnia.toolregistry.discovery import (
    ToolService,
    choose_service,
    discover,
    endpoint_of,
    has_ready_endpoints,
)
from levelset_omnia.toolregistry.reconciler import tool_registries_controller
from levelset_omnia.toolregistry.status import phase_of, registry_status

__all__ = [
    "ToolService",
    "choose_service",
    "discover",
    "endpoint_of",
    "has_ready_endpoints",
    "phase_of",
    "registry_status",
    "tool_registries_controller",
]
