"""`Watcher`: a watch that never ends, as batches of events about the objects of one kind.

It drives the state machine of `machine.py` with a client: list, watch, reconnect, relist. Informers read its batches;
`levelset.runtime.watch.watch` makes a stream of single events from them.

A watch recovers by itself, so its errors are reported and never raised: each is a `WatchError`, passed to `on_error`.
The default, `ErrorLogger`, logs it and does not repeat an error that lasts until a person acts.
"""

import asyncio
import logging
import random as stdlib_random
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Self, TypedDict, TypeVar

import msgspec

from levelset.aio import timing
from levelset.aio.backoff import Backoff
from levelset.client.client import Client
from levelset.client.internals import list_page
from levelset.client.lists import ObjectPage, Transform
from levelset.client.object_types import Kind, View, view_of
from levelset.client.requests import Fields, Labels, read_fields, read_labels
from levelset.client.responses import retry_after_of
from levelset.client.watch_request import WatchStream
from levelset.errors import ApiError, ConfigError, Forbidden, LevelsetError, NotFound, Unauthorized, UnknownKind
from levelset.objects.field_selectors import FieldSelector
from levelset.objects.label_selectors import LabelSelector
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.watch.events import Event
from levelset.runtime.watch.machine import ListPage, Machine, OpenWatch, Phase, ReadWatch, Recover, Step
from levelset.runtime.watch.transforms import guard_transform

__all__ = [
    "IDLE_TIMEOUT",
    "ErrorLogger",
    "ErrorReporter",
    "IdleWatchdog",
    "ListWatch",
    "OnError",
    "WatchError",
    "WatchOptions",
    "Watcher",
]

K = TypeVar("K")

log = logging.getLogger("levelset.runtime.watch")

_BACKOFF: Final = Backoff()


class WatchError(msgspec.Struct, frozen=True, kw_only=True):
    """An error of a watch: which kind and namespace, why, and when it is retried.

    `attempt` counts the failures in a row, from 1. `retry_after` is in seconds; None if the watch continues without a
    retry, as after an object that cannot be decoded.
    """

    error: Exception
    gvk: GroupVersionKind
    namespace: str | None = None
    name: str | None = None
    """The object, if the error is about a single one."""
    attempt: int = 1
    retry_after: float | None = None

    @property
    def where(self) -> str:
        """The kind and the namespace, or the object, as text."""
        if self.name is not None:
            return "/".join(part for part in (self.gvk.kind, self.namespace, self.name) if part)
        return f"{self.gvk.kind} in {f'namespace {self.namespace}' if self.namespace else 'all namespaces'}"

    @property
    def cause(self) -> str:
        """The class, code and reason of the error, without the parts that differ each time."""
        error = self.error
        status = f" {error.code} {error.reason}" if isinstance(error, ApiError) else ""
        return f"{type(error).__name__}{status}"

    @property
    def is_persistent(self) -> bool:
        """Whether it lasts until a person acts: the kind does not exist, or a permission is missing."""
        return isinstance(self.error, NotFound | Forbidden | Unauthorized | UnknownKind)

    def __str__(self) -> str:
        error = str(self.error) or type(self.error).__name__
        if self.retry_after is None:
            return f"watching {self.where}: {error}; the watch continues"
        return f"watching {self.where}: {error}; attempt {self.attempt + 1} in {self.retry_after:.1f} s"


OnError = Callable[[WatchError], None]
"""Called with each error of a watch; must not block."""


class ErrorLogger:
    """Logs watch errors (`levelset.runtime.watch`): a warning each time, persistent ones once for each cause."""

    def __init__(self) -> None:
        self._persistent: str | None = None

    def __call__(self, error: WatchError) -> None:
        """Logs one error."""
        cause = error.cause if error.is_persistent else None
        if error.retry_after == 0:
            log.info("watch restarted: %s", error, extra={"cause": error.cause})
        elif cause is None or cause != self._persistent or error.attempt == 1:
            log.warning("watch failed: %s", error, extra={"cause": error.cause})
        if error.retry_after is not None:
            self._persistent = cause


class WatchOptions(TypedDict, total=False):
    """The options of a `Watcher`, for functions that pass them on."""

    namespace: str | None
    labels: Labels | None
    fields: Fields | None
    page_size: int | None
    streaming: bool | None
    any_version: bool
    watch_timeout: float
    idle_timeout: float
    backoff: Backoff
    on_error: OnError | None
    managed_fields: bool
    transform: Transform | None
    random: Callable[[], float]


