"""ClusterIP allocation: every Service but a headless or ExternalName one gets an address of each of its families."""

import functools
import ipaddress
from collections.abc import Callable

from levelset.apiserver.registry.builtin.services.allocator import Allocator
from levelset.apiserver.registry.builtin.services.ip_families import HEADLESS, address_key, family_of
from levelset.apiserver.registry.builtin.strategies import kind_rules
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import ApiError, Cause, ConfigError

__all__ = ["DEFAULT_SERVICE_CIDR", "ClusterIpAllocator"]

DEFAULT_SERVICE_CIDR = "10.96.0.0/16"


class ClusterIpAllocator:
    """Allocates the ClusterIPs of Services out of one CIDR, or out of two of different families, joined by a comma.

    Raises ConfigError if a CIDR is invalid or too small, or both are of one family.
    """

    def __init__(self, cidrs: str = DEFAULT_SERVICE_CIDR) -> None:
        ranges = [_Range(one.strip()) for one in cidrs.split(",")]
        self._ranges = {one.family: one for one in ranges}
        if len(ranges) > 2 or len(self._ranges) < len(ranges):
            raise ConfigError(
                f"invalid service CIDRs {cidrs!r}: give one, or one of IPv4 and one of IPv6; "
                f"use ranges such as {DEFAULT_SERVICE_CIDR},fd00:10:96::/112"
            )
        self._allocated: Allocator[str] = Allocator()

    @property
    def cidrs(self) -> list[str]:
        """The ranges, that of the default family first."""
        return [one.cidr for one in self._ranges.values()]

    @property
    def families(self) -> list[str]:
        """The families of the cluster, the default one first."""
        return list(self._ranges)

    def start_at(self, number: int) -> None:
        """Allocates from this position of the ranges on, so that several servers seldom choose the same address."""
        for one in self._ranges.values():
            one.start_at(number)

    def first(self) -> str:
        """The first address of the first range, which is that of the API server itself."""
        return next(iter(self._ranges.values())).first()

    def values(self, service: Object) -> list[str]:
        """The addresses of a Service."""
        return _cluster_ips(service)

    def allocate(self, spec: Object) -> None:
        """Sets the addresses that a Service misses for its families; raises ApiError if a range is full."""
        addresses = [*list_member(spec, "clusterIPs")]
        if spec.get("type") == "ExternalName" or addresses == [HEADLESS]:
            return
        for family in list_member(spec, "ipFamilies")[len(addresses) :]:
            address = self._ranges[family].next_free(self._allocated)
            if address is None:
                raise ApiError("Internal error occurred: failed to allocate a serviceIP: range is full")
            addresses.append(address)
        if addresses:
            spec["clusterIP"], spec["clusterIPs"] = addresses[0], addresses

    def check(self, service: Object, former: Object, owner: str, *, dry_run: bool) -> list[Cause]:
        """The first error in the addresses that a Service gets beside those that it had; families are checked.

        A dry run allocates nothing, so that only the range of an address matters.
        """
        spec = map_member(service, "spec")
        addresses, before = list_member(spec, "clusterIPs"), list_member(former, "clusterIPs")
        if spec.get("type") == "ExternalName":
            return []  # nothing is allocated, and the rules refuse addresses
        for address in addresses[len(before) :]:
            if address == HEADLESS:
                continue
            problem = "" if dry_run else _refused_reference(service, address)
            if problem:
                return [field_errors.invalid("spec.clusterIPs", addresses, f"failed to allocate IP: {problem}")]
            problem = self._ranges[family_of(address)].refused(address, dry_run=dry_run)
            if not problem and not dry_run and not self._allocated.is_free(address_key(address), owner):
                problem = "provided IP is already allocated"
            if problem:
                detail = f"failed to allocate IP {address}: {problem}"
                return [field_errors.invalid("spec.clusterIPs", addresses, detail)]
        return []

    def update(self, before: Object | None, after: Object | None, owner: str) -> None:
        """Records a committed write of a Service."""
        self._allocated.update(_cluster_ips(before), _cluster_ips(after), owner)

    def reserve(self, service: Object, owner: str) -> Callable[[], None]:
        """Reserves the addresses of a Service until the returned function is called, after its write."""
        return self._allocated.reserve(_cluster_ips(service), owner)


def _refused_reference(service: Object, address: str) -> str:
    """Why the IPAddress that upstream creates for an address may not refer to its Service; empty if it may."""
    metadata = map_member(service, "metadata")
    parent = {"resource": "services", "namespace": metadata.get("namespace"), "name": metadata.get("name")}
    causes = kind_rules("networking.k8s.io", "IPAddress").validate({"spec": {"parentRef": parent}}, None)
    return f'IPAddress.networking.k8s.io "{address}" is invalid: {field_errors.join_causes(causes)}' if causes else ""


class _Range:
    """A CIDR, and the position in it from which on the next address is searched."""

    def __init__(self, cidr: str) -> None:
        self._network = _network(cidr)
        self.cidr = str(self._network)
        self.family = family_of(self.cidr)
        self._next = 1

    def start_at(self, number: int) -> None:
        self._next = 1 + number % max(1, self._network.num_addresses - 2)

    def first(self) -> str:
        return str(self._network[1])

    def refused(self, address: str, *, dry_run: bool) -> str:
        """Why an address is not one of the range; empty if it is. Its first one and that of broadcasts are not."""
        found = ipaddress.ip_address(address)
        if not dry_run and found not in self._network:
            return "the provided network does not match the current range"
        is_last = found.version == 4 and found == self._network.broadcast_address
        if found in self._network and found != self._network.network_address and not is_last:
            return ""
        problem = f"the provided IP ({found}) is not in the valid range"
        return f"{problem}. The range of valid IPs is {self._network}"

    def next_free(self, allocated: Allocator[str]) -> str | None:
        """The next free address, None if there is none; it advances, so that concurrent creates get different ones."""
        size = self._network.num_addresses
        for _ in range(size):
            self._next = self._next + 1 if self._next < size - 2 else 2
            address = str(self._network[self._next])
            if allocated.is_free(address):
                return address
        return None


@functools.lru_cache(maxsize=16)
def _network(cidr: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    hint = f"use a range such as {DEFAULT_SERVICE_CIDR}"
    try:
        network = ipaddress.ip_network(cidr)
    except ValueError as error:
        raise ConfigError(f"invalid service CIDR {cidr!r}: {error}; {hint}") from error
    if network.num_addresses < 4:
        raise ConfigError(f"service CIDR {cidr!r} has only {network.num_addresses} addresses; {hint}")
    return network


def _cluster_ips(service: Object | None) -> list[str]:
    spec = map_member(service, "spec")
    return [address_key(one) for one in list_member(spec, "clusterIPs") if one != HEADLESS]
