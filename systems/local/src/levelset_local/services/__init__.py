"""Services: each has a proxy on its own address of this machine that forwards to its endpoints."""

from levelset_local.services.controller import services_controller
from levelset_local.services.proxies import ListenAddress, Proxies, Proxy, Route, plan_listeners
from levelset_local.services.resolver import Resolver, service_lookup

__all__ = [
    "ListenAddress",
    "Proxies",
    "Proxy",
    "Resolver",
    "Route",
    "plan_listeners",
    "service_lookup",
    "services_controller",
]
