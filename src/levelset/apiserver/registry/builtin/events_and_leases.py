"""Events and Leases: defaults, and normalization of their timestamps to UTC."""

from collections.abc import Iterable

from levelset.apiserver.resources.served_resource import Object
from levelset.errors import BadTime
from levelset.objects.lazy_pattern import Pattern
from levelset.objects.timestamps import MicroTime, format_time, parse_time

__all__ = [
    "set_core_event_defaults",
    "set_events_v1_defaults",
    "set_lease_defaults",
]

_MICRO_TIME = Pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,]\d{6}(Z|[+-]\d\d:\d\d)")


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
    tree.setdefault("deprecatedFirstTimestamp", None)
    tree.setdefault("deprecatedLastTimestamp", None)
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
    spec = tree.setdefault("spec", {})
    _normalize_micro_times(spec, ("acquireTime", "renewTime"))


def _normalize_micro_times(tree: Object, names: Iterable[str]) -> None:
    for name in names:
        if tree.get(name):
            if _MICRO_TIME.fullmatch(tree[name]) is None:
                raise BadTime(f"{name} must be a time with microseconds, such as 2026-01-01T00:00:00.000000Z")
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
