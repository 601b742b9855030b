"""The cells of the table columns of HorizontalPodAutoscalers: each metric as its current value and its target."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from levelset.apiserver.printers.cell_values import at, joined, listed, number, text
from levelset.apiserver.registry.builtin.conversions import autoscaler_to_v2
from levelset.apiserver.resources.served_resource import Object

__all__ = ["AUTOSCALER"]

Cell = Callable[[Object, datetime], Any]

_SHOWN = 2
_UNKNOWN = "<unknown>"
# The member of a metric, and whether its name is shown: those of a resource are short.
_MEMBERS = {
    "Resource": ("resource", True),
    "ContainerResource": ("containerResource", True),
    "Pods": ("pods", False),
    "Object": ("object", False),
    "External": ("external", False),
}


def _targets(tree: Object, _: datetime) -> str:
    if tree.get("apiVersion") == "autoscaling/v1":
        tree = dict(tree)
        autoscaler_to_v2(tree)
    metrics, found = listed(tree, "spec", "metrics"), listed(tree, "status", "currentMetrics")
    if not metrics:
        return "<none>"
    shown = [_metric(one, found[place] if place < len(found) else None) for place, one in enumerate(metrics[:_SHOWN])]
    more = f" + {len(metrics) - _SHOWN} more..." if len(metrics) > _SHOWN else ""
    return joined(shown, ", ") + more


def _metric(metric: Any, current: Any) -> str:
    """A metric as `cpu: 42%/70%`; its current value is the one at the same place, whatever it is named."""
    if text(metric, "type") not in _MEMBERS:
        return "<unknown type>"
    member, is_named = _MEMBERS[text(metric, "type")]
    target, value = at(metric, member, "target"), at(current, member, "current")
    if is_named:
        return f"{text(metric, member, 'name')}: {_resource(target, value)}"
    if text(target, "averageValue"):
        average = "" if member == "pods" else " (avg)"
        return f"{text(value, 'averageValue') or _UNKNOWN}/{text(target, 'averageValue')}{average}"
    return f"{text(value, 'value') or _UNKNOWN}/{text(target, 'value')}"


def _resource(target: Any, value: Any) -> str:
    if text(target, "averageValue"):
        return f"{text(value, 'averageValue') or _UNKNOWN}/{text(target, 'averageValue')}"
    wanted, found = at(target, "averageUtilization"), at(value, "averageUtilization")
    return f"{_UNKNOWN if found is None else f'{found}%'}/{'<auto>' if wanted is None else f'{wanted}%'}"


def _reference(tree: Object, _: datetime) -> str:
    return f"{text(tree, 'spec', 'scaleTargetRef', 'kind')}/{text(tree, 'spec', 'scaleTargetRef', 'name')}"


AUTOSCALER: dict[str, Cell] = {
    "Reference": _reference,
    "Targets": _targets,
    "MinPods": lambda tree, _: str(number(tree, "spec", "minReplicas") or "<unset>"),
    "MaxPods": lambda tree, _: number(tree, "spec", "maxReplicas"),
    "Replicas": lambda tree, _: number(tree, "status", "currentReplicas"),
}
