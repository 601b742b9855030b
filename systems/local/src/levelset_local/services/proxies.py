"""The proxies of Services: where they listen on this machine, to which endpoints they forward, and their sockets."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from ipaddress import ip_address
from types import MappingProxyType
from typing import Final, Literal, Protocol, Self

from msgspec import Struct

from levelset import Ref
from levelset.kinds.core_v1 import Service, ServicePort
from levelset.kinds.discovery_v1 import Endpoint as SliceEndpoint
from levelset.kinds.discovery_v1 import EndpointSlice
from levelset_machine import CannotListen, Endpoint, TcpProxy, UdpProxy

__all__ = [
    "ListenAddress",
    "ListenerChanges",
    "Proxies",
    "Proxy",
    "Route",
    "diff_listeners",
    "make_proxy",
    "plan_listeners",
]

_NODE: Final = "127.0.0.1"
_NODE_TYPES: Final = frozenset({"NodePort", "LoadBalancer"})
_AFFINITY_SECONDS: Final = 10800.0
"""The default timeout of a session affinity, as in Kubernetes."""


class ListenAddress(Struct, frozen=True, order=True):
    """An address and port of this machine on which a Service is served."""

    address: str
    port: int
    protocol: Literal["TCP", "UDP"] = "TCP"

    def __str__(self) -> str:
        return f"{self.address}:{self.port}/{self.protocol}"


class Route(Struct, frozen=True):
    """The endpoints that a listener forwards to; `sticky` is the session affinity in seconds, None for none."""

    endpoints: tuple[Endpoint, ...] = ()
    sticky: float | None = None


def plan_listeners(
    service: Service, slices: Iterable[EndpointSlice], *, all_addresses: bool = False
) -> dict[ListenAddress, Route]:
    """The listeners that a Service should have, each with its route.

    A cluster IP has one if it is a loopback address, as this machine cannot listen on any other; a node port has one on
    127.0.0.1. Headless and ExternalName Services have none. A route has the ready endpoints; if there are none, those
    that still serve while they are terminating. With `all_addresses`, where programs listen on all addresses, there is
    none at a port that the program itself has: it is reached at the cluster IP already, and could not listen otherwise.
    """
    if service.spec.type == "ExternalName":
        return {}
    present = list(slices)
    listeners: dict[ListenAddress, Route] = {}
    for port in service.spec.ports:
        protocol = port.protocol or "TCP"
        if protocol == "SCTP":
            continue
        route = Route(tuple(sorted(set(_endpoints(port, present)))), _affinity(service))
        own = _own_ports(port, route) if all_addresses else set[int]()
        for address, number in _addresses(service, port):
            if number in own:
                continue
            listeners[ListenAddress(address, number, "UDP" if protocol == "UDP" else "TCP")] = route
    return listeners


def _own_ports(port: ServicePort, route: Route) -> set[int]:
    """The ports that the Pods of a Service have, or may have: that of a name is known with the first endpoint only."""
    if isinstance(port.target_port, str):
        return {number for _, number in route.endpoints} or {port.port}
    return {port.target_port or port.port}


def _addresses(service: Service, port: ServicePort) -> Iterator[tuple[str, int]]:
    for address in service.spec.cluster_ips or (service.spec.cluster_ip or "",):
        if _is_loopback(address):
            yield address, port.port
    if service.spec.type in _NODE_TYPES and port.node_port:
        yield _NODE, port.node_port


def _is_loopback(text: str) -> bool:
    try:
        return ip_address(text).is_loopback
    except ValueError:
        return False


def _affinity(service: Service) -> float | None:
    if service.spec.session_affinity != "ClientIP":
        return None
    config = service.spec.session_affinity_config
    timeout = config.client_ip.timeout_seconds if config is not None and config.client_ip is not None else None
    return _AFFINITY_SECONDS if timeout is None else float(timeout)


def _endpoints(port: ServicePort, slices: Iterable[EndpointSlice]) -> list[Endpoint]:
    found = [(one, number) for it in slices for number in _port_numbers(it, port) for one in it.endpoints]
    usable = [pair for pair in found if _is_ready(pair[0])] or [pair for pair in found if _still_serves(pair[0])]
    return [(one.addresses[0], number) for one, number in usable if one.addresses]


def _port_numbers(one: EndpointSlice, port: ServicePort) -> list[int]:
    """The numbers of a Service's port in a slice, matched by name and protocol."""
    if one.address_type == "FQDN":
        return []
    wanted = port.name or "", port.protocol or "TCP"
    return [it.port for it in one.ports if it.port and (it.name or "", it.protocol or "TCP") == wanted]


