"""Node port allocation: every port of a NodePort or LoadBalancer Service gets a port number on all nodes.

The numbers come from one range for all Services. An update keeps them; a Service that is changed to another type
releases them. Two ports of one Service may share a number if they differ in protocol.
"""

from collections.abc import Callable
from typing import Any, Final

from levelset.apiserver.registry.builtin.services.allocator import Allocator
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import ApiError, Cause

__all__ = ["NodePortAllocator", "has_repeated_ports"]

_FIRST, _LAST = 30_000, 32_767
# As in Kubernetes: the low numbers are allocated last, so that a Service that requests one of them finds it free.
_FIRST_ALLOCATED: Final = 30_086
_TYPES_WITH_NODE_PORTS: Final = ("NodePort", "LoadBalancer")
_HEALTH_CHECK: Final = "healthCheckNodePort"
_FULL: Final = "range is full"


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
        requested, known = _node_ports(spec), dict[Any, int]()
        for port in list_member(spec, "ports"):
            if port.get("nodePort"):
                known.setdefault(port.get("port"), port["nodePort"])
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

    def check_requested(self, spec: Object, former: Object | None, owner: str, *, dry_run: bool) -> list[Cause]:
        """The error of the first node port that cannot be allocated, which comes before all other violations.

        Raises ApiError (500) for two equal ports of an update, for a port of health checks, and if no port is free.
        """
        if former is not None and has_repeated_ports(spec):
            if _needs_node_ports(spec):
                self._refuse_repeated(spec, dry_run=dry_run)
            return []
        op = _Allocation(self._allocated, owner, dry_run=dry_run)
        if _has_node_ports(spec):
            causes = _check_new(spec, op) if former is None else _check_changed(spec, former, op)
            if causes:
                return causes
        if _needs_health_check(spec) and not _needs_health_check(former or {}):
            number = spec.get(_HEALTH_CHECK)
            if not number:
                raise _failure(f"failed to allocate a HealthCheck NodePort 0: {_FULL}")
            if problem := op.allocate(number):
                raise _failure(f"failed to allocate requested HealthCheck NodePort {number}: {problem}")
        return []

    def _refuse_repeated(self, spec: Object, *, dry_run: bool) -> None:
        """Raises 500 for equal ports with one node port; in a dry run, as upstream, those without one get the same."""
        ports = list_member(spec, "ports")
        free = self._next_free(set()) if dry_run else 0
        found = [(one.get("protocol") or "TCP", one.get("nodePort") or free) for one in ports]
        for place, (protocol, number) in enumerate(found):
            if number and (protocol, number) in found[:place]:
                raise ApiError(f"duplicate nodePort: {{{protocol} {number}}}", code=500, reason="")

    def update(self, before: Object | None, after: Object | None, owner: str) -> None:
        """Records a committed write of a Service."""
        self._allocated.update(_all_ports(before), _all_ports(after), owner)

    def reserve(self, service: Object, owner: str) -> Callable[[], None]:
        """Reserves the node ports of a Service until the returned function is called, after its write."""
        return self._allocated.reserve(_all_ports(service), owner)

    def _next_free(self, requested: set[int]) -> int | None:
        """The next free number, None if there is none; it advances, so that concurrent creates get different ones."""
        for _ in range(_LAST - _FIRST + 1):
            self._last = self._last + 1 if self._last < _LAST else _FIRST
            if self._allocated.is_free(self._last) and self._last not in requested:
                return self._last
        return None


def has_repeated_ports(spec: Object) -> bool:
    """Whether two ports are the same: an update is refused for it before anything is allocated."""
    ports = [(one.get("protocol") or "TCP", one.get("port")) for one in list_member(spec, "ports")]
    return len(set(ports)) < len(ports)


class _Allocation:
    """The node ports that one write allocates, to find those that it requests twice."""

    def __init__(self, allocated: Allocator[int], owner: str, *, dry_run: bool) -> None:
        self._allocator, self._owner, self._dry_run = allocated, owner, dry_run
        self.numbers: set[int] = set()

    def allocate(self, number: int) -> str:
        """Why a number cannot be allocated; empty if it can be. A dry run does not check the range, as upstream."""
        if not self._dry_run and not _FIRST <= number <= _LAST:
            return f"provided port is not in the valid range. The range of valid ports is {_FIRST}-{_LAST}"
        if number in self.numbers or not self._allocator.is_free(number, self._owner):
            return "provided port is already allocated"
        self.numbers.add(number)
        return ""


def _check_new(spec: Object, op: _Allocation) -> list[Cause]:
    """The first error in the node ports of a new Service: what several ports share is allocated once."""
    numbers: dict[Any, int] = {}
    for index, port in enumerate(list_member(spec, "ports")):
        number = port.get("nodePort")
        if not number and not _needs_node_ports(spec):
            continue
        if not number:
            raise _failure(f"failed to allocate a nodePort: {_FULL}")
        if numbers.get(port.get("port")) == number:
            continue
        numbers.setdefault(port.get("port"), number)
        if problem := op.allocate(number):
            return [_refused(index, number, problem)]
    return []


def _check_changed(spec: Object, former: Object, op: _Allocation) -> list[Cause]:
    """The first error in the node ports of a Service after an update, which keeps those that it had."""
    before, seen = _node_ports(former), set[tuple[str, int]]()
    for index, port in enumerate(list_member(spec, "ports")):
        number, protocol = port.get("nodePort"), port.get("protocol") or "TCP"
        if not number and not _needs_node_ports(spec):
            continue
        if not number:
            raise _failure(f"failed to allocate a nodePort: {_FULL}")
        if number not in before and number not in op.numbers and (problem := op.allocate(number)):
            return [_refused(index, number, problem)]
        if (protocol, number) in seen:
            raise ApiError(f"duplicate nodePort: {{{protocol} {number}}}", code=500, reason="")
        seen.add((protocol, number))
    return []


def _refused(index: int, number: int, problem: str) -> Cause:
    return field_errors.invalid(f"spec.ports[{index}].nodePort", number, problem)


def _failure(problem: str) -> ApiError:
    """500, as upstream, for what could not be allocated, if that is not the fault of a field."""
    return ApiError(f"Internal error occurred: {problem}", details={"causes": [{"message": problem}]})


def _all_ports(service: Object | None) -> set[int]:
    """The node ports of a Service, including the one for health checks."""
    spec = map_member(service, "spec")
    ports = _node_ports(spec) if _has_node_ports(spec) else set[int]()  # others have what was never allocated
    return ports | {spec[_HEALTH_CHECK]} if spec.get(_HEALTH_CHECK) and _needs_health_check(spec) else ports


def _inherit_node_ports(spec: Object, former: Object) -> None:
    """Sets missing node ports to that of the former port of the same name, unless another port requests it.

    As upstream, two new ports of that name get it both, which `check_requested` refuses.
    """
    numbers = {port.get("name", ""): port.get("nodePort") for port in list_member(former, "ports")}
    taken = _node_ports(spec) & _node_ports(former)
    for port in list_member(spec, "ports"):
        number = numbers.get(port.get("name", ""))
        if not port.get("nodePort") and number and number not in taken:
            port["nodePort"] = number


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
