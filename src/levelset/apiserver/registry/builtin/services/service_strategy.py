"""Services: defaults, validation, and the allocation of their ClusterIPs and node ports."""

from collections.abc import Callable

from msgspec.structs import replace

from levelset.apiserver.registry.builtin.services.cluster_ip_allocator import DEFAULT_SERVICE_CIDR, ClusterIpAllocator
from levelset.apiserver.registry.builtin.services.ip_families import complete_addresses, complete_families
from levelset.apiserver.registry.builtin.services.node_port_allocator import NodePortAllocator, has_repeated_ports
from levelset.apiserver.registry.builtin.strategies import builtin_rules
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object, Rules, ServedResource
from levelset.apiserver.resources.server_state import ServerState, add_missing_claims, new_claims
from levelset.errors import Cause

__all__ = ["ServiceStrategy", "set_service_defaults"]


class ServiceStrategy:
    """The rules of the Service kind, with the allocators that they need."""

    def __init__(self, cidrs: str = DEFAULT_SERVICE_CIDR) -> None:
        self._cluster_ips = ClusterIpAllocator(cidrs)
        self._node_ports = NodePortAllocator()
        rules = builtin_rules("", "Service")
        self.rules: Rules = replace(
            rules,
            default=set_service_defaults,
            prepare_create=self._prepare_create,
            allocate_update=self._allocate_update,
            check_allocation=self._check_allocation,
            prepare_part=_prepare_part,
        )

    @property
    def cidrs(self) -> list[str]:
        """The ranges of ClusterIPs, one for each IP family of the cluster."""
        return self._cluster_ips.cidrs

    @property
    def first_address(self) -> str:
        """The ClusterIP of the Service of the API server itself."""
        return self._cluster_ips.first()

    async def load(self, state: ServerState) -> None:
        """Loads the allocations of the stored Services, and follows every write from then on."""
        served = state.catalog.find("", "v1", "services")
        if served is None:
            return
        state.add_resource_listener(served.prefix, self._stored)
        state.reservers[served.prefix] = self._reserve
        state.claimers[served.prefix] = self.claims
        if state.shared is not None:
            self._cluster_ips.start_at(state.random.getrandbits(32))
            self._node_ports.start_at(state.random.getrandbits(32))
        page = await state.storage.list(served.prefix)
        for item in page.items:
            tree = served_tree(served, item)
            self._stored(served, None, tree)
            await add_missing_claims(state, self.claims(tree))

    def claims(self, service: Object) -> dict[str, bytes]:
        """The claims of the unique values of a Service; see `Claimer`."""
        addresses = [("clusterips", one) for one in self._cluster_ips.values(service)]
        ports = [("nodeports", str(one)) for one in self._node_ports.values(service)]
        return new_claims(_owner(service), [*addresses, *ports])

    def _stored(self, _served: ServedResource, before: Object | None, after: Object | None) -> None:
        owner = _owner(after or {})
        self._cluster_ips.update(before, after, owner)
        self._node_ports.update(before, after, owner)

    def _reserve(self, tree: Object) -> Callable[[], None]:
        owner = _owner(tree)
        releases = (self._cluster_ips.reserve(tree, owner), self._node_ports.reserve(tree, owner))

        def release() -> None:
            for one in releases:
                one()

        return release

    def _prepare_create(self, tree: Object) -> None:
        tree.setdefault("status", {}).setdefault("loadBalancer", {})
        spec = tree["spec"]
        complete_addresses(spec, None)
        if complete_families(spec, None, self._cluster_ips.families):
            return  # refused by `_check_allocation`, which must see what the client has sent
        self._node_ports.allocate(spec)
        self._cluster_ips.allocate(spec)

    def _allocate_update(self, new: Object, old: Object) -> None:
        spec, former = new["spec"], map_member(old, "spec")
        self._node_ports.inherit(spec, former)
        if not has_repeated_ports(spec):
            self._node_ports.allocate(spec)
        _clear_former_type(spec, former)
        complete_addresses(spec, former)
        causes = complete_families(spec, former, self._cluster_ips.families)
        if not causes and len(list_member(spec, "ipFamilies")) > len(list_member(former, "ipFamilies")):
            self._cluster_ips.allocate(spec)

    def _check_allocation(self, new: Object, old: Object | None, *, dry_run: bool) -> list[Cause]:
        spec, former = map_member(new, "spec"), None if old is None else map_member(old, "spec")
        causes = complete_families(dict(spec), former, self._cluster_ips.families)
        owner = _allocating_owner(new, old)
        causes = causes or self._cluster_ips.check(new, former or {}, owner, dry_run=dry_run)
        return causes or self._node_ports.check_requested(spec, former, owner, dry_run=dry_run)


def _prepare_part(new: Object, _old: Object, _subresource: str, _now: str) -> None:
    """Sets the mode of load balancer addresses, and what is always in a status."""
    status = new["status"] = map_member(new, "status")
    balancer = status.setdefault("loadBalancer", {})
    if map_member(new, "spec").get("type") == "LoadBalancer":
        for one in list_member(balancer, "ingress"):
            if one.get("ip"):
                one.setdefault("ipMode", "VIP")
    for condition in list_member(status, "conditions"):
        for name, zero in (("lastTransitionTime", None), ("reason", ""), ("message", "")):
            condition.setdefault(name, zero)


def _clear_former_type(spec: Object, former: Object) -> None:
    """Removes what belonged to the former type, and a client has sent back unchanged."""
    kind, names = spec["type"], list[str]()
    if kind == "ExternalName":
        names += ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]
    if kind not in ("NodePort", "LoadBalancer") and not (kind == "ClusterIP" and spec.get("externalIPs")):
        names.append("externalTrafficPolicy")
    if kind != "LoadBalancer":
        names += ["allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"]
    for name in names:
        if name in spec and spec[name] == former.get(name):
            del spec[name]


def set_service_defaults(tree: Object) -> None:
    """Sets the defaults of a Service, except for the allocated fields."""
    spec = tree.setdefault("spec", {})
    spec["type"] = spec.get("type") or "ClusterIP"
    spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    if spec["sessionAffinity"] == "ClientIP":
        client = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        client.setdefault("timeoutSeconds", 10800)
    for port in list_member(spec, "ports"):
        port["protocol"] = port.get("protocol") or "TCP"
        if port.get("targetPort") in (None, "", 0):
            port["targetPort"] = port.get("port") or 0
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer") or (spec["type"] == "ClusterIP" and spec.get("externalIPs")):
        spec["externalTrafficPolicy"] = spec.get("externalTrafficPolicy") or "Cluster"
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _allocating_owner(new: Object, old: Object | None) -> str:
    """Who requests values: what another Service of the same name has is allocated for a new one, too."""
    return "" if old is None else _owner(new)


def _owner(tree: Object) -> str:
    metadata = map_member(tree, "metadata")
    return f"{metadata.get('namespace')}/{metadata.get('name')}"
