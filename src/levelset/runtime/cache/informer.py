"""The informer: one watch that maintains a store and notifies any number of subscribers.

Each batch of events is written to the store and its indexes first, then delivered to the subscribers. No subscriber can
block it: listeners are called and their errors reported, subscriptions have queues of their own. A change of 100,000
objects is delivered in slices of some hundred, and other tasks run in between.

`Informer` runs the watch, `Handle` is one user's hold on a shared informer (see `shared_informers.py`), and `Stats` is
what metrics and the dashboard show of each informer.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from contextvars import Context
from functools import partial
from typing import Any, Final, Generic, Protocol, Self, TypeVar

import msgspec

from levelset.aio import timing
from levelset.aio.backoff import Backoff
from levelset.aio.supervisor import explain_cancellation
from levelset.client.object_types import View
from levelset.errors import ConfigError, Deadline
from levelset.runtime.cache.cache_sync import Readiness
from levelset.runtime.cache.change import Change
from levelset.runtime.cache.index import Index, ReportError
from levelset.runtime.cache.object_store import SLICE, DecodedBudget, Store, Table, Writer
from levelset.runtime.cache.scope import Scope
from levelset.runtime.cache.subscribers import JoinPoint, ListenerHandle, Subscriber, Subscription, log_error
from levelset.runtime.watch.events import Event
from levelset.runtime.watch.watcher import OnError, WatchError

__all__ = ["BatchTap", "EventSource", "Handle", "Informer", "ProgressListener", "Stats"]


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of one informer at one moment.

    `lag` is the seconds since the API server last sent an event or a bookmark; it sends a bookmark about every minute.
    `waiting` is how many changes the slowest subscription has not read yet. `error` is the current error of the
    watch, None if it is healthy. Counters count since the informer was opened.
    """

    name: str
    is_ready: bool
    objects: int
    bytes: int
    resource_version: str | None
    lag: float | None
    events: int
    relists: int
    reconnects: int
    bookmarks: int
    errors: int
    readers: int
    waiting: int
    error: str | None


K = TypeVar("K")
F = TypeVar("F", bound=Subscriber[Any])

ProgressListener = Callable[[Sequence[Change[Any]]], None]
"""Called with each slice of changes that the store has, and when only `observed` has advanced with none."""

_INDEX_SLICE: Final = 256
_NOTHING: Final[Sequence[Change[Any]]] = ()
_BACKOFF: Final = Backoff()


class EventSource(Protocol):
    """The source of watch events: a `Watcher`, or a fake in tests."""

    def __aiter__(self) -> AsyncIterator[Sequence[Event[Any]]]:
        """The batches of events; it never ends by itself."""
        ...

    async def aclose(self) -> None:
        """Ends the watch."""
        ...

    @property
    def resource_version(self) -> str | None:
        """The batches so far contain everything up to this version."""
        ...

    @property
    def error(self) -> WatchError | None:
        """The current error of the watch; None if it is healthy."""
        ...

    @property
    def relists(self) -> int:
        """The number of complete lists after the first."""
        ...

    @property
    def reconnects(self) -> int:
        """The number of watch requests after the first."""
        ...

    @property
    def bookmarks(self) -> int:
        """The number of bookmarks received."""
        ...

    @property
    def errors(self) -> int:
        """The number of errors so far."""
        ...

    @property
    def last_event_at(self) -> float | None:
        """When the API server last sent something, on the loop's clock; None before the first time."""
        ...


class BatchTap(Protocol):
    """Sees each step by which informers change their stores, right before it."""

    def batch(self, informer: "Informer", events: Sequence[Event[Any]], version: str | None, /) -> None:
        """A batch is about to be applied: its first slice now, each further one after `more`."""
        ...

    def more(self, informer: "Informer", /) -> None:
        """The next slice of the batch is about to be delivered."""
        ...

    def failed(self, informer: "Informer", error: str, is_persistent: bool, /) -> None:
        """The watch has an error; a persistent one lasts until a person acts."""
        ...


