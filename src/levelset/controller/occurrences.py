"""Kubernetes Events as values: what happened to which object, which of them are the same, and their JSON; pure.

What repeats is one event with a series: the same type, action, reason, reporter and objects make it the same, whatever
the note says. The note that is shown is that of the first.
"""

from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from levelset.objects.identity import Ref
from levelset.objects.names import is_qualified_name
from levelset.objects.resource import Object
from levelset.objects.times import MicroTime, format_time
from levelset.objects.unstructured import Unstructured

__all__ = ["EVENT_API", "About", "Occurrence", "about", "event_name", "first_event", "next_event", "reporter_name"]

EVENT_API: Final = "events.k8s.io/v1"

_LONGEST_NOTE: Final = 1024
_LONGEST_WORD: Final = 128
_LONGEST_NAME: Final = 236  # of an object; a dot and sixteen digits follow


class About(msgspec.Struct, frozen=True, gc=False):
    """The object that an event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str | None
    uid: str

    def tree(self) -> dict[str, Any]:
        """The reference as it is written."""
        made = {"apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid}
        if self.namespace:
            made["namespace"] = self.namespace
        return {key: value for key, value in made.items() if value}


class Occurrence(msgspec.Struct, frozen=True, gc=False):
    """Something that happened; two that are equal are the same event, and their notes and versions do not count."""

    type: Literal["Normal", "Warning"]
    action: str
    reason: str
    reporter: str
    instance: str
    regarding: About
    related: About | None = None

    @property
    def namespace(self) -> str:
        """Where the event is put: where its object is, and `default` for what is cluster-scoped."""
        return self.regarding.namespace or "default"


def about(what: Object | Unstructured | Ref[Any]) -> About:
    """The object that an event is about, from it or from a reference to it."""
    if isinstance(what, Ref):
        return About(what.gvk.api_version, what.gvk.kind, what.name, what.namespace, "")
    metadata = what.metadata
    return About(what.api_version, what.kind, metadata.name, metadata.namespace, metadata.uid)


def event_name(occurrence: Occurrence, number: int) -> str:
    """The name of a new event: that of its object and a number in hexadecimal."""
    return f"{occurrence.regarding.name[:_LONGEST_NAME].rstrip('.-')}.{number:016x}"


def reporter_name(controller: str) -> str:
    """The controller's name as events may carry it."""
    if is_qualified_name(controller):
        return controller
    fit = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in controller)
    return fit[:63].strip("-") or "levelset"


def first_event(
    occurrence: Occurrence, note: str, name: str, *, first: datetime, count: int = 1, last: datetime | None = None
) -> dict[str, Any]:
    """The event to be made; with a series at once if it has happened more than once by then."""
    made: dict[str, Any] = {
        "apiVersion": EVENT_API,
        "kind": "Event",
        "metadata": {"name": name, "namespace": occurrence.namespace},
        "eventTime": _time(first),
        "type": occurrence.type,
        "action": occurrence.action[:_LONGEST_WORD],
        "reason": occurrence.reason[:_LONGEST_WORD],
        "note": note[:_LONGEST_NOTE],
        "reportingController": occurrence.reporter,
        "reportingInstance": occurrence.instance[:_LONGEST_WORD],
        "regarding": occurrence.regarding.tree(),
    }
    if occurrence.related is not None:
        made["related"] = occurrence.related.tree()
    return made if count < 2 else {**made, **next_event(count, last or first)}


def next_event(count: int, last: datetime) -> dict[str, Any]:
    """What changes about an event that has now happened so often."""
    return {"series": {"count": count, "lastObservedTime": _time(last)}}


def _time(when: datetime) -> str:
    return format_time(MicroTime.of(when))
