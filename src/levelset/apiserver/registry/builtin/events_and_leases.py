"""Events and Leases: normalization of their timestamps to UTC, and validation."""

from collections.abc import Iterable

from levelset.apiserver.resources.json_members import map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import BadTime, Cause
from levelset.objects.names import is_qualified_name
from levelset.objects.timestamps import MicroTime, format_time, parse_time

__all__ = [
    "check_core_event",
    "check_events_v1_event",
    "check_lease",
    "set_core_event_defaults",
    "set_events_v1_defaults",
    "set_lease_defaults",
]

MAX_NOTE_LENGTH = 1024
MAX_FIELD_LENGTH = 128
TYPES = ("Normal", "Warning")
# Of an events.k8s.io/v1 Event only `series` and the metadata may change.
IMMUTABLE_FIELDS = (
    *("eventTime", "reportingController", "reportingInstance", "action", "reason", "regarding", "related", "note"),
    *("type", "deprecatedSource", "deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount"),
)


def set_core_event_defaults(tree: Object) -> None:
    """Sets the defaults of a core/v1 Event and normalizes its timestamps."""
    _set_event_defaults(tree)
    _normalize_times(tree, ("firstTimestamp", "lastTimestamp"))
    tree.setdefault("source", {})
    tree.setdefault("firstTimestamp", None)
    tree.setdefault("lastTimestamp", None)
    tree.setdefault("reportingComponent", "")
    tree.setdefault("reportingInstance", "")


def set_events_v1_defaults(tree: Object) -> None:
    """Sets the defaults of an Event of `events.k8s.io/v1` and normalizes its timestamps."""
    _set_event_defaults(tree)
    _normalize_times(tree, ("deprecatedFirstTimestamp", "deprecatedLastTimestamp"))
    tree.setdefault("deprecatedSource", {})
    tree.setdefault("regarding", {})


def _set_event_defaults(tree: Object) -> None:
    tree.setdefault("eventTime", None)
    _normalize_micro_times(tree, ("eventTime",))
    if tree.get("series"):
        series = dict(tree["series"])
        _normalize_micro_times(series, ("lastObservedTime",))
        tree["series"] = series


def set_lease_defaults(tree: Object) -> None:
    """Normalizes the timestamps of a Lease to UTC."""
    _normalize_micro_times(tree.setdefault("spec", {}), ("acquireTime", "renewTime"))


def _normalize_micro_times(tree: Object, names: Iterable[str]) -> None:
    for name in names:
        if tree.get(name):
            tree[name] = _normalized(tree[name], micros=True)


def _normalize_times(tree: Object, names: Iterable[str]) -> None:
    for name in names:
        if tree.get(name):
            tree[name] = _normalized(tree[name], micros=False)


def _normalized(text: str, *, micros: bool) -> str:
    try:
        time = parse_time(text)
    except BadTime:
        return text
    return format_time(MicroTime.of(time)) if micros else format_time(time.replace(microsecond=0))


def check_core_event(new: Object, old: Object | None) -> list[Cause]:
    """Validates a core/v1 Event: it is in the namespace of its object, or in `default` for a cluster-scoped one.

    An Event with an `eventTime` follows the rules of `events.k8s.io/v1`.
    """
    namespace = map_member(new, "involvedObject").get("namespace") or ""
    causes = _check_namespace(new, namespace, "involvedObject.namespace")
    if old is None and new.get("eventTime"):
        causes += _check_reporter(new, "reportingComponent")
    return causes


def check_events_v1_event(new: Object, old: Object | None) -> list[Cause]:
    """Validates an Event of `events.k8s.io/v1`: reporter, action, reason and time are required and immutable."""
    namespace = map_member(new, "regarding").get("namespace") or ""
    causes = _check_namespace(new, namespace, "regarding.namespace")
    if old is not None:
        changed = [name for name in IMMUTABLE_FIELDS if (new.get(name) or None) != (old.get(name) or None)]
        return causes + [field_errors.invalid(name, new.get(name), "field is immutable") for name in changed]
    if not new.get("eventTime"):
        causes.append(field_errors.required("eventTime"))
    causes += _check_reporter(new, "reportingController")
    if len(new.get("note") or "") > MAX_NOTE_LENGTH:
        causes.append(field_errors.invalid("note", "", f"can have at most {MAX_NOTE_LENGTH} characters"))
    return causes


def _check_namespace(tree: Object, object_namespace: str, path: str) -> list[Cause]:
    namespace = tree["metadata"].get("namespace") or ""
    if object_namespace == namespace or (not object_namespace and namespace in ("default", "")):
        return []
    return [field_errors.invalid(path, object_namespace, f"does not match the event's namespace {namespace!r}")]


def _check_reporter(tree: Object, controller: str) -> list[Cause]:
    causes: list[Cause] = []
    reporter = tree.get(controller) or ""
    if not reporter:
        causes.append(field_errors.required("reportingController"))
    if not is_qualified_name(reporter):
        causes.append(field_errors.invalid("reportingController", reporter, "must be a qualified name"))
    for name in ("reportingInstance", "action", "reason"):
        value = tree.get(name) or ""
        if not value:
            causes.append(field_errors.required(name))
        elif len(value) > MAX_FIELD_LENGTH:
            causes.append(field_errors.invalid(name, "", f"can have at most {MAX_FIELD_LENGTH} characters"))
    if tree.get("type") not in TYPES:
        causes.append(field_errors.invalid("type", tree.get("type") or "", f"must be one of {', '.join(TYPES)}"))
    return causes


def check_lease(new: Object, _old: Object | None) -> list[Cause]:
    """Validates the numbers of a Lease."""
    spec = map_member(new, "spec")
    causes: list[Cause] = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        causes.append(field_errors.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        causes.append(field_errors.invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return causes
