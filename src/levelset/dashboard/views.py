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
    "container_names",
    "container_states",
    "container_statuses",
    "controller_view",
    "event_view",
    "kind_text",
    "kinds_view",
    "map_in",
    "maps_in",
    "newest_events",
    "object_text",
    "read_kind",
    "row_of",
    "shown_tree",
    "state_of",
    "status_fields",
    "text_of",
]

MOST_OBJECTS: Final = 500
"""The maximum number of objects on one page."""

_MOST_CONDITIONS: Final = 12
_MOST_TEXT: Final = 2_000
_LONG_YAML: Final = 64 * 1024
_LONGEST: Final = 512 * 1024
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MOST_FIELDS: Final = 30
SUMMARY_CONDITIONS: Final = ("Ready", "Available", "Complete", "Succeeded", "Established", "Progressing")
"""The conditions that say how an object is as a whole, the most telling first."""
_STARTING_REASONS: Final = frozenset({"ContainerCreating", "Pulling"})
_GOOD_PHASES: Final = frozenset(
    {"active", "available", "bound", "complete", "completed", "ready", "running", "succeeded"}
)
_BAD_PHASES: Final = frozenset({"broken", "crashloopbackoff", "error", "evicted", "failed", "lost", "unknown"})
STARTING_PHASES: Final = frozenset(
    {"pending", "containercreating", "pulling", "starting", "progressing", "creating", "provisioning"}
)
"""The phases, in lower case, of an object that is on its way."""
_PLAIN_PHASES: Final = _BAD_PHASES | STARTING_PHASES | {"succeeded", "complete", "completed"}


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
    meta = map_in(tree, "metadata")
    state, tone = state_of(tree)
    return {
        "name": text_of(meta.get("name")),
        "namespace": text_of(meta.get("namespace")) or None,
        "created": text_of(meta.get("creationTimestamp")) or None,
        "state": state,
        "tone": tone,
        "conditions": [_condition(one) for one in maps_in(map_in(tree, "status"), "conditions")[:_MOST_CONDITIONS]],
        "owner": _owner(meta),
    }


def status_fields(tree: Any) -> list[dict[str, str]]:
    """The fields of a status that are one value, also one level below; conditions are shown as a table."""
    found: list[dict[str, str]] = []
    for name, value in map_in(tree, "status").items():
        inner = value.items() if is_map(value) else ()
        for path, one in ((name, value), *((f"{name}.{below}", each) for below, each in inner)):
            if isinstance(one, bool | int | float | str) and one != "":
                text = str(one).lower() if isinstance(one, bool) else str(one)
                found.append({"field": text_of(path), "value": text_of(text)})
    return found[:_MOST_FIELDS]


def shown_tree(tree: Any, *, is_whole: bool = False) -> Any:
    """The tree to show: with masked data for a Secret, and unless it is whole without what only machines read.

    That is managedFields, and the annotation in which kubectl stores what was applied last. The name comes first.
    """
    if not is_map(tree):
        return tree
    given = map_in(tree, "metadata")
    hidden = () if is_whole else ("managedFields",)
    named = {name: given[name] for name in ("name", "namespace") if name in given}
    meta = named | {name: value for name, value in given.items() if name not in hidden}
    shown = {**tree, "metadata": meta}
    is_secret = tree.get("kind") == "Secret" and tree.get("apiVersion") == "v1"
    annotations = map_in(meta, "annotations")
    if _LAST_APPLIED in annotations and (is_secret or not is_whole):
        rest = {name: value for name, value in annotations.items() if name != _LAST_APPLIED}
        meta["annotations"] = {**rest, _LAST_APPLIED: "(hidden)"} if is_whole else rest
        if not meta["annotations"]:
            del meta["annotations"]
    if is_secret:
        for name in ("data", "stringData"):
            if name in tree:
                shown[name] = {key: _masked(value) for key, value in map_in(tree, name).items()}
    return shown


def container_names(tree: Any) -> list[str]:
    """The containers of a Pod, init containers first; empty for all other kinds."""
    spec = map_in(tree, "spec")
    found = [*maps_in(spec, "initContainers"), *maps_in(spec, "containers")]
    names = [text_of(one.get("name")) for one in found] if tree.get("kind") == "Pod" else []
    return [one for one in names if one]


