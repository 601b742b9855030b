"""Node port allocation: every port of a NodePort or LoadBalancer Service gets a port number on all nodes.

The numbers come from one range for all Services. An update keeps them; a Service that is changed to another type
releases them. Two ports of one Service may share a number if they differ in protocol.
"""

from collections.abc import Callable, Iterator
from typing import Final

from levelset.apiserver.registry.builtin.services.allocator import Allocator
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause

__all__ = ["NodePortAllocator"]

_FIRST, _LAST = 30_000, 32_767
# As in Kubernetes: the low numbers are allocated last, so that a Service that requests one of them finds it free.
_FIRST_ALLOCATED: Final = 30_086
_TYPES_WITH_NODE_PORTS: Final = ("NodePort", "LoadBalancer")
_HEALTH_CHECK: Final = "healthCheckNodePort"


class NodePortAllocator:
    """Allocates the node ports of Services."""

    def __init__(self) -> None:
        self._allocated: Allocator[int] = Allocator()
        self._last = _FIRST_ALLOCATED - 1

    def start_at(self, number: int) -> None:
        """Allocates from this position of the range on, so that several servers seldom choose the same port."""
        self._last = _FIRST_ALLOCATED + number % (_LAST - _FIRST_ALLOCATED)

    def values(self, service: Object) -> list[int]:
        """The node ports of a Service."""
        return sorted(_all_ports(service))

    def allocate(self, spec: Object) -> None:
        """Sets the missing node ports of a Service; both protocols of one port get the same number."""
        requested = _node_ports(spec)
        known = {port.get("port"): port["nodePort"] for port in list_member(spec, "ports") if port.get("nodePort")}
        for port in list_member(spec, "ports") if _needs_node_ports(spec) else ():
            if port.get("nodePort"):
                continue
            number = known.get(port.get("port")) or self._next_free(requested)
            if number is not None:
                known[port.get("port")] = port["nodePort"] = number
                requested.add(number)
        if _needs_health_check(spec) and not spec.get(_HEALTH_CHECK):
            number = self._next_free(requested)
            if number is not None:
                spec[_HEALTH_CHECK] = number

    def inherit(self, spec: Object, former: Object) -> None:
        """Takes over the node ports that an update leaves out, and drops those that its type does not need any more."""
        if _needs_node_ports(spec) and _needs_node_ports(former):
            _inherit_node_ports(spec, former)
        elif _has_node_ports(former) and not _has_node_ports(spec) and _node_ports(spec) == _node_ports(former):
            for port in list_member(spec, "ports"):
                port.pop("nodePort", None)
        if _needs_health_check(spec) and former.get(_HEALTH_CHECK):
            spec.setdefault(_HEALTH_CHECK, former[_HEALTH_CHECK])
        elif not _needs_health_check(spec) and spec.get(_HEALTH_CHECK) == former.get(_HEALTH_CHECK):
            spec.pop(_HEALTH_CHECK, None)

    def check_requested(self, spec: Object, former: Object, owner: str) -> list[Cause]:
        """The error of the first node port that cannot be allocated, which comes before all other violations."""
        former_ports, seen = _all_ports({"spec": former}), set[int]()
        for index, port in enumerate(list_member(spec, "ports") if _has_node_ports(spec) else ()):
            number = port.get("nodePort")
            if number and number not in former_ports and number not in seen:
                seen.add(number)
                causes = list(self._check_port(f"spec.ports[{index}].nodePort", number, owner))
                if causes:
                    return causes
        return []

    def check(self, spec: Object, former: Object, owner: str) -> Iterator[Cause]:
        """The errors in the node ports that a Service requests."""
        former_ports, seen = _all_ports({"spec": former}), set[tuple[str, int]]()
        for index, port in enumerate(list_member(spec, "ports")):
            path, number = f"spec.ports[{index}].nodePort", port.get("nodePort")
            if not number:
                if _needs_node_ports(spec) and spec != former:  # an old Service without node ports stays valid
                    yield field_errors.invalid(path, 0, "failed to allocate a nodePort: range is full")
            elif not _has_node_ports(spec):
                yield field_errors.forbidden(path, f"may not be used when `type` is {spec.get('type')!r}")
            elif (port.get("protocol"), number) in seen:
                yield field_errors.invalid(path, number, "provided port is already allocated")
            elif number not in former_ports:
                yield from self._check_port(path, number, owner)
            seen.add((port.get("protocol"), number))
        health = spec.get(_HEALTH_CHECK)
        if health and not _needs_health_check(spec):
            problem = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            yield field_errors.invalid(f"spec.{_HEALTH_CHECK}", health, problem)
        elif health and health not in former_ports:
            yield from self._check_port(f"spec.{_HEALTH_CHECK}", health, owner)

    def update(self, before: Object | None, after: Object | None, owner: str) -> None:
        """Records a committed write of a Service."""
        self._allocated.update(_all_ports(before), _all_ports(after), owner)

    def reserve(self, service: Object, owner: str) -> Callable[[], None]:
        """Reserves the node ports of a Service until the returned function is called, after its write."""
        return self._allocated.reserve(_all_ports(service), owner)

    def _check_port(self, path: str, number: int, owner: str) -> Iterator[Cause]:
        if not _FIRST <= number <= _LAST:
            problem = f"provided port is not in the valid range. The range of valid ports is {_FIRST}-{_LAST}"
            yield field_errors.invalid(path, number, problem)
        elif not self._allocated.is_free(number, owner):
            yield field_errors.invalid(path, number, "provided port is already allocated")

    def _next_free(self, requested: set[int]) -> int | None:
        """The next free number, None if there is none; it advances, so that concurrent creates get different ones."""
        for _ in range(_LAST - _FIRST + 1):
            self._last = self._last + 1 if self._last < _LAST else _FIRST
            if self._allocated.is_free(self._last) and self._last not in requested:
                return self._last
        return None


def _all_ports(service: Object | None) -> set[int]:
    """The node ports of a Service, including the one for health checks."""
    spec = map_member(service, "spec")
    return {*_node_ports(spec), spec[_HEALTH_CHECK]} if spec.get(_HEALTH_CHECK) else _node_ports(spec)


def _inherit_node_ports(spec: Object, former: Object) -> None:
    """Sets missing node ports to that of the former port of the same name, unless another port has it now."""
    numbers = {port.get("name", ""): port.get("nodePort") for port in list_member(former, "ports")}
    taken = _node_ports(spec)
    for port in list_member(spec, "ports"):
        number = numbers.get(port.get("name", ""))
        if not port.get("nodePort") and number and number not in taken:
            port["nodePort"] = number
            taken.add(number)


def _node_ports(spec: Object) -> set[int]:
    return {port["nodePort"] for port in list_member(spec, "ports") if port.get("nodePort")}


def _has_node_ports(spec: Object) -> bool:
    return spec.get("type") in _TYPES_WITH_NODE_PORTS


def _needs_node_ports(spec: Object) -> bool:
    """Whether each port needs a node port; a LoadBalancer can opt out."""
    if spec.get("type") == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts") is not False
    return spec.get("type") == "NodePort"


def _needs_health_check(spec: Object) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"
