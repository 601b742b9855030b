"""Services: each is reached at its own address on this machine, through a proxy that leads to its endpoints."""

from levelset_local.services.plan import Door, Route, lookup_in, plan_doors
from levelset_local.services.proxies import Proxies, Proxy
from levelset_local.services.reconcile import services_controller

__all__ = ["Door", "Proxies", "Proxy", "Route", "lookup_in", "plan_doors", "services_controller"]
