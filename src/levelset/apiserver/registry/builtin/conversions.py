"""Conversions of built-in kinds that are served in two versions or groups but stored in one.

An Event of `events.k8s.io/v1` is stored as the Event of the core group, under other field names. A
HorizontalPodAutoscaler of `autoscaling/v1` is stored as `autoscaling/v2`, whose metrics include the CPU target of v1.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from levelset.apiserver.registry.builtin.autoscaler_status import (
    CURRENT_CPU,
    metrics_from_v1,
    metrics_to_v1,
    utilization_of_cpu,
    with_utilization_of_cpu,
)
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.errors import BadObject
from levelset.objects import decode_tree, encode_tree
from levelset.objects.json_tree import is_list, is_map

__all__ = [
    "CURRENT_METRICS",
    "STORAGE_CONVERSIONS",
    "StorageConversion",
    "autoscaler_to_v1",
    "autoscaler_to_v2",
    "event_to_core_v1",
    "event_to_events_v1",
]


class StorageConversion(msgspec.Struct, frozen=True):
    """The group and version that a kind is stored in, and the conversions from and to it, in place.

    Only the top level of the tree is modified in place: nested values may be shared and are replaced.
    """

    group: str
    version: str
    from_stored: Callable[[Object], None]
    to_stored: Callable[[Object], None]


# Field names of core/v1 Events and their names in events.k8s.io/v1.
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


def event_to_events_v1(tree: Object) -> None:
    """Converts a core/v1 Event to `events.k8s.io/v1`, in place."""
    _rename(tree, EVENT_FIELDS)


def event_to_core_v1(tree: Object) -> None:
    """Converts an Event of `events.k8s.io/v1` to core/v1, in place."""
    _rename(tree, CORE_FIELDS)


def _rename(tree: Object, names: Mapping[str, str]) -> None:
    renamed = {names.get(name, name): value for name, value in tree.items()}
    tree.clear()
    tree.update(renamed)


TARGET_CPU = "targetCPUUtilizationPercentage"
# Annotations in which v1 preserves the fields that only v2 has, so that a client of v1 does not lose them.
V2_ANNOTATIONS = {
    "metrics": "autoscaling.alpha.kubernetes.io/metrics",
    "behavior": "autoscaling.alpha.kubernetes.io/behavior",
}

CURRENT_METRICS = "autoscaling.alpha.kubernetes.io/current-metrics"
CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"


def autoscaler_to_v1(tree: Object) -> None:
    """Converts an autoscaler of v2 to v1, in place; the fields that v1 lacks go into annotations."""
    spec, metrics = dict(map_member(tree, "spec")), list_member(map_member(tree, "spec"), "metrics")
    targets = [one for one in metrics if _is_cpu(one)][:1]
    spec["metrics"] = [one for one in metrics if one not in targets]
    annotations = dict(map_member(map_member(tree, "metadata"), "annotations"))
    for field, key in V2_ANNOTATIONS.items():
        value = spec.pop(field, None)
        if value:
            annotations[key] = encode_tree(value).decode()
    if targets:
        spec[TARGET_CPU] = targets[0]["resource"]["target"]["averageUtilization"]
    tree["spec"] = spec
    if map_member(tree, "status"):
        tree["status"] = _status_to_v1(tree["status"], annotations)
    _annotate(tree, annotations)


def _status_to_v1(status: Object, annotations: Object) -> Object:
    """Returns the status of v1; what it has no fields for is put into the annotations."""
    made = dict(status)
    metrics, conditions = made.pop("currentMetrics", None), made.pop("conditions", None)
    if is_list(metrics) and metrics:
        annotations[CURRENT_METRICS] = encode_tree(metrics_to_v1(metrics)).decode()
        percentage = utilization_of_cpu(metrics)
        if percentage is not None:
            made[CURRENT_CPU] = percentage
    if conditions:
        annotations[CONDITIONS] = encode_tree(conditions).decode()
    return made


def autoscaler_to_v2(tree: Object) -> None:
    """Converts an autoscaler of v1 to v2, in place."""
    spec, metrics = dict(map_member(tree, "spec")), list[Any]()
    target = spec.pop(TARGET_CPU, None)
    if target is not None:
        wanted = {"type": "Utilization", "averageUtilization": target}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": wanted}})
    annotations = dict(map_member(map_member(tree, "metadata"), "annotations"))
    preserved = {field: _decoded(annotations.pop(key, None)) for field, key in V2_ANNOTATIONS.items()}
    if is_list(preserved["metrics"]):
        metrics += preserved["metrics"]
    if metrics:
        spec["metrics"] = metrics
    if is_map(preserved["behavior"]):
        spec["behavior"] = preserved["behavior"]
    tree["spec"] = spec
    metrics, conditions = (_decoded(annotations.pop(key, None)) for key in (CURRENT_METRICS, CONDITIONS))
    if map_member(tree, "status"):
        tree["status"] = _status_to_v2(tree["status"], metrics, conditions)
    _annotate(tree, annotations)


def _status_to_v2(status: Object, metrics: Any, conditions: Any) -> Object:
    """Returns the status of v2; the CPU's field of v1 is newer than the annotation of its metrics."""
    made = dict(status)
    percentage = made.pop(CURRENT_CPU, None)
    current = metrics_from_v1(metrics) if is_list(metrics) else []
    if percentage is not None:
        current = with_utilization_of_cpu(current, percentage)
    if current:
        made["currentMetrics"] = current
    if is_list(conditions):
        made["conditions"] = conditions
    return made


def _annotate(tree: Object, annotations: Object) -> None:
    metadata = dict(map_member(tree, "metadata"))
    if annotations != map_member(metadata, "annotations"):
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


STORAGE_CONVERSIONS: Mapping[tuple[str, str, str], StorageConversion] = {
    ("events.k8s.io", "v1", "Event"): StorageConversion("", "v1", event_to_events_v1, event_to_core_v1),
    ("autoscaling", "v1", "HorizontalPodAutoscaler"): StorageConversion(
        "autoscaling", "v2", autoscaler_to_v1, autoscaler_to_v2
    ),
}
