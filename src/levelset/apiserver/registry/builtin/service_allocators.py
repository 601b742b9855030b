"""Node ports: every port of a service that is reached from outside gets a number of its own on all nodes.

The numbers come from one range for all services. An update keeps them, and a service that is no longer reached from
outside gives them back. Two ports of one service may share a number if they differ in protocol.

Values that no two objects may have at a time: who has which, and who will as soon as its write has landed.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, Generic, TypeVar

from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause

__all__ = ["Allotment", "NodePorts", "ports_of"]

V = TypeVar("V", bound=Hashable)


class Allotment(Generic[V]):
    """Which owner has a value; owners are texts, such as `namespace/name`.

    A write to a file takes a while. Two objects that are written in the same moment would both find a value free that
    they ask for, so that the first one claims it for as long as its write is on the way.
    """

    __slots__ = ("_claimed", "_owners")

    def __init__(self) -> None:
        self._owners: dict[V, str] = {}
        self._claimed: dict[V, dict[str, int]] = {}

    def is_free(self, value: V, owner: str | None = None) -> bool:
        """Whether nobody has or claims the value, or nobody but this owner."""
        if self._owners.get(value, owner) != owner:
            return False
        return all(one == owner for one in self._claimed.get(value, ()))

    def move(self, before: Iterable[V], after: Iterable[V], owner: str) -> None:
        """An object was stored (or removed, and has nothing any more)."""
        for value in before:
            self._owners.pop(value, None)
        for value in after:
            self._owners[value] = owner

    def claim(self, values: Iterable[V], owner: str) -> Callable[[], None]:
        """Keeps values for an owner whose write is on the way; gives the function to call when it is over."""
        claimed = tuple(values)
        for value in claimed:
            owners = self._claimed.setdefault(value, {})
            owners[owner] = owners.get(owner, 0) + 1
        return lambda: self._let_go(claimed, owner)

    def _let_go(self, values: Iterable[V], owner: str) -> None:
        for value in values:
            owners = self._claimed[value]
            owners[owner] -= 1
            if not owners[owner]:
                del owners[owner]
            if not owners:
                del self._claimed[value]


_FIRST, _LAST = 30_000, 32_767
# As in Kubernetes: the low ones are taken last, so that whoever asks for one of these mostly finds it free.
_FIRST_CHOSEN: Final = 30_086
_OUTSIDE: Final = ("NodePort", "LoadBalancer")
_HEALTH: Final = "healthCheckNodePort"


class NodePorts:
    """Hands the numbers out."""

    def __init__(self) -> None:
        self.allotment: Allotment[int] = Allotment()
        self._last = _FIRST_CHOSEN - 1

    def assign(self, spec: Object) -> None:
        """Gives a number to each port that needs one and has none; the same one to both protocols of one port."""
        asked = _numbers(spec)
        known = {port.get("port"): port["nodePort"] for port in items(spec, "ports") if port.get("nodePort")}
        for port in items(spec, "ports") if _are_wanted(spec) else ():
            if port.get("nodePort"):
                continue
            number = known.get(port.get("port")) or self._free(asked)
            if number is not None:
                known[port.get("port")] = port["nodePort"] = number
                asked.add(number)
        if _needs_health(spec) and not spec.get(_HEALTH):
            number = self._free(asked)
            if number is not None:
                spec[_HEALTH] = number

    def carry_over(self, spec: Object, former: Object) -> None:
        """Takes over from the service as it was what the new one leaves out, and drops what it needs no more."""
        if _is_outside(spec) and _is_outside(former):
            _keep(spec, former)
        elif _is_outside(former) and _numbers(spec) == _numbers(former):
            for port in items(spec, "ports"):
                port.pop("nodePort", None)
        if _needs_health(spec) and former.get(_HEALTH):
            spec.setdefault(_HEALTH, former[_HEALTH])
        elif not _needs_health(spec) and spec.get(_HEALTH) == former.get(_HEALTH):
            spec.pop(_HEALTH, None)

    def check(self, spec: Object, former: Object, owner: str) -> Iterator[Cause]:
        """What is wrong with the numbers of a service."""
        had, seen = ports_of({"spec": former}), set[tuple[str, int]]()
        for index, port in enumerate(items(spec, "ports")):
            path, number = f"spec.ports[{index}].nodePort", port.get("nodePort")
            if not number:
                if _are_wanted(spec) and spec != former:  # one from before there were numbers is let be
                    yield field_errors.invalid(path, 0, "failed to allocate a nodePort: range is full")
            elif not _is_outside(spec):
                yield field_errors.forbidden(path, f"may not be used when `type` is {spec.get('type')!r}")
            elif (port.get("protocol"), number) in seen:
                yield field_errors.duplicate(path, number)
            elif number not in had:
                yield from self._check_number(path, number, owner)
            seen.add((port.get("protocol"), number))
        health = spec.get(_HEALTH)
        if health and not _needs_health(spec):
            problem = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            yield field_errors.invalid(f"spec.{_HEALTH}", health, problem)
        elif health and health not in had:
            yield from self._check_number(f"spec.{_HEALTH}", health, owner)

    def _check_number(self, path: str, number: int, owner: str) -> Iterator[Cause]:
        if not _FIRST <= number <= _LAST:
            problem = f"provided port is not in the valid range. The range of valid ports is {_FIRST}-{_LAST}"
            yield field_errors.invalid(path, number, problem)
        elif not self.allotment.is_free(number, owner):
            yield field_errors.invalid(path, number, "provided port is already allocated")

    def _free(self, asked: set[int]) -> int | None:
        """The next number that nobody has; it moves on, so that creations at the same time differ."""
        for _ in range(_LAST - _FIRST + 1):
            self._last = self._last + 1 if self._last < _LAST else _FIRST
            if self.allotment.is_free(self._last) and self._last not in asked:
                return self._last
        return None


def ports_of(tree: Object | None) -> set[int]:
    """The numbers that a service has."""
    spec = part(tree, "spec")
    return {*_numbers(spec), spec[_HEALTH]} if spec.get(_HEALTH) else _numbers(spec)


def _keep(spec: Object, former: Object) -> None:
    """Gives the ports without a number the one that the port of the same name had, unless another port has it now."""
    numbers = {port.get("name", ""): port.get("nodePort") for port in items(former, "ports")}
    taken = _numbers(spec)
    for port in items(spec, "ports"):
        number = numbers.get(port.get("name", ""))
        if not port.get("nodePort") and number and number not in taken:
            port["nodePort"] = number
            taken.add(number)


def _numbers(spec: Object) -> set[int]:
    return {port["nodePort"] for port in items(spec, "ports") if port.get("nodePort")}


def _is_outside(spec: Object) -> bool:
    return spec.get("type") in _OUTSIDE


def _are_wanted(spec: Object) -> bool:
    """Whether each port is to have a number; a load balancer may do without."""
    if spec.get("type") == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts") is not False
    return spec.get("type") == "NodePort"


def _needs_health(spec: Object) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"
