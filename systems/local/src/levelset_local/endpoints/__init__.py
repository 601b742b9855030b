"""Endpoints: where each Service leads to, told as EndpointSlices and as Endpoints while its Pods come and go."""

from levelset_local.endpoints.legacy import plan_endpoints
from levelset_local.endpoints.plan import MANAGED_BY, MANAGER, SERVICE_NAME, SlicePlan, plan_slices
from levelset_local.endpoints.reconcile import endpoint_slices_controller, endpoints_controller

__all__ = [
    "MANAGED_BY",
    "MANAGER",
    "SERVICE_NAME",
    "SlicePlan",
    "endpoint_slices_controller",
    "endpoints_controller",
    "plan_endpoints",
    "plan_slices",
]
