"""The resources of a Pod: what its containers request and may use in all, as the scheduler counts them."""

from collections.abc import Iterable

from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.objects.quantity import Quantity

__all__ = ["Amounts", "add", "amounts_of", "pod_resources"]

Amounts = dict[str, Quantity]
"""Quantities by the name of a resource."""


def amounts_of(resources: Object) -> Amounts:
    """The quantities of a list of resources such as `requests`."""
    return {name: Quantity.from_tree(value) for name, value in resources.items()}


def add(one: Amounts, other: Amounts) -> Amounts:
    """The sum of both."""
    return {**one, **{name: one[name] + value if name in one else value for name, value in other.items()}}


def pod_resources(spec: Object, member: str) -> Amounts:
    """The `requests` or `limits` of a Pod: its containers together, or one init container if that needs more.

    Init containers that restart always run beside the others. What the Pod says for itself replaces the sum.
    """
    total = _sum(
        amounts_of(map_member(map_member(one, "resources"), member)) for one in list_member(spec, "containers")
    )
    sidecars: Amounts = {}
    largest: Amounts = {}
    for container in list_member(spec, "initContainers"):
        own = amounts_of(map_member(map_member(container, "resources"), member))
        if container.get("restartPolicy") == "Always":
            total, sidecars = add(total, own), add(sidecars, own)
            own = sidecars
        else:
            own = add(own, sidecars)
        largest = _maximum(largest, own)
    total = _maximum(total, largest)
    total |= amounts_of(map_member(map_member(spec, "resources"), member))
    overhead = amounts_of(map_member(spec, "overhead"))
    if member == "requests":
        return add(total, overhead)
    return add(total, {name: value for name, value in overhead.items() if name in total})


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for one in parts:
        total = add(total, one)
    return total


def _maximum(one: Amounts, other: Amounts) -> Amounts:
    return {**one, **{name: value for name, value in other.items() if name not in one or one[name] < value}}
