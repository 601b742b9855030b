"""Services: their defaults and rules, their IP families, and the allocation of their ClusterIPs and node ports."""

from levelset.apiserver.registry.builtin.services.cluster_ip_allocator import DEFAULT_SERVICE_CIDR
from levelset.apiserver.registry.builtin.services.service_strategy import ServiceStrategy, set_service_defaults

__all__ = ["DEFAULT_SERVICE_CIDR", "ServiceStrategy", "set_service_defaults"]
