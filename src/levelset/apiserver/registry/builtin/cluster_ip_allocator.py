"""ClusterIP allocation: every Service but a headless or ExternalName one gets an address of the service CIDR."""

import ipaddress
from collections.abc import Callable, Iterator

from levelset.apiserver.registry.builtin.allocator import Allocator
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause, ConfigError

__all__ = ["DEFAULT_SERVICE_CIDR", "HEADLESS", "ClusterIpAllocator"]

DEFAULT_SERVICE_CIDR = "10.96.0.0/16"
HEADLESS = "None"
"""The clusterIP of a headless Service, which has no address."""


class ClusterIpAllocator:
    """Allocates the ClusterIPs of Services out of a CIDR; raises ConfigError if the CIDR is invalid or too small."""

    def __init__(self, cidr: str = DEFAULT_SERVICE_CIDR) -> None:
        self._network = _network(cidr)
        self.cidr = str(self._network)
        self._allocated: Allocator[str] = Allocator()
        self._next = 1

    def start_at(self, number: int) -> None:
        """Allocates from this position of the range on, so that several servers seldom choose the same address."""
        self._next = 1 + number % max(1, self._network.num_addresses - 2)

    def first(self) -> str:
        """The first address of the range, which is that of the API server itself."""
        return str(self._network[1])

    def values(self, service: Object) -> list[str]:
        """The addresses of a Service."""
        return _cluster_ips(service)

    def allocate(self) -> str | None:
        """The next free address, None if there is none; it advances, so that concurrent creates get different ones."""
        size = self._network.num_addresses
        for _ in range(size):
            self._next = self._next + 1 if self._next < size - 2 else 2
            address = str(self._network[self._next])
            if self._allocated.is_free(address):
                return address
        return None

    def check(self, address: str, owner: str) -> Iterator[Cause]:
        """The errors in the address that a Service requests."""
        try:
            inside = ipaddress.ip_address(address) in self._network
        except ValueError:
            yield field_errors.invalid("spec.clusterIPs[0]", address, "must be a valid IP address")
            return
        if not inside:
            yield field_errors.invalid(
                "spec.clusterIPs", [address], f"the provided IP is not in the range {self._network}"
            )
        elif not self._allocated.is_free(address, owner):
            yield field_errors.invalid("spec.clusterIPs", [address], "failed to allocate IP: it is already allocated")

    def update(self, before: Object | None, after: Object | None, owner: str) -> None:
        """Records a committed write of a Service."""
        self._allocated.update(_cluster_ips(before), _cluster_ips(after), owner)

    def reserve(self, service: Object, owner: str) -> Callable[[], None]:
        """Reserves the addresses of a Service until the returned function is called, after its write."""
        return self._allocated.reserve(_cluster_ips(service), owner)


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
    return [one for one in list_member(spec, "clusterIPs") if one != HEADLESS]