IDLE_TIMEOUT: Final = 75.0
"""The default `idle_timeout` of a watch, in seconds: a bookmark is due every minute."""
_MAX_BATCH: Final = 1000
_LARGE_CHUNK: Final = 16_384
_MAX_RETRY_AFTER: Final = 600.0
_MISSING_KIND_CAP: Final = 2.0
"""The longest delay while the kind is not served: it is there as soon as its CRD is, and operators wait for it."""
_STABLE_AFTER: Final = 1.0
_JITTER: Final = 0.25
_RECOVERABLE: Final = (LevelsetError, OSError)
"""Errors of the API server or the network; any other exception is a bug, and raised."""


class ListWatch(msgspec.Struct, frozen=True, kw_only=True):
    """The list and watch requests for one scope, as client-go's ListerWatcher."""

    client: Client
    kind: Kind[Any]
    namespace: str | None = None
    labels: LabelSelector | None = None
    fields: FieldSelector | None = None
    managed_fields: bool = False
    transform: Transform | None = None

    async def list(self, step: ListPage) -> ObjectPage:
        """One page of the list."""
        return await list_page(
            self.client,
            self.kind,
            namespace=self.namespace,
            labels=self.labels,
            fields=self.fields,
            limit=step.limit,
            continue_=step.continue_,
            resource_version=step.resource_version,
            match="NotOlderThan" if step.is_at_least else None,
            managed_fields=self.managed_fields,
            transform=self.transform,
        )

    async def open(self, step: OpenWatch, seconds: float) -> WatchStream:
        """The open watch, once the API server has accepted the request."""
        watch = self.client.watch(
            self.kind,
            namespace=self.namespace,
            labels=self.labels,
            fields=self.fields,
            resource_version=step.resource_version,
            timeout=seconds,
            send_initial_events=step.is_initial,
            managed_fields=self.managed_fields,
            transform=self.transform,
        )
        return await watch.__aenter__()


class ErrorReporter:
    """Reports the errors of one watch to `on_error`, counts them, and stores the last one."""

    def __init__(self, gvk: GroupVersionKind, namespace: str | None, on_error: OnError | None = None) -> None:
        self.count = 0
        self.last: WatchError | None = None
        """The last error that was retried."""
        self._gvk = gvk
        self._namespace = namespace
        self._on_error: OnError = ErrorLogger() if on_error is None else on_error

    def report(self, error: Exception, *, attempt: int, retry_after: float) -> None:
        """Reports a failure that is retried."""
        self.last = WatchError(
            error=error, gvk=self._gvk, namespace=self._namespace, attempt=attempt, retry_after=retry_after
        )
        self._call(self.last)

    def report_skipped(self, error: Exception) -> None:
        """Reports an object that was skipped or left unchanged; the watch continues."""
        self._call(WatchError(error=error, gvk=self._gvk, namespace=self._namespace))

    def _call(self, error: WatchError) -> None:
        self.count += 1
        try:
            self._on_error(error)
        except Exception:
            log.exception("on_error failed")


