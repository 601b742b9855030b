"""The kinds of events.k8s.io/v1 and their parts.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Self

from levelset.kinds.core_v1_events import EventSource
from levelset.kinds.core_v1_references import ObjectReference
from levelset.kinds.enums import EventType
from levelset.objects import Atomic, MicroTime, Model, Object, ObjectMeta

__all__ = ["Event", "EventSeries"]


class EventSeries(Model):
    """`series` of Event."""

    count: int
    last_observed_time: MicroTime


class Event(Object, api="events.k8s.io/v1", short_names=["ev"]):
    """Something that happened to an object, for people to read."""

    event_time: MicroTime
    action: str | None = None
    deprecated_count: int | None = None
    deprecated_first_timestamp: datetime | None = None
    deprecated_last_timestamp: datetime | None = None
    deprecated_source: EventSource = EventSource()
    note: str | None = None
    reason: str | None = None
    regarding: Annotated[ObjectReference, Atomic()] = ObjectReference()
    related: Annotated[ObjectReference, Atomic()] | None = None
    reporting_controller: str | None = None
    reporting_instance: str | None = None
    series: EventSeries | None = None
    type: EventType | None = None

    @classmethod
    def new(
        cls,
        name: str,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        event_time: MicroTime,
        action: str | None = None,
        deprecated_count: int | None = None,
        deprecated_first_timestamp: datetime | None = None,
        deprecated_last_timestamp: datetime | None = None,
        deprecated_source: EventSource | None = None,
        note: str | None = None,
        reason: str | None = None,
        regarding: ObjectReference | None = None,
        related: ObjectReference | None = None,
        reporting_controller: str | None = None,
        reporting_instance: str | None = None,
        series: EventSeries | None = None,
        type: EventType | None = None,  # noqa: A002
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        )
        return cls(
            metadata=metadata,
            event_time=event_time,
            action=action,
            deprecated_count=deprecated_count,
            deprecated_first_timestamp=deprecated_first_timestamp,
            deprecated_last_timestamp=deprecated_last_timestamp,
            deprecated_source=EventSource() if deprecated_source is None else deprecated_source,
            note=note,
            reason=reason,
            regarding=ObjectReference() if regarding is None else regarding,
            related=related,
            reporting_controller=reporting_controller,
            reporting_instance=reporting_instance,
            series=series,
            type=type,
        )
