"""Services: defaults, validation, and the allocation of their ClusterIPs and node ports."""

from collections.abc import Callable

from msgspec.structs import replace

from levelset.apiserver.registry.builtin.cluster_ip_allocator import (
    DEFAULT_SERVICE_CIDR,
    HEADLESS,
    ClusterIpAllocator,
)
from levelset.apiserver.registry.builtin.node_port_allocator import NodePortAllocator
from levelset.apiserver.registry.builtin.strategies import builtin_rules, kind_rules
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object, Rules, ServedResource
from levelset.apiserver.resources.server_state import ServerState, add_missing_claims, new_claims
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause

__all__ = ["DEFAULT_SERVICE_CIDR", "ServiceStrategy", "set_service_defaults"]


class ServiceStrategy:
    """The rules of the Service kind, with the allocators that they need."""

    def __init__(self, cidr: str = DEFAULT_SERVICE_CIDR) -> None:
        self._cluster_ips = ClusterIpAllocator(cidr)
        self._node_ports = NodePortAllocator()
        rules = builtin_rules("", "Service")
        self.rules: Rules = replace(
            rules,
            default=set_service_defaults,
            prepare_create=self._prepare_create,
            prepare_update=self._prepare_update,
            validate=self._validate,
        )

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
        self._node_ports.allocate(spec)
        if spec["type"] == "ExternalName" or spec.get("clusterIP"):
            _fill_ip_fields(spec)
            return
        address = self._cluster_ips.allocate()
        if address is not None:
            spec["clusterIP"] = address
        _fill_ip_fields(spec)

    def _prepare_update(self, new: Object, old: Object) -> None:
        spec, former = new["spec"], map_member(old, "spec")
        self._node_ports.inherit(spec, former)
        self._node_ports.allocate(spec)
        _clear_former_type(spec, former)
        if spec["type"] == "ExternalName":
            return
        # A client that sends the Service without its address means to keep it.
        if not spec.get("clusterIP") and former.get("clusterIP"):
            spec["clusterIP"] = former["clusterIP"]
        elif not spec.get("clusterIP"):
            spec["clusterIP"] = self._cluster_ips.allocate()
        _fill_ip_fields(spec)

    def _validate(self, new: Object, old: Object | None) -> list[Cause]:
        spec = map_member(new, "spec")
        causes = kind_rules("", "Service").validate(new, old)
        if causes:
            return causes
        causes += self._node_ports.check(spec, map_member(old, "spec"), _owner(new))
        former = map_member(old, "spec").get("clusterIP")
        address = spec.get("clusterIP")
        if former and address != former and spec["type"] != "ExternalName":
            causes.append(field_errors.invalid("spec.clusterIPs[0]", spec.get("clusterIPs"), "may not change once set"))
        elif address and address not in (HEADLESS, former):
            causes += self._cluster_ips.check(address, _owner(new))
        return causes


def _clear_former_type(spec: Object, former: Object) -> None:
    """Removes what belonged to the former type, and a client has sent back unchanged."""
    kind, names = spec["type"], list[str]()
    if kind == "ExternalName":
        names += ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]
    if kind not in ("NodePort", "LoadBalancer") and not spec.get("externalIPs"):
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
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, "", 0):
            port["targetPort"] = port.get("port")
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer") or (spec["type"] == "ClusterIP" and spec.get("externalIPs")):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _fill_ip_fields(spec: Object) -> None:
    """Sets the dual-stack fields from the one address."""
    address = spec.get("clusterIP")
    if not address:
        return
    spec["clusterIPs"] = [address]
    if (
        address == HEADLESS
        and not spec.get("selector")
        and not spec.get("ipFamilies")
        and not spec.get("ipFamilyPolicy")
    ):
        spec["ipFamilies"], spec["ipFamilyPolicy"] = ["IPv4", "IPv6"], "RequireDualStack"
    spec.setdefault("ipFamilies", ["IPv6" if ":" in address else "IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _owner(tree: Object) -> str:
    metadata = map_member(tree, "metadata")
    return f"{metadata.get('namespace')}/{metadata.get('name')}"
