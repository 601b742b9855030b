"""LimitRanges: the requests and limits that they give to containers, and the bounds that they set.

Pure, but for modifying the Pod that was decoded for this write.
"""

from collections.abc import Iterator
from typing import Any, Final

from levelset.apiserver.registry.limits.pod_resources import Amounts, amounts_of, pod_resources
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.objects.quantity import Quantity

__all__ = ["claim_problem", "pod_problem", "set_limit_defaults"]

_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_GROUPS: Final = (("containers", "container"), ("initContainers", "init container"))
_ZERO: Final = Quantity("0")


def set_limit_defaults(pod: Object, limit_range: Object) -> None:
    """Gives the containers of a Pod the default requests and limits, and notes in an annotation which ones."""
    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    for limit in _limits(limit_range, "Container"):
        requests |= map_member(limit, "defaultRequest")
        limits |= map_member(limit, "default")
    notes: list[str] = []
    for group, word in _GROUPS:
        for container in list_member(pod["spec"], group):
            for member, given in (("requests", requests), ("limits", limits)):
                added = _add_missing(container.setdefault("resources", {}), member, given)
                if added:
                    notes.append(f"{', '.join(added)} {member[:-1]} for {word} {container.get('name')}")
    if notes:
        text = f"LimitRanger plugin set: {'; '.join(notes)}"
        pod["metadata"]["annotations"] = {**map_member(pod["metadata"], "annotations"), _ANNOTATION: text}


def _add_missing(resources: Object, member: str, given: dict[str, Any]) -> list[str]:
    own = map_member(resources, member)
    missing = sorted(name for name in given if name not in own)
    if missing:
        resources[member] = {**own, **{name: given[name] for name in missing}}
    return missing


def pod_problem(pod: Object, limit_range: Object) -> str:
    """Why a LimitRange does not allow a Pod, as a message; empty if it does."""
    spec = pod["spec"]
    problems: list[str] = []
    for limit in _limits(limit_range, "Container"):
        for group, _ in _GROUPS:
            for container in list_member(spec, group):
                resources = map_member(container, "resources")
                given = amounts_of(map_member(resources, "requests")), amounts_of(map_member(resources, "limits"))
                problems += _bound_problems(limit, *given)
    for limit in _limits(limit_range, "Pod"):
        problems += _bound_problems(limit, pod_resources(spec, "requests"), pod_resources(spec, "limits"))
    return _joined(problems)


def claim_problem(claim: Object, limit_range: Object) -> str:
    """Why a LimitRange does not allow a PersistentVolumeClaim, as a message; empty if it does."""
    requests = amounts_of(map_member(map_member(map_member(claim, "spec"), "resources"), "requests"))
    problems: list[str] = []
    for limit in _limits(limit_range, "PersistentVolumeClaim"):
        problems += [
            text for name, bound in _bounds(limit, "min") for text in _minimum(limit, name, bound, requests, {})
        ]
        for name, bound in _bounds(limit, "max"):
            text = f"maximum {name} usage per {limit['type']} is {bound}"
            if name not in requests:
                problems.append(f"{text}.  No request is specified")
            elif bound < requests[name]:
                problems.append(f"{text}, but request is {requests[name]}")
    return _joined(problems)


def _limits(limit_range: Object, kind: str) -> list[Object]:
    return [one for one in list_member(map_member(limit_range, "spec"), "limits") if one.get("type") == kind]


def _bounds(limit: Object, member: str) -> list[tuple[str, Quantity]]:
    return sorted((name, Quantity.from_tree(value)) for name, value in map_member(limit, member).items())


def _bound_problems(limit: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, bound in _bounds(limit, "min"):
        yield from _minimum(limit, name, bound, requests, limits)
    for name, bound in _bounds(limit, "max"):
        yield from _maximum(limit, name, bound, requests, limits)
    for name, bound in _bounds(limit, "maxLimitRequestRatio"):
        yield from _ratio(limit, name, bound, requests, limits)


def _minimum(limit: Object, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    text = f"minimum {name} usage per {limit['type']} is {bound}"
    if name not in requests:
        yield f"{text}.  No request is specified"
    elif requests[name] < bound:
        yield f"{text}, but request is {requests[name]}"
    elif name in limits and limits[name] < bound:
        yield f"{text}, but limit is {limits[name]}"


def _maximum(limit: Object, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    text = f"maximum {name} usage per {limit['type']} is {bound}"
    if name not in limits:
        yield f"{text}.  No limit is specified"
    elif bound < limits[name]:
        yield f"{text}, but limit is {limits[name]}"
    elif name in requests and bound < requests[name]:
        yield f"{text}, but request is {requests[name]}"


def _ratio(limit: Object, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    text = f"{name} max limit to request ratio per {limit['type']} is {bound}, but"
    request, most = requests.get(name, _ZERO), limits.get(name, _ZERO)
    if not request:
        yield f"{text} no request is specified or request is 0"
    elif not most:
        yield f"{text} no limit is specified or limit is 0"
    elif most.to_fraction() / request.to_fraction() > bound.to_fraction():
        yield f"{text} provided ratio is {float(most.to_fraction() / request.to_fraction()):f}"


def _joined(problems: list[str]) -> str:
    return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]" if problems else ""