def container_states(tree: Any) -> list[dict[str, Any]]:
    """The containers of a Pod, init containers first: image, state, restarts, and how each and its last run ended."""
    known = {text_of(one.get("name")): one for one in container_statuses(map_in(tree, "status"))}
    spec = map_in(tree, "spec")
    all_ = [*maps_in(spec, "initContainers"), *maps_in(spec, "containers")] if tree.get("kind") == "Pod" else []
    return [_container_state(one, known.get(text_of(one.get("name")), {})) for one in all_]


def _container_state(container: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
    state = map_in(status, "state")
    word = next((one for one in ("running", "terminated", "waiting") if one in state), "waiting")
    found, restarts = map_in(state, word), status.get("restartCount")
    ends = [
        _end_of(map_in(state, "terminated"), "it ended"),
        _end_of(map_in(map_in(status, "lastState"), "terminated"), "the last run ended"),
    ]
    reason = text_of(found.get("reason"))
    tone = _container_tone(word, reason, is_ready=status.get("ready") is True, code=found.get("exitCode"))
    return {
        "name": text_of(container.get("name")),
        "image": text_of(container.get("image")),
        "state": reason or ("running, not ready" if word == "running" and tone != "good" else word),
        "tone": tone,
        "restarts": restarts if isinstance(restarts, int) else 0,
        "since": text_of(found.get("startedAt")) or text_of(found.get("finishedAt")) or None,
        "message": "; ".join(filter(None, [text_of(map_in(state, "waiting").get("message")), *ends])),
        "ports": [
            one["containerPort"] for one in maps_in(container, "ports") if isinstance(one.get("containerPort"), int)
        ],
    }


def _container_tone(word: str, reason: str, *, is_ready: bool, code: object) -> str:
    match word:
        case "running":
            return "good" if is_ready else "busy"
        case "terminated":
            return "good" if code == 0 else "bad"
        case _:
            return "busy" if reason in {"", "PodInitializing", *_STARTING_REASONS} else "bad"


def _end_of(terminated: Mapping[str, Any], what: str) -> str:
    code, message = terminated.get("exitCode"), text_of(terminated.get("message")).strip()
    return f"{what} with exit code {code}{f': {message}' if message else ''}" if isinstance(code, int) else ""


def object_text(tree: Any) -> dict[str, Any]:
    """A tree as YAML, or as JSON if it is so large that YAML would be slow; truncated if very large."""
    text = json.dumps(tree, indent=2, ensure_ascii=False)
    if len(text) > _LONG_YAML:
        return {"language": "json", "text": text[:_LONGEST], "isCut": len(text) > _LONGEST}
    from levelset.objects.yaml_codec import write_yaml  # noqa: PLC0415  # imported late: slow, and not needed to start

    return {"language": "yaml", "text": write_yaml([tree]), "isCut": False}


def event_view(tree: Any) -> dict[str, Any]:
    """One Event: reason, message, object, count and last time."""
    about = map_in(tree, "involvedObject")
    series = map_in(tree, "series")
    count = tree.get("count") or series.get("count") or 1
    kind = f"{text_of(about.get('apiVersion'))}/{text_of(about.get('kind'))}"
    return {
        "type": text_of(tree.get("type")) or "Normal",
        "reason": text_of(tree.get("reason")),
        "message": text_of(tree.get("message")),
        "count": count if isinstance(count, int) else 1,
        "at": _at(tree),
        "from": text_of(tree.get("reportingComponent")) or text_of(map_in(tree, "source").get("component")),
        "about": {
            "kind": kind,
            "name": text_of(about.get("name")),
            "namespace": text_of(about.get("namespace")) or None,
        },
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


def state_of(tree: Any) -> tuple[str, str]:
    """The state of an object in a word or two, and its tone: good, bad, busy or none."""
    if map_in(tree, "metadata").get("deletionTimestamp"):
        return "being deleted", "busy"
    status = map_in(tree, "status")
    if reason := _waiting_reason(status):
        return reason, "busy" if reason in _STARTING_REASONS else "bad"
    for name in ("phase", "state"):
        if word := text_of(status.get(name)):
            return _phase(word, maps_in(status, "conditions"))
    if counted := _replicas(map_in(tree, "spec"), status):
        return counted
    conditions = {text_of(one.get("type")): one for one in maps_in(status, "conditions")}
    if "Failed" in conditions and conditions["Failed"].get("status") == "True":
        return "Failed", "bad"
    for name in (*SUMMARY_CONDITIONS, *conditions):
        if name in conditions:
            return _condition_state(name, conditions[name])
    return "", "none"


def _phase(word: str, conditions: list[dict[str, Any]]) -> tuple[str, str]:
    """The state of a phase, unless the conditions say more: a Running object may not be Ready.

    One that starts or has finished is not ready either, and its phase says so; a phase of unknown meaning does not.
    """
    unready = next((one for one in conditions if _is_unready(one)), None)
    if unready is None or word.lower() in _PLAIN_PHASES:
        return word, _tone(word)
    state, tone = _condition_state(text_of(unready.get("type")), unready)
    return (f"{word}, {state}", tone) if _tone(word) == "busy" else (f"{word}, {state.partition(':')[0]}", "busy")


def _is_unready(condition: Mapping[str, Any]) -> bool:
    return condition.get("type") in {"Ready", "Available"} and condition.get("status") != "True"


def container_statuses(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The states of the containers of a Pod, in the order in which they start."""
    return [*maps_in(status, "initContainerStatuses"), *maps_in(status, "containerStatuses")]


def _waiting_reason(status: Mapping[str, Any]) -> str:
    """The waiting reason of a container, which says more than the phase of the Pod."""
    waiting = [map_in(map_in(one, "state"), "waiting") for one in container_statuses(status)]
    reasons = [text_of(one.get("reason")) for one in waiting]
    return next((one for one in reasons if one and one != "PodInitializing"), "")


def _replicas(spec: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[str, str] | None:
    wanted, ready = spec.get("replicas"), status.get("readyReplicas", 0)
    if not isinstance(wanted, int) or not isinstance(ready, int) or not {"readyReplicas", "replicas"} & set(status):
        return None
    return f"{ready}/{wanted} ready", "good" if ready >= wanted else "busy"


def _condition_state(name: str, condition: Mapping[str, Any]) -> tuple[str, str]:
    """The state of a condition: `Ready`, or `not Ready: NoImage`."""
    if condition.get("status") == "True":
        return name, "good" if name in SUMMARY_CONDITIONS else "none"
    reason = text_of(condition.get("reason"))
    tone = "bad" if condition.get("status") == "False" and name in SUMMARY_CONDITIONS else "busy"
    return f"not {name}{f': {reason}' if reason else ''}", tone


def _tone(word: str) -> str:
    return "good" if word.lower() in _GOOD_PHASES else "bad" if word.lower() in _BAD_PHASES else "busy"


def _condition(tree: Mapping[str, Any]) -> dict[str, str]:
    return {name: text_of(tree.get(name)) for name in ("type", "status", "reason", "message", "lastTransitionTime")}


def _owner(meta: Mapping[str, Any]) -> dict[str, Any] | None:
    """The controller owner, or else the first owner."""
    owners = maps_in(meta, "ownerReferences")
    if not owners:
        return None
    owner = next((one for one in owners if one.get("controller") is True), owners[0])
    return {
        "kind": f"{text_of(owner.get('apiVersion'))}/{text_of(owner.get('kind'))}",
        "name": text_of(owner.get("name")),
        "namespace": text_of(meta.get("namespace")) or None,
    }


def _masked(value: Any) -> str:
    """The length of a secret value instead of the value."""
    return f"(hidden, {len(value) if isinstance(value, str) else 0} characters)"


def _at(tree: Any) -> str:
    times = [map_in(tree, "series").get("lastObservedTime"), tree.get("lastTimestamp"), tree.get("eventTime")]
    times += [tree.get("firstTimestamp"), map_in(tree, "metadata").get("creationTimestamp")]
    return next((one for one in times if isinstance(one, str) and one), "")


def _error(outcome: Outcome[Any]) -> dict[str, Any]:
    return {**_ref(outcome.ref), "message": text_of(f"{type(outcome.error).__name__}: {outcome.error}")}


def _ref(ref: Ref[Any]) -> dict[str, Any]:
    return {"kind": kind_text(ref.gvk), "name": ref.name, "namespace": ref.namespace}


def map_in(tree: Any, name: str) -> dict[str, Any]:
    """A member of a tree that is a map; empty if there is none."""
    found = tree.get(name) if is_map(tree) else None
    return found if is_map(found) else {}


def maps_in(tree: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The maps in a list; empty if there is none."""
    found = tree.get(name)
    return [one for one in found if is_map(one)] if is_list(found) else []


def text_of(value: Any) -> str:
    """A text of an object, truncated; empty if it is not a text."""
    return value[:_MOST_TEXT] if isinstance(value, str) else ""
