"""Endpoints: maintain the EndpointSlices and the Endpoints object of each Service."""

from levelset_local.endpoints.controller import endpoint_slices_controller, endpoints_controller
from levelset_local.endpoints.endpoint_slices import MANAGED_BY, MANAGER, SERVICE_NAME, SlicePlan, plan_slices
from levelset_local.endpoints.legacy_endpoints import ENDPOINTS_WARNING, plan_endpoints

__all__ = [
    "ENDPOINTS_WARNING",
    "MANAGED_BY",
    "MANAGER",
    "SERVICE_NAME",
    "SlicePlan",
    "endpoint_slices_controller",
    "endpoints_controller",
    "plan_endpoints",
    "plan_slices",
]
