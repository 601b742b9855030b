"""Events and leases: their times are told in universal time, and an event belongs where its object is."""

from collections.abc import Iterable

from levelset.apiserver.resources.json_members import part
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import BadTime, Cause
from levelset.objects.names import is_qualified_name
from levelset.objects.timestamps import MicroTime, format_time, parse_time

__all__ = [
    "check_core_event",
    "check_lease",
    "check_newer_event",
    "fill_core_event",
    "fill_lease",
    "fill_newer_event",
]

LONGEST_NOTE = 1024
LONGEST_WORD = 128
TYPES = ("Normal", "Warning")
# What a newer event says once; `series` and the metadata are what may change.
FIXED = (
    *("eventTime", "reportingController", "reportingInstance", "action", "reason", "regarding", "related", "note"),
    *("type", "deprecatedSource", "deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount"),
)


def fill_core_event(tree: Object) -> None:
    """Brings an event of the core group into the form in which it is shown."""
    _fill_event(tree)
    _tell_seconds(tree, ("firstTimestamp", "lastTimestamp"))
    tree.setdefault("source", {})
    tree.setdefault("firstTimestamp", None)
    tree.setdefault("lastTimestamp", None)
    tree.setdefault("reportingComponent", "")
    tree.setdefault("reportingInstance", "")


def fill_newer_event(tree: Object) -> None:
    """Brings an event of `events.k8s.io` into the form in which it is shown."""
    _fill_event(tree)
    _tell_seconds(tree, ("deprecatedFirstTimestamp", "deprecatedLastTimestamp"))
    tree.setdefault("deprecatedSource", {})
    tree.setdefault("regarding", {})


def _fill_event(tree: Object) -> None:
    tree.setdefault("eventTime", None)
    _tell_micros(tree, ("eventTime",))
    if tree.get("series"):
        series = dict(tree["series"])
        _tell_micros(series, ("lastObservedTime",))
        tree["series"] = series


def fill_lease(tree: Object) -> None:
    """Tells the times of a lease in universal time."""
    _tell_micros(tree.setdefault("spec", {}), ("acquireTime", "renewTime"))


def _tell_micros(tree: Object, names: Iterable[str]) -> None:
    for name in names:
        if tree.get(name):
            tree[name] = _told(tree[name], micros=True)


def _tell_seconds(tree: Object, names: Iterable[str]) -> None:
    for name in names:
        if tree.get(name):
            tree[name] = _told(tree[name], micros=False)


def _told(text: str, *, micros: bool) -> str:
    try:
        time = parse_time(text)
    except BadTime:
        return text
    return format_time(MicroTime.of(time)) if micros else format_time(time.replace(microsecond=0))


def check_core_event(new: Object, old: Object | None) -> list[Cause]:
    """An event is in the namespace of its object; that of an object without one is the default namespace.

    An event with a time in microseconds follows the newer rules.
    """
    named = part(new, "involvedObject").get("namespace") or ""
    causes = _check_place(new, named, "involvedObject.namespace")
    if old is None and new.get("eventTime"):
        causes += _check_words(new, "reportingComponent")
    return causes


def check_newer_event(new: Object, old: Object | None) -> list[Cause]:
    """An event of `events.k8s.io` says who did what and when, and says it once."""
    named = part(new, "regarding").get("namespace") or ""
    causes = _check_place(new, named, "regarding.namespace")
    if old is not None:
        changed = [name for name in FIXED if (new.get(name) or None) != (old.get(name) or None)]
        return causes + [field_errors.invalid(name, new.get(name), "field is immutable") for name in changed]
    if not new.get("eventTime"):
        causes.append(field_errors.required("eventTime"))
    causes += _check_words(new, "reportingController")
    if len(new.get("note") or "") > LONGEST_NOTE:
        causes.append(field_errors.invalid("note", "", f"can have at most {LONGEST_NOTE} characters"))
    return causes


def _check_place(tree: Object, named: str, path: str) -> list[Cause]:
    namespace = tree["metadata"].get("namespace") or ""
    if named == namespace or (not named and namespace in ("default", "")):
        return []
    return [field_errors.invalid(path, named, f"does not match the event's namespace {namespace!r}")]


def _check_words(tree: Object, controller: str) -> list[Cause]:
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
        elif len(value) > LONGEST_WORD:
            causes.append(field_errors.invalid(name, "", f"can have at most {LONGEST_WORD} characters"))
    if tree.get("type") not in TYPES:
        causes.append(field_errors.invalid("type", tree.get("type") or "", f"must be one of {', '.join(TYPES)}"))
    return causes


def check_lease(new: Object, _old: Object | None) -> list[Cause]:
    """The numbers of a lease make sense."""
    spec = part(new, "spec")
    causes: list[Cause] = []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        causes.append(field_errors.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        causes.append(field_errors.invalid("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return causes