def _is_ready(one: SliceEndpoint) -> bool:
    return one.conditions.ready is not False  # the API defines an unset condition as ready


def _still_serves(one: SliceEndpoint) -> bool:
    return bool(one.conditions.serving and one.conditions.terminating)


class Proxy(Protocol):
    """The proxy of a listener: a `TcpProxy`, a `UdpProxy`, or a fake."""

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints that it forwards to."""
        ...

    @endpoints.setter
    def endpoints(self, endpoints: tuple[Endpoint, ...]) -> None: ...

    @property
    def sticky(self) -> float | None:
        """For how many seconds a client stays with its endpoint."""
        ...

    @sticky.setter
    def sticky(self, seconds: float | None) -> None: ...

    async def listen(self, address: str, port: int) -> int:
        """Starts to listen; raises CannotListen."""
        ...

    async def close(self) -> None:
        """Stops listening, and closes its connections."""
        ...


class ListenerChanges(Struct, frozen=True):
    """The changes that lead from the current to the wanted listeners, in the order in which they are made."""

    close: tuple[ListenAddress, ...]
    update: tuple[ListenAddress, ...]
    open: tuple[ListenAddress, ...]


def diff_listeners(present: Iterable[ListenAddress], wanted: Iterable[ListenAddress]) -> ListenerChanges:
    """The changes that lead from the current to the wanted listeners."""
    old, new = set(present), set(wanted)
    return ListenerChanges(tuple(sorted(old - new)), tuple(sorted(old & new)), tuple(sorted(new - old)))


def make_proxy(protocol: Literal["TCP", "UDP"]) -> Proxy:
    """A proxy with real sockets."""
    return UdpProxy() if protocol == "UDP" else TcpProxy()


class Proxies:
    """The proxies of all Services; leaving the block (`async with`) closes them."""

    def __init__(self, make: Callable[[Literal["TCP", "UDP"]], Proxy] = make_proxy) -> None:
        self._make = make
        self._proxies: dict[Ref[Service], dict[ListenAddress, Proxy]] = {}

    @property
    def listeners(self) -> Mapping[ListenAddress, Ref[Service]]:
        """The addresses that are listened on, with their Services."""
        return MappingProxyType({at: ref for ref, proxies in self._proxies.items() for at in proxies})

    async def serve(self, service: Ref[Service], wanted: Mapping[ListenAddress, Route]) -> tuple[CannotListen, ...]:
        """Opens, updates and closes the listeners of a Service as wanted; returns the errors of those that failed.

        It must not be called concurrently for the same Service.
        """
        proxies = self._proxies.setdefault(service, {})
        changes = diff_listeners(proxies, wanted)
        for at in changes.close:
            await proxies.pop(at).close()
        for at in changes.update:
            _set_route(proxies[at], wanted[at])
        errors: list[CannotListen] = []
        for at in changes.open:
            try:
                proxies[at] = await self._open(at, wanted[at])
            except CannotListen as error:
                errors.append(error)
        if not proxies:
            del self._proxies[service]
        return tuple(errors)

    async def close(self) -> None:
        """Closes all listeners."""
        for service in tuple(self._proxies):
            await self.serve(service, {})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _open(self, at: ListenAddress, route: Route) -> Proxy:
        proxy = self._make(at.protocol)
        _set_route(proxy, route)
        try:
            await proxy.listen(at.address, at.port)
        except BaseException:
            await proxy.close()
            raise
        return proxy


def _set_route(proxy: Proxy, route: Route) -> None:
    proxy.sticky = route.sticky
    if proxy.endpoints != route.endpoints:
        proxy.endpoints = route.endpoints
