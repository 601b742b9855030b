"""The rules of Events, of the core group and of events.k8s.io, and of Leases."""

from typing import Any, Final

from levelset.apiserver.registry.builtin.rules.checks import (
    at_least,
    label_key,
    positive_number,
)
from levelset.apiserver.registry.builtin.rules.rule_tables import KindRules, Table, immutable, on_create
from levelset.apiserver.registry.builtin.written_members import equal
from levelset.apiserver.resources.json_members import map_member
from levelset.apiserver.schema import field_errors
from levelset.errors import Cause
from levelset.objects.json_tree import is_map

__all__ = ["CORE_EVENT", "EVENT", "LEASE"]

MAX_NOTE: Final = 1024
MAX_TEXT: Final = 128
# Of an Event of events.k8s.io only `series` and the metadata may change: its fields, and their names in core/v1, which
# kube-apiserver reports.
IMMUTABLE: Final = (
    ("regarding", "involvedObject"),
    ("reason", "reason"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reason", "reason"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
)
# What an Event of events.k8s.io may not have when it is created.
UNSET: Final = tuple((name, known) for name, known in IMMUTABLE if name.startswith("deprecated"))


def _too_long(value: str, name: str, out: list[Cause], limit: int) -> None:
    if len(value.encode()) > limit:
        out.append(field_errors.invalid(name, "", f"can have at most {limit} characters"))


def _reporter(tree: Any, controller: str, note: str, out: list[Cause]) -> None:
    """Who reports an Event that has an `eventTime`, and what was done."""
    reporter = tree.get(controller) or ""
    if not reporter:
        out.append(field_errors.required(controller))
    if not label_key.is_valid(reporter):
        label_key.report(reporter, controller, out)
    for name in ("reportingInstance", "action", "reason"):
        if not tree.get(name):
            out.append(field_errors.required(name))
        _too_long(tree.get(name) or "", name, out, MAX_TEXT)
    _too_long(tree.get(note) or "", "message", out, MAX_NOTE)


def _event(controller: str, regarding: str, note: str) -> Any:
    """The rules of both groups: the namespace is that of the object, and an Event with an `eventTime` is complete."""

    def check(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
        namespace, place = map_member(tree, regarding).get("namespace") or "", tree["metadata"].get("namespace") or ""
        has_time = bool(tree.get("eventTime"))
        if has_time:
            is_elsewhere = not namespace and place not in ("default", "kube-system")
        else:
            is_elsewhere = place != namespace if namespace else place not in ("", "default")
        if is_elsewhere:
            out.append(field_errors.invalid("involvedObject.namespace", namespace, "does not match event.namespace"))
        if has_time:
            _reporter(tree, controller, note, out)

    return check


def _series(tree: Any, out: list[Cause]) -> None:
    series = tree.get("series")
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        out.append(field_errors.invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        out.append(field_errors.required("series.lastObservedTime"))


def _new_event(tree: Any, _at: str, out: list[Cause], _context: Any) -> None:
    _series(tree, out)
    if not tree.get("eventTime"):
        out.append(field_errors.required("eventTime"))
    kind = tree.get("type") or ""
    if kind not in ("Normal", "Warning"):
        out.append(field_errors.invalid("type", "", f"has invalid value: {kind}"))
    for name, known in (*UNSET[1:], UNSET[0]):
        if _is_set(tree.get(name)):
            out.append(field_errors.invalid(known, "", "needs to be unset"))


def _is_set(value: Any) -> bool:
    return any(map(_is_set, value.values())) if is_map(value) else bool(value)


def _changed_event(new: Any, old: Any, _at: str, out: list[Cause]) -> None:
    if not equal(new.get("series"), old.get("series")):
        _series(new, out)
    for name, known in IMMUTABLE:
        if not equal(new.get(name), old.get(name)):
            # An absent time is null, and an absent text is empty.
            immutable(new.get(name), None if name == "eventTime" else old.get(name), known, out)


CORE_EVENT: Final = KindRules(
    rules=Table(("", _event("reportingComponent", "involvedObject", "message")), root=True),
)
EVENT: Final = KindRules(
    rules=Table(("", _event("reportingController", "regarding", "note"), on_create(_new_event)), root=True),
    changes=(("", _changed_event),),
)


LEASE_SPEC: Final = Table(
    ("leaseDurationSeconds", positive_number),
    ("leaseTransitions", at_least(0)),
)
LEASE: Final = KindRules(rules=Table(("spec", LEASE_SPEC), root=True))
