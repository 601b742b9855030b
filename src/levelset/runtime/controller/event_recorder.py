"""Records Kubernetes Events about objects, as `kubectl describe` shows them, without making the reconciler wait.

Recording never waits and never fails. Events that cannot be written, or do not fit into the buffer, are dropped and
counted. Repeated events become one Event with a series: type, action, reason, reporter, objects and note identify it,
as in client-go. If only the note keeps changing, the eleventh within ten minutes and those after it are combined.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final, Literal, Self

import msgspec

from levelset.aio import Supervisor, timing
from levelset.client.client import Client
from levelset.client.patches import MergePatch
from levelset.errors import NotFound
from levelset.objects.names import is_qualified_name
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.objects.resource import Object
from levelset.objects.timestamps import MicroTime, format_time
from levelset.objects.unstructured import Unstructured

__all__ = [
    "EVENT_API",
    "SERIES_WINDOW",
    "EventKey",
    "EventRecorder",
    "ObjectReference",
    "event_name",
    "new_event",
    "object_reference",
    "reporter_name",
    "series_patch",
]

EVENT_API: Final = "events.k8s.io/v1"
SERIES_WINDOW: Final = 360.0
"""An event that repeats within so many seconds is added to the series; after that it is a new Event."""

_MAX_SIMILAR: Final = 10
_SIMILAR_WINDOW: Final = 600.0
"""So many events that differ in their notes only are written; more of them are combined until so many quiet seconds."""

_EVENT: Final = GroupVersionKind("events.k8s.io", "v1", "Event")
_MAX_SERIES: Final = 4096
_MAX_NOTE: Final = 1024
_MAX_WORD: Final = 128
_MAX_NAME: Final = 236  # of the object's part of an event name; a dot and sixteen hexadecimal digits follow

log: Final = logging.getLogger(__name__)


class ObjectReference(msgspec.Struct, frozen=True, gc=False):
    """A reference to the object that an event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str | None
    uid: str

    def tree(self) -> dict[str, Any]:
        """The reference as JSON."""
        made = {"apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid}
        if self.namespace:
            made["namespace"] = self.namespace
        return {name: value for name, value in made.items() if value}


class EventKey(msgspec.Struct, frozen=True, gc=False):
    """What identifies an event: two with equal keys are the same event of one series."""

    type: Literal["Normal", "Warning"]
    action: str
    reason: str
    reporter: str
    instance: str
    regarding: ObjectReference
    note: str
    related: ObjectReference | None = None

    @property
    def namespace(self) -> str:
        """The namespace of the event: that of its object, and `default` for a cluster-scoped object."""
        return self.regarding.namespace or "default"


class _Waiting(msgspec.Struct):
    """An event that waits to be written: how often it happened since the last write, first and last."""

    first: datetime
    last: datetime
    count: int = 1


class _Series(msgspec.Struct):
    """An event that was written: its name, its count, and when it was last written, on the loop's clock."""

    name: str
    count: int
    seen: float


class _Similar(msgspec.Struct):
    """The notes of events that are otherwise the same, the note under which more are combined, and the last time."""

    notes: set[str]
    combined: str
    seen: float


class EventRecorder:
    """Writes events in the background for the length of an `async with`; at its end it has `grace` seconds left.

    At most `most` different events wait to be written; a repetition of one that waits only increments its count.
    """

    def __init__(
        self,
        client: Client,
        controller: str,
        *,
        instance: str | None = None,
        most: int = 1000,
        grace: float = 2.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.written = 0
        """How many events and series updates were written."""
        self.dropped = 0
        """How many were not: the buffer was full, or the API server rejected them."""
        self._client = client
        self._reporter = reporter_name(controller)
        self._instance = instance or socket.gethostname() or self._reporter
        self._most = most
        self._now = now
        self._waiting: dict[EventKey, _Waiting] = {}
        self._series: dict[EventKey, _Series] = {}
        self._similar: dict[EventKey, _Similar] = {}
        self._numbers = count()
        self._more = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_closed = False
        self._tasks = Supervisor(name=f"{controller} events", grace=grace)

    def record(
        self,
        what: Object | Unstructured | Ref[Any],
        reason: str,
        message: str,
        *,
        warning: bool = False,
        action: str = "Reconcile",
        related: Object | Unstructured | Ref[Any] | None = None,
    ) -> None:
        """Records an event about an object: `reason` is one word in CamelCase, `message` a sentence."""
        key = self._combined(
            EventKey(
                "Warning" if warning else "Normal",
                action or "Reconcile",
                reason or "Unknown",
                self._reporter,
                self._instance,
                object_reference(what),
                message[:_MAX_NOTE],
                None if related is None else object_reference(related),
            )
        )
        now = self._now()
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.count += 1
            waiting.last = now
        elif self._is_closed or len(self._waiting) >= self._most:
            self._drop(key, "the buffer is full" if not self._is_closed else "the recorder is closed")
        else:
            self._waiting[key] = _Waiting(now, now)
            self._idle.clear()
            self._more.set()

    def _combined(self, key: EventKey) -> EventKey:
        """The key itself, or one with the combined note if too many events differ from it in their notes only."""
        without_note, now = msgspec.structs.replace(key, note=""), timing.now()
        similar = self._similar.pop(without_note, None)
        if similar is None or now - similar.seen > _SIMILAR_WINDOW:
            similar = _Similar(set(), "", now)
        similar.seen = now
        self._similar[without_note] = similar  # the latest at the end
        if len(self._similar) > _MAX_SERIES:
            del self._similar[next(iter(self._similar))]
        if not similar.combined:
            similar.notes.add(key.note)
            if len(similar.notes) <= _MAX_SIMILAR:
                return key
            similar.combined = f"(combined from similar events): {key.note}"[:_MAX_NOTE]
        return msgspec.structs.replace(key, note=similar.combined)

    @property
    def is_idle(self) -> bool:
        """Whether all events have been written."""
        return self._idle.is_set()

    async def wait_idle(self) -> None:
        """Returns when all events have been written."""
        await self._idle.wait()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        self._tasks.start("writer", self._write_all, graceful=True)
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._is_closed = True
        self._more.set()
        await self._tasks.__aexit__(kind, error, trace)

    async def _write_all(self) -> None:
        while True:
            while self._waiting:
                key = next(iter(self._waiting))
                await self._write(key, self._waiting.pop(key))
            self._idle.set()
            if self._is_closed:
                return
            self._more.clear()
            await self._more.wait()

    async def _write(self, key: EventKey, waiting: _Waiting) -> None:
        try:
            await self._send(key, waiting)
        except Exception as error:  # noqa: BLE001 -- an event that cannot be written must not stop the next key
            self._drop(key, str(error))
        else:
            self.written += 1

    async def _send(self, key: EventKey, waiting: _Waiting) -> None:
        series = self._find(key)
        if series is None or not await self._continue(key, series, waiting):
            series = await self._begin(key, waiting)
        series.seen = timing.now()
        self._series.pop(key, None)
        while len(self._series) >= _MAX_SERIES:
            del self._series[next(iter(self._series))]
        self._series[key] = series

    def _find(self, key: EventKey) -> _Series | None:
        found = self._series.get(key)
        return None if found is None or timing.now() - found.seen > SERIES_WINDOW else found

    async def _continue(self, key: EventKey, series: _Series, waiting: _Waiting) -> bool:
        """Increments the series; False if its event is gone, since API servers expire events."""
        ref: Ref[Any] = Ref(_EVENT, series.name, key.namespace)
        patch = MergePatch(series_patch(series.count + waiting.count, waiting.last))
        try:
            await self._client.patch(ref, patch, only_metadata=True)
        except NotFound:
            return False
        series.count += waiting.count
        return True

    async def _begin(self, key: EventKey, waiting: _Waiting) -> _Series:
        number = int(waiting.first.timestamp() * 1_000_000_000) + next(self._numbers)
        name = event_name(key, number)
        event = new_event(key, name, first=waiting.first, count=waiting.count, last=waiting.last)
        await self._client.create(event)
        return _Series(name, waiting.count, timing.now())

    def _drop(self, key: EventKey, why: str) -> None:
        self.dropped += 1
        regarding = key.regarding
        level = logging.WARNING if self.dropped == 1 else logging.DEBUG
        log.log(level, "event %s of %s %s was dropped: %s", key.reason, regarding.kind, regarding.name, why)


def object_reference(what: Object | Unstructured | Ref[Any]) -> ObjectReference:
    """The reference to an object, from the object or from its ref."""
    if isinstance(what, Ref):
        return ObjectReference(what.gvk.api_version, what.gvk.kind, what.name, what.namespace, "")
    metadata = what.metadata
    return ObjectReference(what.api_version, what.kind, metadata.name, metadata.namespace, metadata.uid)


def event_name(key: EventKey, number: int) -> str:
    """The name of a new event: the object's name and a hexadecimal number."""
    return f"{key.regarding.name[:_MAX_NAME].rstrip('.-')}.{number:016x}"


def reporter_name(controller: str) -> str:
    """The controller's name as a valid `reportingController`."""
    if is_qualified_name(controller):
        return controller
    fit = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in controller)
    return fit[:63].strip("-") or "levelset"


def new_event(
    key: EventKey, name: str, *, first: datetime, count: int = 1, last: datetime | None = None
) -> dict[str, Any]:
    """The Event to create; with a series if it has happened more than once already."""
    made: dict[str, Any] = {
        "apiVersion": EVENT_API,
        "kind": "Event",
        "metadata": {"name": name, "namespace": key.namespace},
        "eventTime": _time(first),
        "type": key.type,
        "action": key.action[:_MAX_WORD],
        "reason": key.reason[:_MAX_WORD],
        "note": key.note,
        "reportingController": key.reporter,
        "reportingInstance": key.instance[:_MAX_WORD],
        "regarding": key.regarding.tree(),
    }
    if key.related is not None:
        made["related"] = key.related.tree()
    return made if count < 2 else {**made, **series_patch(count, last or first)}


def series_patch(count: int, last: datetime) -> dict[str, Any]:
    """The merge patch for an event that has now happened `count` times."""
    return {"series": {"count": count, "lastObservedTime": _time(last)}}


def _time(when: datetime) -> str:
    return format_time(MicroTime.of(when))