class Watcher(AsyncIterator[list[Event[K]]]):
    """Batches of events about the objects of one kind, for one reader; no request is sent before the first read.

    It carries out the steps of the state machine. It never ends by itself, and recoverable errors are not raised:
    `on_error` is called with them (the default logs), and `error` is the last of them until the watch is healthy again.
    A batch may be empty: then only `resource_version` has advanced, or a watch that was refused has been opened again.

    - `watch_timeout`: the timeoutSeconds of a watch request; up to a quarter less, so that many do not end together.
    - `idle_timeout`: after so many seconds without an event or a bookmark (servers send one every minute) the
      connection counts as dead and the watch is reopened.
    - `streaming` and `any_version`: how to list, see `machine.py`.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind[K],
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        page_size: int | None = 500,
        streaming: bool | None = None,
        any_version: bool = False,
        watch_timeout: float = 290.0,
        idle_timeout: float = IDLE_TIMEOUT,
        backoff: Backoff = _BACKOFF,
        on_error: OnError | None = None,
        managed_fields: bool = False,
        transform: Transform | None = None,
        random: Callable[[], float] = stdlib_random.random,
    ) -> None:
        if watch_timeout < 2 or idle_timeout <= 0:
            raise ConfigError("a watch needs a watch_timeout of at least 2 seconds and a positive idle_timeout")
        self.view: View[K] = view_of(kind)
        self.namespace = namespace
        self.resource_version: str | None = None
        """The batches so far contain everything up to this version; None before the first list is complete."""
        self.last_event_at: float | None = None
        """When the API server last sent something, on the loop's clock; None before the first time."""
        self._reporter = ErrorReporter(self.view.gvk, namespace, on_error)
        self._list_watch = ListWatch(
            client=client,
            kind=kind,
            namespace=namespace,
            labels=read_labels(labels),
            fields=read_fields(fields),
            managed_fields=managed_fields,
            transform=None if transform is None else guard_transform(transform, self._reporter.report_skipped),
        )
        self._machine: Machine[K] = Machine(
            self.view, page_size=page_size, streaming=streaming, any_version=any_version
        )
        self._watch_timeout, self._idle_timeout, self._random = watch_timeout, idle_timeout, random
        self._delays = backoff.delays(random=random)
        self._watch: WatchStream | None = None
        self._watchdog: IdleWatchdog | None = None
        self._opened = 0.0
        self._opens = 0
        self._rest: list[Event[K]] = []
        self._has_recovered = False
        self._is_closed = False
        self._task: asyncio.Task[Any] | None = None  # the task that carries out a step
        self._is_interrupted = False
        self._is_silent = False  # the last watch has carried nothing for its idle timeout, and nothing came since

    async def __anext__(self) -> list[Event[K]]:
        machine = self._machine
        while not self._is_closed:
            if self._rest:
                await asyncio.sleep(0)  # a long list must not starve other tasks
                return self._slice(self._rest)
            events = await self._carry_out(machine.step())
            if events or machine.resource_version != self.resource_version or self._has_recovered:
                self._has_recovered = False
                return self._slice(events)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Ends the watch and returns when its connection is closed; may be called again, and by any task."""
        self._is_closed = True
        self._interrupt()
        await self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def error(self) -> WatchError | None:
        """The last error, unless there was progress since, or a watch that has stayed open; None if it is healthy."""
        if not self._machine.failures or (self._watch is not None and self._lasted() >= _STABLE_AFTER):
            return None
        return None if self._is_allowed_again() else self._reporter.last

    @property
    def lists(self) -> int:
        """The number of complete lists: one, and one for each time that the watch could not resume."""
        return self._machine.lists

    @property
    def relists(self) -> int:
        """The number of complete lists after the first."""
        return max(0, self.lists - 1)

    @property
    def reconnects(self) -> int:
        """The number of watch requests after the first."""
        return max(0, self._opens - 1)

    @property
    def bookmarks(self) -> int:
        """The number of bookmarks received."""
        return self._machine.bookmarks

    @property
    def errors(self) -> int:
        """The number of errors so far."""
        return self._reporter.count

    def _slice(self, events: list[Event[K]]) -> list[Event[K]]:
        if len(events) <= _MAX_BATCH:
            self.resource_version, self._rest = self._machine.resource_version, []
            return events
        self._rest = events[_MAX_BATCH:]
        return events[:_MAX_BATCH]

    async def _carry_out(self, step: Step) -> list[Event[K]]:
        """The events that a step yields; none if it is interrupted, because the watch is idle or is closed."""
        task = self._task = asyncio.current_task()
        assert task is not None
        cancels = task.cancelling()
        try:
            match step:
                case ReadWatch():
                    return await self._read()
                case OpenWatch():
                    return await self._open(step)
                case ListPage():
                    return await self._list(step)
                case Recover():
                    return await self._recover(step)
        except asyncio.CancelledError:
            was_interrupted, self._is_interrupted = self._is_interrupted, False
            if not was_interrupted or task.uncancel() > cancels:
                self._task = None
                await self.aclose()
                raise
            self._machine.idled()
            self._is_silent = True
            return []
        finally:
            self._task = None

    def _interrupt(self) -> None:
        """Ends the step that another task carries out."""
        if self._task is not None and not self._is_interrupted and self._task is not asyncio.current_task():
            self._is_interrupted = True
            self._task.cancel()

    async def _list(self, step: ListPage) -> list[Event[K]]:
        await timing.take_turn()  # hundreds of watchers may start at once
        try:
            page = await self._list_watch.list(step)
        except _RECOVERABLE as error:
            self._machine.failed(error)
            return []
        self.last_event_at, self._is_silent = timing.now(), False
        return self._machine.listed(page)

    async def _open(self, step: OpenWatch) -> list[Event[K]]:
        await self._close()
        await timing.take_turn()
        seconds = self._watch_timeout * (1.0 - _JITTER * self._random())
        try:
            self._watch = await self._list_watch.open(step, seconds)
        except _RECOVERABLE as error:
            self._machine.failed(error)
            return []
        self._opens += 1
        self._opened = timing.now()
        # A server whose last watch carried nothing may accept the next one and be as silent: that is no sign of life.
        if self.last_event_at is None or not self._is_silent:
            self.last_event_at = self._opened
        self._watchdog = IdleWatchdog(self._idle_timeout, self._interrupt)
        self._machine.opened()
        self._has_recovered = self._is_allowed_again()
        return []

    def _is_allowed_again(self) -> bool:
        """Whether a watch was reopened after a persistent error: that clears it without waiting for an event."""
        last = self._reporter.last
        is_open = self._watch is not None and self._machine.phase is Phase.WATCHING
        return is_open and self._machine.failures > 0 and last is not None and last.is_persistent

    async def _read(self) -> list[Event[K]]:
        watch, watchdog, machine = self._watch, self._watchdog, self._machine
        assert watch is not None  # opened before it is read
        assert watchdog is not None
        watchdog.since = watchdog.clock()
        try:
            chunk = await watch.chunks.__anext__()
            watchdog.since = None
            if len(chunk) > _LARGE_CHUNK:
                await timing.take_turn()
            batch = watch.reader.feed(chunk)
        except (StopAsyncIteration, *_RECOVERABLE) as error:
            return self._ended(watch, error)
        finally:
            watchdog.since = None
        self.last_event_at, self._is_silent = watchdog.clock(), False
        events = machine.received(batch)
        if machine.skipped:
            self._report_skipped()
        return events

    def _ended(self, watch: WatchStream, error: Exception) -> list[Event[K]]:
        """The watch has ended or broke; its last line may have had no line end."""
        machine = self._machine
        try:
            rest = watch.reader.finish() if isinstance(error, StopAsyncIteration) else []
        except _RECOVERABLE as broken:
            rest, error = [], broken
        events = machine.received(rest) if rest else []
        if isinstance(error, StopAsyncIteration):
            machine.ended(lasted=self._lasted())
        else:
            machine.failed(error, lasted=self._lasted())
        return events

    async def _recover(self, step: Recover) -> list[Event[K]]:
        await self._close()
        failures, delay = self._machine.failures, 0.0
        if step.waits:
            if failures <= 1:
                self._delays.reset()
            requested = retry_after_of(step.error) or 0.0
            delay = self._delays.next_delay(timing.now())
            if isinstance(step.error, NotFound | UnknownKind):
                delay = min(delay, _MISSING_KIND_CAP)
            delay = max(delay, min(requested, _MAX_RETRY_AFTER))
        self._reporter.report(step.error, attempt=failures, retry_after=delay)
        await timing.sleep(delay)
        return []

    def _report_skipped(self) -> None:
        skipped, self._machine.skipped = self._machine.skipped, []
        for error in skipped:
            self._reporter.report_skipped(error)

    def _lasted(self) -> float:
        return timing.now() - self._opened

    async def _close(self) -> None:
        watch, self._watch = self._watch, None
        if self._watchdog is not None:
            self._watchdog.stop()
            self._watchdog = None
        if watch is not None:
            await watch.aclose()


class IdleWatchdog:
    """Calls a function when a read waits longer than `limit` seconds: a connection can die without a word.

    There is one timer per watch and not one per read: the reader only notes `since` when it waits.
    """

    __slots__ = ("_limit", "_loop", "_on_idle", "_timer", "clock", "since")

    def __init__(self, limit: float, on_idle: Callable[[], None]) -> None:
        self._limit = limit
        self._on_idle = on_idle
        self._loop = asyncio.get_running_loop()
        self.clock = timing.clock_of(self._loop)
        self.since: float | None = None
        """When the read that waits now began to wait; None if none does."""
        self._timer = self._loop.call_later(limit, self._check)

    def stop(self) -> None:
        """Cancels the timer."""
        self._timer.cancel()

    def _check(self) -> None:
        now = self._loop.time()
        due = (now if self.since is None else self.since) + self._limit
        self._timer = self._loop.call_at(due if now < due else now + self._limit, self._check)
        if now >= due:
            self._on_idle()
