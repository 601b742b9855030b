"""The status of an autoscaler of `autoscaling/v1`: what only v2 has is preserved in annotations.

Their metrics have a form of their own; each of its fields is a line of a table.
"""

from collections.abc import Iterable
from typing import Any, Final

from levelset.apiserver.resources.json_members import map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.objects.json_tree import is_map

__all__ = ["CURRENT_CPU", "metrics_from_v1", "metrics_to_v1", "utilization_of_cpu", "with_utilization_of_cpu"]

CURRENT_CPU: Final = "currentCPUUtilizationPercentage"
_ZERO: Final = "0"

_RESOURCE: Final = (
    ("name", "name"),
    ("currentAverageUtilization", "current.averageUtilization"),
    ("currentAverageValue", "current.averageValue"),
)
# The member of each type, and the fields of v1 with their paths in v2.
_FIELDS: Final[dict[str, tuple[str, tuple[tuple[str, str], ...]]]] = {
    "Resource": ("resource", _RESOURCE),
    "ContainerResource": ("containerResource", (*_RESOURCE, ("container", "container"))),
    "Pods": (
        "pods",
        (
            ("metricName", "metric.name"),
            ("currentAverageValue", "current.averageValue"),
            ("selector", "metric.selector"),
        ),
    ),
    "Object": (
        "object",
        (
            ("target", "describedObject"),
            ("metricName", "metric.name"),
            ("currentValue", "current.value"),
            ("selector", "metric.selector"),
            ("averageValue", "current.averageValue"),
        ),
    ),
    "External": (
        "external",
        (
            ("metricName", "metric.name"),
            ("metricSelector", "metric.selector"),
            ("currentValue", "current.value"),
            ("currentAverageValue", "current.averageValue"),
        ),
    ),
}
_ALWAYS: Final = {
    "Resource": "currentAverageValue",
    "ContainerResource": "currentAverageValue",
    "Pods": "currentAverageValue",
    "Object": "currentValue",
    "External": "currentValue",
}
"""The quantity that v1 shows even if there is none."""


def metrics_to_v1(metrics: Iterable[Any]) -> list[Object]:
    """Returns the current metrics of v2 in the form of v1's annotation."""
    return [_to_v1(one) for one in metrics if is_map(one) and one.get("type") in _FIELDS]


def _to_v1(metric: Any) -> Object:
    member, fields = _FIELDS[metric["type"]]
    source = map_member(metric, member)
    found = {name: _at(source, path) for name, path in fields}
    if found[_ALWAYS[metric["type"]]] is None:
        found[_ALWAYS[metric["type"]]] = _ZERO
    return {"type": metric["type"], member: {name: value for name, value in found.items() if value is not None}}


def metrics_from_v1(metrics: Iterable[Any]) -> list[Object]:
    """Returns the metrics of v1's annotation in the form of v2."""
    return [_from_v1(one) for one in metrics if is_map(one) and one.get("type") in _FIELDS]


def _from_v1(metric: Any) -> Object:
    member, fields = _FIELDS[metric["type"]]
    source, made = map_member(metric, member), dict[str, Any]()
    for name, path in fields:
        if source.get(name) is not None:
            parent, _, last = path.rpartition(".")
            (made.setdefault(parent, {}) if parent else made)[last] = source[name]
    return {"type": metric["type"], member: made}


def utilization_of_cpu(metrics: Iterable[Any]) -> int | None:
    """Returns the average utilization of the CPU, which is a field of v1."""
    for one in metrics:
        match one:
            case {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": int() as found}}}:
                return found
            case _:
                continue
    return None


def with_utilization_of_cpu(metrics: list[Object], percentage: Any) -> list[Object]:
    """Returns the metrics with this utilization of the CPU."""
    cpu: Object = {"name": "cpu", "current": {"averageUtilization": percentage, "averageValue": _ZERO}}
    if utilization_of_cpu(metrics) is None:
        return [{"type": "Resource", "resource": cpu}, *metrics]
    return [one if utilization_of_cpu([one]) is None else _with_percentage(one, percentage) for one in metrics]


def _with_percentage(metric: Object, percentage: Any) -> Object:
    resource = metric["resource"]
    current = {**resource["current"], "averageUtilization": percentage}
    return {**metric, "resource": {**resource, "current": current}}


def _at(tree: Any, path: str) -> Any:
    for name in path.split("."):
        tree = tree.get(name) if is_map(tree) else None
    return tree