class Informer:
    """The cache of one scope, kept current for as long as `run` runs."""

    def __init__(
        self,
        scope: Scope,
        view: View[Any],
        watch: Callable[[OnError], EventSource],
        *,
        report: ReportError = log_error,
        on_error: OnError | None = None,
        backoff: Backoff = _BACKOFF,
        budget: DecodedBudget | None = None,
    ) -> None:
        self.scope = scope
        self.view = view
        self.table = Table(view, budget)
        self.readiness = Readiness(f"the cache of {scope}")
        self.report: ReportError = partial(_report_safely, report)
        self.events = 0
        self.observed: str | None = None
        """The store has everything up to this resourceVersion; bookmarks advance it too. None before the first list."""
        self.tap: BatchTap | None = None
        self._writer: Writer[Any] = Writer(self.table, view, self.readiness, report=self.report)
        self._subscribers: dict[Subscriber[Any], None] = {}
        self._progress: dict[object, ProgressListener] = {}
        self._on_error = on_error
        self._backoff = backoff
        self._open_watch = partial(watch, self._record_error)
        self._source = self._open_watch()  # at once, so that a wrong option raises in the caller that opens it
        self._crashes = self._subscriber_errors = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it has synced, and the watch has no error that needs a person (a missing kind or permission)."""
        return self.readiness.is_ready

    @property
    def error(self) -> WatchError | None:
        """The current error of the watch; None if it is healthy."""
        return self._source.error

    @property
    def is_closed(self) -> bool:
        """Whether it has been closed."""
        return self.readiness.is_closed

    def start(self) -> None:
        """Starts the task that runs the watch; `aclose` ends it."""
        self._task = asyncio.get_running_loop().create_task(
            self.run(),
            name=f"informer of {self.scope}",
            context=Context(),  # it may be opened by a reconcile, of which it is no part
        )

    async def aclose(self) -> None:
        """Closes it and returns when its task, and with it the watch, has ended. May be called again."""
        self.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def run(self) -> None:
        """Runs the watch until cancelled. An unexpected error is reported, and the watch reopened with backoff."""
        delays = self._backoff.delays()
        while True:
            error = await self._run_watch()
            self._crashes += 1
            self.readiness.record_error(str(error), error)
            self.report(f"the watch of {self.scope} failed and is restarted", error)
            await timing.sleep(delays.next_delay(timing.now()))

    async def _run_watch(self) -> Exception:
        """Runs the watch until it fails, after a failure a new one; returns the error."""
        try:
            if self._crashes:
                self._source = self._open_watch()
            async with aclosing(self._source):
                await self._follow(self._source)
        except asyncio.CancelledError as raised:
            return explain_cancellation(raised)
        except Exception as raised:  # noqa: BLE001 -- a bug in one informer must not stop the others
            return raised
        return RuntimeError("the watch has ended by itself")

    def close(self, cause: Exception | None = None) -> None:
        """Closes it: subscriptions deliver their remaining changes and end, and waiters get NotReady."""
        self._writer.close(cause)
        for subscriber in list(self._subscribers):
            subscriber.end()
        self._notify_progress(())

    def subscribe(self, view: View[K], *, replay: bool = True) -> Subscription[K]:
        """A subscription from now on, read at the subscriber's own pace."""
        made: Subscription[K] = Subscription(self._join_point(view, "a subscription to", replay=replay))
        return self._joined(made)

    def listen(
        self, view: View[K], call: Callable[[Sequence[Change[K]]], None], *, replay: bool = True
    ) -> ListenerHandle[K]:
        """A listener from now on, called with each slice of changes."""
        made: ListenerHandle[K] = ListenerHandle(
            self._join_point(view, "a listener of", replay=replay), call, self.report
        )
        return self._joined(made)

    def on_progress(self, call: ProgressListener) -> Callable[[], None]:
        """Calls a function after each change of the store or of `observed`; returns a function that detaches it."""
        token = object()
        self._progress[token] = call
        return lambda: self._progress.pop(token, None) and None

    async def wait_version(self, version: int, within: float | None = None) -> None:
        """Returns once the store has everything up to this version; Deadline if that takes longer."""
        reached = asyncio.Event()
        detach = self.on_progress(lambda _: reached.set() if self._has(version) else None)
        try:
            async with timing.within(within):
                if not self._has(version):
                    await reached.wait()
        except TimeoutError:
            at = self.observed or "nothing"
            raise Deadline(
                f"{self.readiness.what} has not reached resourceVersion {version} within {within} s; it is at {at}"
            ) from None
        finally:
            detach()

    async def add_index(self, index: Index[Any]) -> None:
        """Adds this index and returns when it covers all objects; lets other tasks run meanwhile."""
        self.table.add_index(index, self.report)
        await self.build_indexes()

    async def build_indexes(self) -> None:
        """Returns when all indexes cover all objects."""
        for indexed in list(self.table.indexes):
            while not indexed.build(self.table.cached, _INDEX_SLICE):  # noqa: ASYNC110 -- it only lets others run
                await asyncio.sleep(0)

    def stats(self) -> Stats:
        """The current statistics."""
        source = self._source
        last = source.last_event_at
        return Stats(
            name=str(self.scope),
            is_ready=self.is_ready,
            objects=len(self.table.cached),
            bytes=self.table.size,
            resource_version=self.observed,
            lag=None if last is None else timing.now() - last,
            events=self.events - self._writer.list_marks,
            relists=source.relists,
            reconnects=source.reconnects,
            bookmarks=source.bookmarks,
            errors=source.errors + self._crashes + self._subscriber_errors,
            readers=len(self._subscribers),
            waiting=max((len(one) for one in self._subscribers if isinstance(one, Subscription)), default=0),
            error=None if self.error is None else str(self.error),
        )

    async def _follow(self, source: EventSource) -> None:
        since = 0  # events since other tasks could run: a source with buffered events does not suspend by itself
        async for batch in source:
            self.events += len(batch)
            since += len(batch)
            if since > SLICE:
                await asyncio.sleep(0)
                since = len(batch)
            if self.tap is not None:
                self.tap.batch(self, batch, source.resource_version)
            rest = self.apply(batch, source.resource_version)
            if rest is not None:
                for _ in rest:
                    await asyncio.sleep(0)
                    if self.tap is not None:
                        self.tap.more(self)
            if self.table.has_indexes:
                await self.build_indexes()

    def apply(self, batch: Sequence[Event[Any]], version: str | None) -> Iterator[None] | None:
        """Applies a batch, or the first slice of it: then each step of the result applies one more.

        After the last one the store has everything up to this version. Between them the caller may let other tasks run,
        but must not apply anything else.
        """
        slices = self._writer.slices(batch)
        changes = next(slices, _NOTHING)
        self._offer(changes)
        following = next(slices, None)
        if following is not None:
            return self._apply_rest(slices, changes, following, version)
        self._finish_batch(version, changes)  # nearly always: then it costs no generator
        return None

    def _apply_rest(
        self,
        slices: Iterator[Sequence[Change[Any]]],
        changes: Sequence[Change[Any]],
        following: Sequence[Change[Any]] | None,
        version: str | None,
    ) -> Iterator[None]:
        while following is not None:
            if changes:
                self._notify_progress(changes)
            step = self.table.step
            yield
            changes = following
            self._offer(changes, step)
            following = next(slices, None)
        self._finish_batch(version, changes)

    def record_error(self, error: str, cause: Exception | None, *, is_persistent: bool) -> None:
        """Stores the error of the watch, which reads report; a persistent one makes the cache not ready."""
        # A kind that is not served or a missing permission may last for ever: reads must fail with it.
        (self.readiness.suspend if is_persistent else self.readiness.record_error)(error, cause)

    def _offer(self, changes: Sequence[Change[Any]], step: int | None = None) -> None:
        """Delivers the changes of a write to those that subscribed before it."""
        if changes:
            for subscriber in list(self._subscribers):
                try:
                    subscriber.offer(changes, self.table.step if step is None else step)
                except Exception as error:  # noqa: BLE001 -- the others must get their changes
                    self._subscriber_errors += 1
                    self.report(f"a subscriber of {self.scope} lost changes and gets every object again", error)
                    subscriber.resync()

    def _finish_batch(self, version: str | None, changes: Sequence[Change[Any]]) -> None:
        """After a whole batch: advances `observed`, and after the first list marks the subscribers as complete.

        The callbacks of the last slice of changes are called once, with both.
        """
        table = self.table
        is_whole = table.is_filled and table.fresh is None
        if self.readiness.error is not None and table.fresh is None and self._source.error is None:
            self.readiness.clear_error()
        if is_whole and self.observed != version:
            was_empty, self.observed = self.observed is None, version
            if was_empty:
                for subscriber in list(self._subscribers):
                    subscriber.complete()
        elif not changes:
            return
        self._notify_progress(changes)

    def _notify_progress(self, changes: Sequence[Change[Any]]) -> None:
        for call in list(self._progress.values()):
            try:
                call(changes)
            except Exception as error:  # noqa: BLE001 -- the informer must go on whatever a callback raises
                self.report(f"a callback of {self.readiness.what}", error)

    def _record_error(self, error: WatchError) -> None:
        if error.retry_after is not None:
            if self.tap is not None:
                self.tap.failed(self, str(error), error.is_persistent)
            self.record_error(str(error), error.error, is_persistent=error.is_persistent)
        if self._on_error is not None:
            self._on_error(error)

    def _join_point(self, view: View[K], how: str, *, replay: bool) -> JoinPoint[K]:
        return JoinPoint(
            view,
            lambda: self.table.cached,
            step=self.table.step,
            is_complete=self.table.is_filled,
            with_replay=replay,
            what=f"{how} {self.scope}",
            detach=lambda subscriber: self._subscribers.pop(subscriber, None),
        )

    def _joined(self, subscriber: F) -> F:
        if self.readiness.is_closed:
            subscriber.end()
        else:
            self._subscribers[subscriber] = None
        return subscriber

    def _has(self, version: int) -> bool:
        observed = self.observed or ""
        return observed.isdecimal() and int(observed) >= version


