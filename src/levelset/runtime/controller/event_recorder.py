"""Kubernetes Events: what `kubectl describe` shows of what a controller did, written behind the reconciler's back.

To record never waits and never fails. What cannot be written, or does not fit into the queue, is dropped and counted.

Kubernetes Events as values: what happened to which object, which of them are the same, and their JSON; pure.

What repeats is one event with a series: the same type, action, reason, reporter and objects make it the same, whatever
the note says. The note that is shown is that of the first.
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
    "SERIES",
    "About",
    "Occurrence",
    "Recorder",
    "about",
    "event_name",
    "first_event",
    "next_event",
    "reporter_name",
]

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


log: Final = logging.getLogger(__name__)

SERIES: Final = 360.0
"""For so many seconds after it happened last, the same is one more of a series and no new event."""

_EVENT: Final = GroupVersionKind("events.k8s.io", "v1", "Event")
_MOST_SERIES: Final = 4096


class _Waiting(msgspec.Struct):
    """What is to be written: how often it happened since the last time, first and last."""

    note: str
    first: datetime
    last: datetime
    count: int = 1


class _Series(msgspec.Struct):
    """An event that was written: its name, how often it has happened, and when last, on the loop's clock."""

    name: str
    count: int
    seen: float


class Recorder:
    """Writes events for the length of an `async with`; at its end what waits has `grace` seconds.

    What happens again before it was written is counted with what waits, so that at most `most` different events wait.
    `fence`, if there is one, raises when nothing may be written any more.
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
        fence: Callable[[], object] | None = None,
    ) -> None:
        self.written = 0
        """How many events, or next ones of a series, were written."""
        self.dropped = 0
        """How many were not: there were too many, or the server refused them."""
        self._client = client
        self._reporter = reporter_name(controller)
        self._instance = instance or socket.gethostname() or self._reporter
        self._most = most
        self._now = now
        self._fence = fence
        self._waiting: dict[Occurrence, _Waiting] = {}
        self._series: dict[Occurrence, _Series] = {}
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
        """Tells that something happened to an object: `reason` is one word in CamelCase, the message a sentence."""
        one = Occurrence(
            "Warning" if warning else "Normal",
            action or "Reconcile",
            reason or "Unknown",
            self._reporter,
            self._instance,
            about(what),
            None if related is None else about(related),
        )
        now = self._now()
        waiting = self._waiting.get(one)
        if waiting is not None:
            waiting.count += 1
            waiting.last = now
        elif self._is_closed or len(self._waiting) >= self._most:
            self._drop(one, "too many wait already" if not self._is_closed else "the recorder is closed")
        else:
            self._waiting[one] = _Waiting(message, now, now)
            self._idle.clear()
            self._more.set()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be written."""
        return self._idle.is_set()

    async def wait_idle(self) -> None:
        """Returns when nothing waits to be written."""
        await self._idle.wait()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        self._tasks.start("writer", self._write_all, polite=True)
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._is_closed = True
        self._more.set()
        await self._tasks.__aexit__(kind, error, trace)

    async def _write_all(self) -> None:
        while True:
            while self._waiting:
                one = next(iter(self._waiting))
                await self._write(one, self._waiting.pop(one))
            self._idle.set()
            if self._is_closed:
                return
            self._more.clear()
            await self._more.wait()

    async def _write(self, one: Occurrence, waiting: _Waiting) -> None:
        try:
            if self._fence is not None:
                self._fence()
            await self._send(one, waiting)
        except Exception as error:  # noqa: BLE001 -- an event that is not told must not stop the next one
            self._drop(one, str(error))
        else:
            self.written += 1

    async def _send(self, one: Occurrence, waiting: _Waiting) -> None:
        series = self._find(one)
        if series is None or not await self._continue(one, series, waiting):
            series = await self._begin(one, waiting)
        series.seen = timing.now()
        self._series.pop(one, None)
        while len(self._series) >= _MOST_SERIES:
            del self._series[next(iter(self._series))]
        self._series[one] = series

    def _find(self, one: Occurrence) -> _Series | None:
        found = self._series.get(one)
        return None if found is None or timing.now() - found.seen > SERIES else found

    async def _continue(self, one: Occurrence, series: _Series, waiting: _Waiting) -> bool:
        """Adds to the series; False if its event is gone, since a server keeps events for a while only."""
        ref: Ref[Any] = Ref(_EVENT, series.name, one.namespace)
        patch = MergePatch(next_event(series.count + waiting.count, waiting.last))
        try:
            await self._client.patch(ref, patch, only_metadata=True)
        except NotFound:
            return False
        series.count += waiting.count
        return True

    async def _begin(self, one: Occurrence, waiting: _Waiting) -> _Series:
        number = int(waiting.first.timestamp() * 1_000_000_000) + next(self._numbers)
        name = event_name(one, number)
        event = first_event(one, waiting.note, name, first=waiting.first, count=waiting.count, last=waiting.last)
        await self._client.create(event)
        return _Series(name, waiting.count, timing.now())

    def _drop(self, one: Occurrence, why: str) -> None:
        self.dropped += 1
        about = one.regarding
        level = logging.WARNING if self.dropped == 1 else logging.DEBUG
        log.log(level, "event %s of %s %s is not written: %s", one.reason, about.kind, about.name, why)
