"""Where a Service is to be reached on this machine, and where whoever comes there is led to."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Literal

from levelset.kinds.core_v1 import Service, ServicePort
from levelset.kinds.discovery_v1 import Endpoint as SliceEndpoint
from levelset.kinds.discovery_v1 import EndpointSlice
from levelset_machine import Endpoint, Lookup

__all__ = ["Door", "Route", "lookup_in", "plan_doors"]

_NODE: Final = "127.0.0.1"
_NODE_TYPES: Final = frozenset({"NodePort", "LoadBalancer"})
_STICKY: Final = 10800.0
"""For how many seconds a client stays with its endpoint, unless the Service says otherwise."""


@dataclass(frozen=True, slots=True, order=True)
class Door:
    """An address and port of this machine on which a Service is reached."""

    address: str
    port: int
    protocol: Literal["TCP", "UDP"] = "TCP"

    def __str__(self) -> str:
        return f"{self.address}:{self.port}/{self.protocol}"


@dataclass(frozen=True, slots=True)
class Route:
    """Where whoever comes through a door is led to."""

    endpoints: tuple[Endpoint, ...] = ()
    sticky: float | None = None


def plan_doors(service: Service, slices: Iterable[EndpointSlice]) -> dict[Door, Route]:
    """The doors that a Service should have, each with its route.

    A ClusterIP is one if it is a loopback address, as no other can be listened on; a node port is one on 127.0.0.1. A
    headless Service and one that is only a name for another host have none. Endpoints that are ready are led to; if
    there are none, those that still serve while they are stopping.
    """
    if service.spec.type == "ExternalName":
        return {}
    known = list(slices)
    doors: dict[Door, Route] = {}
    for port in service.spec.ports:
        protocol = port.protocol or "TCP"
        if protocol == "SCTP":
            continue
        route = Route(tuple(sorted(set(_endpoints(port, known)))), _sticky(service))
        for address, number in _places(service, port):
            doors[Door(address, number, "UDP" if protocol == "UDP" else "TCP")] = route
    return doors


def lookup_in(services: Iterable[Service]) -> Lookup:
    """Finds the addresses of these Services by name and namespace: what `levelset_machine.resolve_url` asks."""
    known = {(one.name, one.namespace): one.spec.cluster_ip for one in services if _is_address(one.spec.cluster_ip)}
    return lambda name, namespace: known.get((name, namespace))


def _places(service: Service, port: ServicePort) -> Iterator[tuple[str, int]]:
    for address in service.spec.cluster_ips or (service.spec.cluster_ip or "",):
        if _is_address(address) and ip_address(address).is_loopback:
            yield address, port.port
    if service.spec.type in _NODE_TYPES and port.node_port:
        yield _NODE, port.node_port


def _is_address(text: str | None) -> bool:
    try:
        ip_address(text or "")
    except ValueError:
        return False
    return True


def _sticky(service: Service) -> float | None:
    if service.spec.session_affinity != "ClientIP":
        return None
    config = service.spec.session_affinity_config
    chosen = config.client_ip.timeout_seconds if config is not None and config.client_ip is not None else None
    return _STICKY if chosen is None else float(chosen)


def _endpoints(port: ServicePort, slices: Iterable[EndpointSlice]) -> list[Endpoint]:
    found = [(one, number) for it in slices for number in _numbers(it, port) for one in it.endpoints]
    usable = [pair for pair in found if _is_ready(pair[0])] or [pair for pair in found if _still_serves(pair[0])]
    return [(one.addresses[0], number) for one, number in usable if one.addresses]


def _numbers(one: EndpointSlice, port: ServicePort) -> list[int]:
    """The numbers that a port of a Service has in a slice; names are what the two have in common."""
    if one.address_type == "FQDN":
        return []
    wanted = port.name or "", port.protocol or "TCP"
    return [it.port for it in one.ports if it.port and (it.name or "", it.protocol or "TCP") == wanted]


def _is_ready(one: SliceEndpoint) -> bool:
    return one.conditions.ready is not False  # not said is ready


def _still_serves(one: SliceEndpoint) -> bool:
    return bool(one.conditions.serving and one.conditions.terminating)
