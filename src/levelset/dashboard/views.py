"""Converts stored objects into the JSON that the page shows: short, bounded, and without secrets.

The input is not trusted: any field may be missing or have another type.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from levelset.client.discovery import ApiResource
from levelset.errors import BadRequest, Malformed
from levelset.objects.json_tree import is_list, is_map
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.running_controller import RunningStats

__all__ = [
    "MOST_OBJECTS",
    "controller_view",
    "event_view",
    "kind_text",
    "kinds_view",
    "newest_events",
    "object_text",
    "read_kind",
    "row_of",
    "without_secrets",
]

MOST_OBJECTS: Final = 500
"""The maximum number of objects on one page."""

_MOST_CONDITIONS: Final = 12
_MOST_TEXT: Final = 2_000
_LONG_YAML: Final = 64 * 1024
_LONGEST: Final = 512 * 1024
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_SUMMARY_CONDITIONS: Final = ("Ready", "Available", "Complete", "Succeeded", "Established", "Progressing")
_STARTING_REASONS: Final = frozenset({"ContainerCreating", "Pulling"})
_GOOD_PHASES: Final = frozenset(
    {"active", "available", "bound", "complete", "completed", "ready", "running", "succeeded"}
)
_BAD_PHASES: Final = frozenset({"broken", "crashloopbackoff", "error", "evicted", "failed", "lost", "unknown"})


def kind_text(gvk: GroupVersionKind) -> str:
    """A kind in a URL: `v1/Pod`, `apps/v1/Deployment`."""
    return f"{gvk.api_version}/{gvk.kind}"


def read_kind(text: str | None) -> GroupVersionKind:
    """Parses a kind of a URL; raises BadRequest."""
    api_version, _, kind = (text or "").rpartition("/")
    try:
        return GroupVersionKind.of(api_version, kind)
    except Malformed as error:
        raise BadRequest("kind is missing or malformed: ?kind=v1/Pod, or ?kind=apps/v1/Deployment") from error


def kinds_view(
    served: Iterable[ApiResource],
    counts: Mapping[GroupVersionKind, int | None],
    controlled: Collection[GroupVersionKind],
) -> list[dict[str, Any]]:
    """The kinds with the number of their objects; those with a controller first, then by name."""
    with_controller = {(one.group, one.kind) for one in controlled}
    kinds = [
        {
            "kind": kind_text(one.gvk),
            "name": one.gvk.kind,
            "group": one.gvk.group,
            "namespaced": one.namespaced,
            "count": counts.get(one.gvk),
            "hasController": (one.gvk.group, one.gvk.kind) in with_controller,
        }
        for one in served
    ]
    return sorted(kinds, key=lambda one: (not one["hasController"], one["name"], one["group"]))


def row_of(tree: Any) -> dict[str, Any]:
    """One row: name, state, conditions, age and owner of an object."""
    meta = _map(tree, "metadata")
    state, tone = _state(tree)
    return {
        "name": _text(meta.get("name")),
        "namespace": _text(meta.get("namespace")) or None,
        "created": _text(meta.get("creationTimestamp")) or None,
        "state": state,
        "tone": tone,
        "conditions": [_condition(one) for one in _maps(_map(tree, "status"), "conditions")[:_MOST_CONDITIONS]],
        "owner": _owner(meta),
    }


def without_secrets(tree: Any) -> Any:
    """The tree to show: without managedFields, and with masked data for a Secret."""
    if not is_map(tree):
        return tree
    meta = {name: value for name, value in _map(tree, "metadata").items() if name != "managedFields"}
    shown = {**tree, "metadata": meta}
    if tree.get("kind") == "Secret" and tree.get("apiVersion") == "v1":
        for name in ("data", "stringData"):
            if name in tree:
                shown[name] = {key: _masked(value) for key, value in _map(tree, name).items()}
        annotations = _map(meta, "annotations")
        if _LAST_APPLIED in annotations:
            meta["annotations"] = {**annotations, _LAST_APPLIED: "(hidden)"}
    return shown


def object_text(tree: Any) -> dict[str, Any]:
    """A tree as YAML, or as JSON if it is so large that YAML would be slow; truncated if very large."""
    text = json.dumps(tree, indent=2, ensure_ascii=False)
    if len(text) > _LONG_YAML:
        return {"language": "json", "text": text[:_LONGEST], "isCut": len(text) > _LONGEST}
    from levelset.objects.yaml_codec import write_yaml  # noqa: PLC0415  # imported late: slow, and not needed to start

    return {"language": "yaml", "text": write_yaml([tree]), "isCut": False}


def event_view(tree: Any) -> dict[str, Any]:
    """One Event: reason, message, object, count and last time."""
    about = _map(tree, "involvedObject")
    series = _map(tree, "series")
    count = tree.get("count") or series.get("count") or 1
    kind = f"{_text(about.get('apiVersion'))}/{_text(about.get('kind'))}"
    return {
        "type": _text(tree.get("type")) or "Normal",
        "reason": _text(tree.get("reason")),
        "message": _text(tree.get("message")),
        "count": count if isinstance(count, int) else 1,
        "at": _at(tree),
        "from": _text(tree.get("reportingComponent")) or _text(_map(tree, "source").get("component")),
        "about": {"kind": kind, "name": _text(about.get("name")), "namespace": _text(about.get("namespace")) or None},
    }


def newest_events(trees: Iterable[Any], most: int) -> list[dict[str, Any]]:
    """The newest of these Events, newest first."""
    return sorted(map(event_view, trees), key=lambda one: one["at"], reverse=True)[:most]


def controller_view(
    stats: RunningStats, gvk: GroupVersionKind, history: Sequence[Outcome[Any]], ages: Sequence[float]
) -> dict[str, Any]:
    """A controller: its queue, running reconciles, totals and last error."""
    errors = [one for one in history if one.is_error]
    return {
        "name": stats.name,
        "kind": kind_text(gvk),
        "isReady": stats.is_ready,
        "waiting": stats.ready,
        "delayed": stats.delayed,
        "running": stats.running,
        "workers": stats.workers,
        "longest": round(max(ages, default=0.0), 3),
        "reconciles": stats.reconciles,
        "failing": stats.failing,
        "errors": len(errors),
        "lastError": _error(errors[-1]) if errors else None,
        "lastReconciled": _ref(history[-1].ref) if history else None,
    }


def _state(tree: Any) -> tuple[str, str]:
    """The state of an object in a word or two, and its tone: good, bad, busy or none."""
    if _map(tree, "metadata").get("deletionTimestamp"):
        return "being deleted", "busy"
    status = _map(tree, "status")
    if reason := _waiting_reason(status):
        return reason, "busy" if reason in _STARTING_REASONS else "bad"
    for name in ("phase", "state"):
        if word := _text(status.get(name)):
            return _phase(word, _maps(status, "conditions"))
    if counted := _replicas(_map(tree, "spec"), status):
        return counted
    conditions = {_text(one.get("type")): one for one in _maps(status, "conditions")}
    if "Failed" in conditions and conditions["Failed"].get("status") == "True":
        return "Failed", "bad"
    for name in (*_SUMMARY_CONDITIONS, *conditions):
        if name in conditions:
            return _condition_state(name, conditions[name])
    return "", "none"


def _phase(word: str, conditions: list[dict[str, Any]]) -> tuple[str, str]:
    """The state of a phase; a Running object may still not be Ready."""
    is_unready = any(one.get("type") == "Ready" and one.get("status") != "True" for one in conditions)
    return (f"{word}, not Ready", "busy") if word == "Running" and is_unready else (word, _tone(word))


def _waiting_reason(status: Mapping[str, Any]) -> str:
    """The waiting reason of a container, which says more than the phase of the Pod."""
    containers = [*_maps(status, "initContainerStatuses"), *_maps(status, "containerStatuses")]
    reasons = [_text(_map(_map(one, "state"), "waiting").get("reason")) for one in containers]
    return next((one for one in reasons if one and one != "PodInitializing"), "")


def _replicas(spec: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[str, str] | None:
    wanted, ready = spec.get("replicas"), status.get("readyReplicas", 0)
    if not isinstance(wanted, int) or not isinstance(ready, int) or not {"readyReplicas", "replicas"} & set(status):
        return None
    return f"{ready}/{wanted} ready", "good" if ready >= wanted else "busy"


def _condition_state(name: str, condition: Mapping[str, Any]) -> tuple[str, str]:
    """The state of a condition: `Ready`, or `not Ready: NoImage`."""
    if condition.get("status") == "True":
        return name, "good" if name in _SUMMARY_CONDITIONS else "none"
    reason = _text(condition.get("reason"))
    tone = "bad" if condition.get("status") == "False" and name in _SUMMARY_CONDITIONS else "busy"
    return f"not {name}{f': {reason}' if reason else ''}", tone


def _tone(word: str) -> str:
    return "good" if word.lower() in _GOOD_PHASES else "bad" if word.lower() in _BAD_PHASES else "busy"


def _condition(tree: Mapping[str, Any]) -> dict[str, str]:
    return {name: _text(tree.get(name)) for name in ("type", "status", "reason", "message", "lastTransitionTime")}


def _owner(meta: Mapping[str, Any]) -> dict[str, Any] | None:
    """The controller owner, or else the first owner."""
    owners = _maps(meta, "ownerReferences")
    if not owners:
        return None
    owner = next((one for one in owners if one.get("controller") is True), owners[0])
    return {
        "kind": f"{_text(owner.get('apiVersion'))}/{_text(owner.get('kind'))}",
        "name": _text(owner.get("name")),
        "namespace": _text(meta.get("namespace")) or None,
    }


def _masked(value: Any) -> str:
    """The length of a secret value instead of the value."""
    return f"(hidden, {len(value) if isinstance(value, str) else 0} characters)"


def _at(tree: Any) -> str:
    times = [_map(tree, "series").get("lastObservedTime"), tree.get("lastTimestamp"), tree.get("eventTime")]
    times += [tree.get("firstTimestamp"), _map(tree, "metadata").get("creationTimestamp")]
    return next((one for one in times if isinstance(one, str) and one), "")


def _error(outcome: Outcome[Any]) -> dict[str, Any]:
    return {**_ref(outcome.ref), "message": _text(f"{type(outcome.error).__name__}: {outcome.error}")}


def _ref(ref: Ref[Any]) -> dict[str, Any]:
    return {"kind": kind_text(ref.gvk), "name": ref.name, "namespace": ref.namespace}


def _map(tree: Any, name: str) -> dict[str, Any]:
    found = tree.get(name) if is_map(tree) else None
    return found if is_map(found) else {}


def _maps(tree: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = tree.get(name)
    return [one for one in found if is_map(one)] if is_list(found) else []


def _text(value: Any) -> str:
    return value[:_MOST_TEXT] if isinstance(value, str) else ""
