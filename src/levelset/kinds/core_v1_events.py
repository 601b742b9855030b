"""Events, the old kind that most programs still write.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Self

from levelset.kinds.core_v1_references import ObjectReference
from levelset.kinds.enums import EventType
from levelset.objects import Atomic, MicroTime, Model, Object, ObjectMeta

__all__ = ["Event", "EventSeries", "EventSource"]


class EventSeries(Model):
    """`series` of Event."""

    count: int | None = None
    last_observed_time: MicroTime | None = None


class EventSource(Model):
    """`source` of Event."""

    component: str | None = None
    host: str | None = None


class Event(Object, api="v1", short_names=["ev"]):
    """Something that happened to an object, for people to read."""

    involved_object: Annotated[ObjectReference, Atomic()]
    action: str | None = None
    count: int | None = None
    event_time: MicroTime | None = None
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    message: str | None = None
    reason: str | None = None
    related: Annotated[ObjectReference, Atomic()] | None = None
    reporting_component: str | None = None
    reporting_instance: str | None = None
    series: EventSeries | None = None
    source: EventSource = EventSource()
    type: EventType | None = None

    @classmethod
    def new(
        cls,
        name: str,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        involved_object: ObjectReference,
        action: str | None = None,
        count: int | None = None,
        event_time: MicroTime | None = None,
        first_timestamp: datetime | None = None,
        last_timestamp: datetime | None = None,
        message: str | None = None,
        reason: str | None = None,
        related: ObjectReference | None = None,
        reporting_component: str | None = None,
        reporting_instance: str | None = None,
        series: EventSeries | None = None,
        source: EventSource | None = None,
        type: EventType | None = None,  # noqa: A002
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        )
        return cls(
            metadata=metadata,
            involved_object=involved_object,
            action=action,
            count=count,
            event_time=event_time,
            first_timestamp=first_timestamp,
            last_timestamp=last_timestamp,
            message=message,
            reason=reason,
            related=related,
            reporting_component=reporting_component,
            reporting_instance=reporting_instance,
            series=series,
            source=EventSource() if source is None else source,
            type=type,
        )
