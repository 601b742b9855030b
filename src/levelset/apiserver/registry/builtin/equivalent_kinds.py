"""Kinds that are views of another kind: stored once, shown under two names with differently named fields.

An event of `events.k8s.io` is the event of the core group seen anew, and the autoscaler of `autoscaling/v1` is the one
of `autoscaling/v2` with its one well-known metric as a field of its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object
from levelset.errors import BadObject
from levelset.objects import decode_tree, encode_tree
from levelset.objects.json_tree import is_list, is_map

__all__ = ["VIEWS", "View", "core_event", "newer_autoscaler", "newer_event", "older_autoscaler"]


@dataclass(frozen=True, slots=True)
class View:
    """Where the objects really are, and the two ways of turning one into the other, in place.

    Only the outermost level is changed in place: what lies deeper may belong to somebody else and is replaced.
    """

    group: str
    version: str
    from_stored: Callable[[Object], None]
    to_stored: Callable[[Object], None]


# The core event's name of a field, and the newer one.
EVENT_FIELDS = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
CORE_FIELDS = {newer: older for older, newer in EVENT_FIELDS.items()}


def newer_event(tree: Object) -> None:
    """A core event becomes one of `events.k8s.io`."""
    _rename(tree, EVENT_FIELDS)


def core_event(tree: Object) -> None:
    """An event of `events.k8s.io` becomes one of the core group."""
    _rename(tree, CORE_FIELDS)


def _rename(tree: Object, names: Mapping[str, str]) -> None:
    renamed = {names.get(name, name): value for name, value in tree.items()}
    tree.clear()
    tree.update(renamed)


CPU = "targetCPUUtilizationPercentage"
CURRENT_CPU = "currentCPUUtilizationPercentage"
# Where v1 keeps what it has no word for, so that a client of v1 does not lose it.
KEPT = {
    "metrics": "autoscaling.alpha.kubernetes.io/metrics",
    "behavior": "autoscaling.alpha.kubernetes.io/behavior",
}


def older_autoscaler(tree: Object) -> None:
    """An autoscaler of v2 becomes one of v1; what v1 has no word for goes into annotations."""
    spec, metrics = dict(part(tree, "spec")), items(part(tree, "spec"), "metrics")
    targets = [one for one in metrics if _is_cpu(one)][:1]
    spec["metrics"] = [one for one in metrics if one not in targets]
    annotations = dict(part(part(tree, "metadata"), "annotations"))
    for field, key in KEPT.items():
        value = spec.pop(field, None)
        if value:
            annotations[key] = encode_tree(value).decode()
    if targets:
        spec[CPU] = targets[0]["resource"]["target"]["averageUtilization"]
    tree["spec"] = spec
    _annotate(tree, annotations)
    if part(tree, "status"):
        hidden = ("currentMetrics", "conditions")
        tree["status"] = {name: value for name, value in tree["status"].items() if name not in hidden}


def newer_autoscaler(tree: Object) -> None:
    """An autoscaler of v1 becomes one of v2."""
    spec, metrics = dict(part(tree, "spec")), list[Any]()
    target = spec.pop(CPU, None)
    if target is not None:
        wanted = {"type": "Utilization", "averageUtilization": target}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": wanted}})
    annotations = dict(part(part(tree, "metadata"), "annotations"))
    kept = {field: _decoded(annotations.pop(key, None)) for field, key in KEPT.items()}
    if is_list(kept["metrics"]):
        metrics += kept["metrics"]
    if metrics:
        spec["metrics"] = metrics
    if is_map(kept["behavior"]):
        spec["behavior"] = kept["behavior"]
    tree["spec"] = spec
    _annotate(tree, annotations)
    if CURRENT_CPU in part(tree, "status"):
        tree["status"] = {name: value for name, value in tree["status"].items() if name != CURRENT_CPU}


def _annotate(tree: Object, annotations: Object) -> None:
    metadata = dict(part(tree, "metadata"))
    if annotations != part(metadata, "annotations"):
        metadata["annotations"] = annotations
        tree["metadata"] = metadata if annotations else {k: v for k, v in metadata.items() if k != "annotations"}


def _decoded(text: Any) -> Any:
    try:
        return decode_tree(text) if isinstance(text, str) else None
    except BadObject:
        return None


def _is_cpu(metric: Any) -> bool:
    match metric:
        case {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": int()}}}:
            return True
        case _:
            return False


VIEWS: Mapping[tuple[str, str, str], View] = {
    ("events.k8s.io", "v1", "Event"): View("", "v1", newer_event, core_event),
    ("autoscaling", "v1", "HorizontalPodAutoscaler"): View("autoscaling", "v2", older_autoscaler, newer_autoscaler),
}