def _report_safely(report: ReportError, where: str, error: Exception) -> None:
    """Reports an error; if the user's function for that fails itself, both are logged."""
    try:
        report(where, error)
    except Exception as raised:  # noqa: BLE001 -- the informer must go on whatever a callback raises
        log_error(where, error)
        log_error("on_error of the cache", raised)


class Handle(Generic[K]):
    """A hold on a shared informer; the watch ends when the last of its handles is closed.

    Several handles may read the same informer with different classes. Closing a handle closes its subscriptions and
    listeners.
    """

    def __init__(self, informer: Informer, view: View[K], release: Callable[[], Awaitable[None]]) -> None:
        self.informer = informer
        self.view = view
        self.store: Store[K] = Store(informer.table, view, informer.readiness, report=informer.report)
        self._release = release
        self._subscribers: list[Subscriber[Any]] = []
        self._closed = False

    def __repr__(self) -> str:
        return f"<Handle of {self.scope}{', closed' if self._closed else ''}>"

    @property
    def scope(self) -> Scope:
        """The scope of the informer."""
        return self.informer.scope

    @property
    def is_ready(self) -> bool:
        """Whether the cache has synced and is kept current; False while the kind or a permission is missing."""
        return self.informer.is_ready

    @property
    def is_closed(self) -> bool:
        """Whether this handle has been closed; the informer may still run for other handles."""
        return self._closed

    @property
    def error(self) -> WatchError | None:
        """The current error of the watch; None if it is healthy. Cached objects stay readable either way."""
        return self.informer.error

    async def wait_ready(self, within: float | None = None) -> None:
        """Returns once the cache has synced and its indexes are built; NotReady, with the last error, if not in time.

        A kind that does not exist (yet, or any more) or a missing permission makes the cache not ready even after it
        had synced; the watch keeps retrying. An API server that restarts does not.
        """
        await self.store.wait_ready(within)
        await self.informer.build_indexes()

    def subscribe(self, *, replay: bool = True) -> Subscription[K]:
        """The changes one by one, at the subscriber's pace; with `replay`, the cached objects come first."""
        self._check_open()
        return self._own(self.informer.subscribe(self.view, replay=replay))

    def listen(self, call: Callable[[Sequence[Change[K]]], None], *, replay: bool = True) -> ListenerHandle[K]:
        """Calls a function with each slice of changes as soon as the store has it; it must be quick and not block."""
        self._check_open()
        return self._own(self.informer.listen(self.view, call, replay=replay))

    async def add_index(self, index: Index[Any]) -> None:
        """Adds this index and returns when it covers all objects; lets other tasks run meanwhile."""
        self._check_open()
        await self.informer.add_index(index)

    def begin_indexes(self, indexes: Iterable[Index[Any]]) -> None:
        """Adds these indexes; `wait_ready`, or the first lookup, builds them."""
        for index in indexes:
            self.store.begin_index(index)

    def stats(self) -> Stats:
        """The statistics of the informer."""
        return self.informer.stats()

    async def aclose(self) -> None:
        """Releases the informer; for the last handle, returns when the watch has ended. May be called again."""
        if not self._closed:
            self._closed = True
            for subscriber in self._subscribers:
                subscriber.close()
            self._subscribers.clear()
            await self._release()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _own(self, subscriber: F) -> F:
        self._subscribers = [one for one in self._subscribers if not one.is_closed]
        self._subscribers.append(subscriber)
        return subscriber

    def _check_open(self) -> None:
        if self._closed:
            raise ConfigError(f"this handle of {self.scope} is closed; open another one")
