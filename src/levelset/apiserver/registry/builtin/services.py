"""Services: their defaults, and the addresses and ports that are handed out to them and never to two at a time.

What is in use is what the stored services have, kept up to date as services come and go; nothing else is remembered,
so that a store that is opened again cannot disagree.
"""

import ipaddress
from collections.abc import Callable, Iterator
from dataclasses import replace

from levelset.apiserver.registry.builtin.service_allocators import Allotment, NodePorts, ports_of
from levelset.apiserver.registry.builtin.strategies import rules_of
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object, Rules, ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause, ConfigError

__all__ = ["RANGE", "Services", "fill_service"]

RANGE = "10.96.0.0/16"
HEADLESS = "None"
TYPES = ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName")


class Services:
    """The addresses and node ports of services, and the rules of the kind that need them."""

    def __init__(self, cidr: str = RANGE) -> None:
        self._network = _network(cidr)
        self._addresses: Allotment[str] = Allotment()
        self._ports = NodePorts()
        self._next = 1
        rules = rules_of("", "Service")
        self.rules: Rules = replace(
            rules,
            default=fill_service,
            prepare_create=self._prepare_create,
            prepare_update=self._prepare_update,
            validate=self._validate,
        )

    async def load(self, world: World) -> None:
        """Learns what the stored services have, and from then on all others."""
        served = world.catalog.find("", "v1", "services")
        if served is None:
            return
        world.follow(served.prefix, self._stored)
        world.claimants[served.prefix] = self._claim
        page = await world.storage.list(served.prefix)
        for item in page.items:
            self._stored(served, None, served_tree(served, item))

    def _stored(self, _served: ServedResource, before: Object | None, after: Object | None) -> None:
        owner = _owner(after or {})
        self._addresses.move(_addresses(before), _addresses(after), owner)
        self._ports.allotment.move(ports_of(before), ports_of(after), owner)

    def _claim(self, tree: Object) -> Callable[[], None]:
        """Keeps others from what a service is to have, until its write is over."""
        owner = _owner(tree)
        releases = (
            self._addresses.claim(_addresses(tree), owner),
            self._ports.allotment.claim(ports_of(tree), owner),
        )

        def release() -> None:
            for one in releases:
                one()

        return release

    def _prepare_create(self, tree: Object) -> None:
        tree.setdefault("status", {}).setdefault("loadBalancer", {})
        spec = tree["spec"]
        self._ports.assign(spec)
        if spec["type"] == "ExternalName" or spec.get("clusterIP"):
            _spread(spec)
            return
        address = self._free()
        if address is not None:
            spec["clusterIP"] = address
        _spread(spec)

    def _prepare_update(self, new: Object, old: Object) -> None:
        spec, former = new["spec"], part(old, "spec")
        self._ports.carry_over(spec, former)
        self._ports.assign(spec)
        if spec["type"] == "ExternalName":
            return
        # A client that sends its own copy without the addresses means to keep them.
        if not spec.get("clusterIP") and former.get("clusterIP"):
            spec["clusterIP"] = former["clusterIP"]
        elif not spec.get("clusterIP"):
            spec["clusterIP"] = self._free()
        _spread(spec)

    def _free(self) -> str | None:
        """The next address that nobody has; it moves on, so that creations at the same time differ."""
        size = self._network.num_addresses
        for _ in range(size):
            self._next = self._next + 1 if self._next < size - 2 else 1
            address = str(self._network[self._next])
            if self._addresses.is_free(address):
                return address
        return None

    def _validate(self, new: Object, old: Object | None) -> list[Cause]:
        spec = part(new, "spec")
        causes = [*_check_ports(spec)]
        if spec.get("type") not in TYPES:
            causes.append(field_errors.not_supported("spec.type", spec.get("type"), TYPES))
        causes += self._ports.check(spec, part(old, "spec"), _owner(new))
        former = part(old, "spec").get("clusterIP")
        address = spec.get("clusterIP")
        if former and address != former and spec["type"] != "ExternalName":
            causes.append(field_errors.invalid("spec.clusterIPs[0]", address, "may not change once set"))
        elif address and address not in (HEADLESS, former):
            causes += self._check_address(address, _owner(new))
        return causes

    def _check_address(self, address: str, owner: str) -> Iterator[Cause]:
        try:
            inside = ipaddress.ip_address(address) in self._network
        except ValueError:
            yield field_errors.invalid("spec.clusterIPs[0]", address, "must be a valid IP address")
            return
        if not inside:
            yield field_errors.invalid(
                "spec.clusterIPs", [address], f"the provided IP is not in the range {self._network}"
            )
        elif not self._addresses.is_free(address, owner):
            yield field_errors.invalid("spec.clusterIPs", [address], "failed to allocate IP: it is already allocated")


def _network(cidr: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        found = ipaddress.ip_network(cidr)
    except ValueError as error:
        raise ConfigError(f"addresses of services {cidr!r}: {error}; give a range such as {RANGE}") from error
    if found.num_addresses < 4:
        raise ConfigError(f"addresses of services {cidr!r}: it has {found.num_addresses}; give a range such as {RANGE}")
    return found


def fill_service(tree: Object) -> None:
    """Fills in the defaults of a service, all but its address."""
    spec = tree.setdefault("spec", {})
    spec["type"] = spec.get("type") or "ClusterIP"
    spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
    if spec["sessionAffinity"] == "ClientIP":
        client = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        client.setdefault("timeoutSeconds", 10800)
    for port in items(spec, "ports"):
        port.setdefault("protocol", "TCP")
        if port.get("targetPort") in (None, "", 0):
            port["targetPort"] = port.get("port")
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _spread(spec: Object) -> None:
    """Says the one address in the fields that could hold two as well."""
    address = spec.get("clusterIP")
    if not address:
        return
    spec["clusterIPs"] = [address]
    spec.setdefault("ipFamilies", ["IPv6" if ":" in address else "IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _check_ports(spec: Object) -> Iterator[Cause]:
    ports = items(spec, "ports")
    if not ports and spec.get("type") != "ExternalName" and spec.get("clusterIP") != HEADLESS:
        yield field_errors.required("spec.ports")
    names: set[str] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        if not 1 <= (port.get("port") or 0) <= 65535:
            yield field_errors.invalid(f"{path}.port", port.get("port"), "must be between 1 and 65535, inclusive")
        name = port.get("name") or ""
        if len(ports) > 1 and not name:
            yield field_errors.required(f"{path}.name")
        if name and name in names:
            yield field_errors.duplicate(f"{path}.name", name)
        names.add(name)


def _addresses(tree: Object | None) -> list[str]:
    spec = part(tree, "spec")
    return [one for one in items(spec, "clusterIPs") if one != HEADLESS]


def _owner(tree: Object) -> str:
    metadata = part(tree, "metadata")
    return f"{metadata.get('namespace')}/{metadata.get('name')}"
