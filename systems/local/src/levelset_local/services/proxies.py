"""The doors of all Services on this machine: opened, led elsewhere and closed as they are wanted."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Protocol, Self

from levelset import Ref
from levelset.kinds.core_v1 import Service
from levelset_local.services.plan import Door, Route
from levelset_machine import CannotListen, Endpoint, TcpProxy, UdpProxy

__all__ = ["Difference", "Proxies", "Proxy", "difference", "make_proxy"]


class Proxy(Protocol):
    """What stands behind a door: a `TcpProxy`, a `UdpProxy`, or somebody who pretends."""

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where it leads to."""
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
        """Listens there; raises CannotListen."""
        ...

    async def close(self) -> None:
        """Listens no longer."""
        ...


@dataclass(frozen=True, slots=True)
class Difference:
    """What has to be done with doors, in this order."""

    close: tuple[Door, ...]
    lead: tuple[Door, ...]
    open: tuple[Door, ...]


def difference(there: Iterable[Door], wanted: Iterable[Door]) -> Difference:
    """What has to be done with doors that are there so that they are those that are wanted."""
    old, new = set(there), set(wanted)
    return Difference(tuple(sorted(old - new)), tuple(sorted(old & new)), tuple(sorted(new - old)))


def make_proxy(protocol: Literal["TCP", "UDP"]) -> Proxy:
    """A proxy with sockets of this machine."""
    return UdpProxy() if protocol == "UDP" else TcpProxy()


class Proxies:
    """All doors of all Services; leaving the block (`async with`) closes them."""

    def __init__(self, make: Callable[[Literal["TCP", "UDP"]], Proxy] = make_proxy) -> None:
        self._make = make
        self._doors: dict[Ref[Service], dict[Door, Proxy]] = {}

    @property
    def doors(self) -> Mapping[Door, Ref[Service]]:
        """The doors that are open, and whose they are."""
        return MappingProxyType({door: ref for ref, doors in self._doors.items() for door in doors})

    async def serve(self, service: Ref[Service], wanted: Mapping[Door, Route]) -> tuple[CannotListen, ...]:
        """Makes the doors of a Service those that are wanted; gives the reasons of those that cannot be opened.

        For one Service it must not be called twice at the same time.
        """
        doors = self._doors.setdefault(service, {})
        plan = difference(doors, wanted)
        for door in plan.close:
            await doors.pop(door).close()
        for door in plan.lead:
            _lead(doors[door], wanted[door])
        problems: list[CannotListen] = []
        for door in plan.open:
            try:
                doors[door] = await self._open(door, wanted[door])
            except CannotListen as error:
                problems.append(error)
        if not doors:
            del self._doors[service]
        return tuple(problems)

    async def close(self) -> None:
        """Closes all doors."""
        for service in tuple(self._doors):
            await self.serve(service, {})

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _open(self, door: Door, route: Route) -> Proxy:
        proxy = self._make(door.protocol)
        _lead(proxy, route)
        try:
            await proxy.listen(door.address, door.port)
        except BaseException:
            await proxy.close()
            raise
        return proxy


def _lead(proxy: Proxy, route: Route) -> None:
    proxy.sticky = route.sticky
    if proxy.endpoints != route.endpoints:
        proxy.endpoints = route.endpoints
