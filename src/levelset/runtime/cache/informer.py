"""One watch for many readers: keeps a store in step with the server, and tells everybody who wants to hear.

Each batch of events goes into the store and its indexes first, then to the readers. Nobody can hold it up: listeners
are called and their errors reported, subscribers have queues of their own. A change of a hundred thousand objects is
told some hundred at a time, with room for others in between.

How a cache is doing, in numbers: what a dashboard or a metrics endpoint shows of each informer.

A hold on an informer: the objects read with one class, and the ways to hear of their changes.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from levelset.aio import timing
from levelset.aio.backoff import Backoff
from levelset.client.object_types import View
from levelset.errors import ConfigError, Deadline
from levelset.runtime.cache.cache_sync import Readiness
from levelset.runtime.cache.change import Change
from levelset.runtime.cache.index import Index, Report
from levelset.runtime.cache.scope import Scope
from levelset.runtime.cache.store import SLICE, Store, Table, Writer
from levelset.runtime.cache.subscribers import Feed, Joining, Listening, Subscription, report_error
from levelset.runtime.watch.events import Told
from levelset.runtime.watch.watcher import OnTrouble, Trouble

__all__ = ["Batches", "Handle", "Informer", "Progress", "Stats"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """One informer at one moment.

    `lag` is the seconds since the server last sent something, be it a bookmark; servers send one about every minute.
    `waiting` is how many changes the slowest subscriber has yet to read. Counters count since the informer was opened.
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
    trouble: str | None


K = TypeVar("K")
F = TypeVar("F", bound=Feed[Any])

Progress = Callable[[Sequence[Change[Any]]], None]
"""Is told of each bit that the store has taken in, and of each time that `observed` has moved."""

_INDEXED_AT_ONCE: Final = 256
_BACKOFF: Final = Backoff()


class Batches(Protocol):
    """Where events come from: a Watcher."""

    def __aiter__(self) -> AsyncIterator[Sequence[Told[Any]]]:
        """The batches, without an end."""
        ...

    async def aclose(self) -> None:
        """Ends the watch."""
        ...

    @property
    def resource_version(self) -> str | None:
        """The batches so far have told everything up to this version."""
        ...

    @property
    def trouble(self) -> Trouble | None:
        """What keeps it from going well."""
        ...

    @property
    def relists(self) -> int:
        """How many complete lists there were after the first."""
        ...

    @property
    def reconnects(self) -> int:
        """How many watches were opened after the first."""
        ...

    @property
    def bookmarks(self) -> int:
        """How many bookmarks came."""
        ...

    @property
    def errors(self) -> int:
        """How many troubles there were."""
        ...

    @property
    def last_heard(self) -> float | None:
        """When the server last sent something, on the loop's clock."""
        ...


class Informer:
    """The objects of one scope, kept current by `run` for as long as that runs."""

    def __init__(
        self,
        scope: Scope,
        view: View[Any],
        watch: Callable[[OnTrouble], Batches],
        *,
        report: Report = report_error,
        on_trouble: OnTrouble | None = None,
        backoff: Backoff = _BACKOFF,
    ) -> None:
        self.scope = scope
        self.view = view
        self.table = Table(view)
        self.readiness = Readiness(f"the cache of {scope}")
        self.report = report
        self.events = 0
        self._observed: str | None = None
        self._writer: Writer[Any] = Writer(self.table, view, self.readiness, report=report)
        self._feeds: dict[Feed[Any], None] = {}
        self._progress: dict[object, Progress] = {}
        self._on_trouble = on_trouble
        self._backoff = backoff
        self._again = partial(watch, self._note)
        self._source = self._again()  # made at once, so that whoever opens it hears of a wrong option
        self._crashes = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the store has been filled, and nothing keeps it from being current that will not pass by itself."""
        return self.readiness.is_ready

    @property
    def observed(self) -> str | None:
        """The store shows everything up to this resourceVersion; bookmarks move it too. None before the first list."""
        return self._observed

    @property
    def trouble(self) -> Trouble | None:
        """What keeps the watch from going well; None if it does."""
        return self._source.trouble

    @property
    def is_closed(self) -> bool:
        """Whether it has ended for good."""
        return self.readiness.is_closed

    def start(self) -> None:
        """Starts the task that follows the watch; `aclose` ends it."""
        self._task = asyncio.get_running_loop().create_task(self.run(), name=f"informer of {self.scope}")

    async def aclose(self) -> None:
        """Closes it and returns when its task, and with it the watch, has ended. A second time waits for the same."""
        self.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def run(self) -> None:
        """Follows the watch until cancelled. A mistake that ends the watch is reported, and the watch made anew."""
        delays = self._backoff.delays()
        while True:
            try:
                async with aclosing(self._source):
                    await self._follow(self._source)
                error: Exception = RuntimeError("the watch has ended by itself")
            except Exception as raised:  # noqa: BLE001 -- one informer's mistake stops nobody else
                error = raised
            self._crashes += 1
            self.readiness.blame(str(error), error)
            self.report(f"the cache of {self.scope} starts again", error)
            await timing.sleep(next(delays))
            self._source = self._again()

    def close(self, cause: Exception | None = None) -> None:
        """Tells everybody that it is over: readers get what they have not seen, then the end, and waiters NotReady."""
        self._writer.close(cause)
        for feed in list(self._feeds):
            feed.end()
        self._tell_progress(())

    def subscribe(self, view: View[K], *, replay: bool = True) -> Subscription[K]:
        """A reader with a pace of its own, from now on."""
        made: Subscription[K] = Subscription(self._joining(view, "a subscription to", replay=replay))
        return self._joined(made)

    def listen(
        self, view: View[K], call: Callable[[Sequence[Change[K]]], None], *, replay: bool = True
    ) -> Listening[K]:
        """A reader that is called at once, from now on."""
        made: Listening[K] = Listening(self._joining(view, "a listener of", replay=replay), call, self.report)
        return self._joined(made)

    def on_progress(self, call: Progress) -> Callable[[], None]:
        """Has a function called after each thing that the store has taken in; returns the way to stop that."""
        token = object()
        self._progress[token] = call
        return lambda: self._progress.pop(token, None) and None

    async def wait_version(self, version: int, within: float | None = None) -> None:
        """Returns once the store shows everything up to this version; Deadline if that takes longer."""
        reached = asyncio.Event()
        detach = self.on_progress(lambda _: reached.set() if self._has(version) else None)
        try:
            async with timing.within(within):
                if not self._has(version):
                    await reached.wait()
        except TimeoutError:
            at = self._observed or "nothing"
            raise Deadline(
                f"{self.readiness.what} has not come to {version} within {within} s; it is at {at}"
            ) from None
        finally:
            detach()

    async def add_index(self, index: Index[Any]) -> None:
        """Keeps this index from now on, and returns when it covers what is here; lets others run meanwhile."""
        self.table.add_index(index, self.report)
        await self.build_indexes()

    async def build_indexes(self) -> None:
        """Returns when all indexes cover all objects."""
        for indexed in list(self.table.indexes):
            while not indexed.build(self.table.kept, _INDEXED_AT_ONCE):  # noqa: ASYNC110 -- it only lets others run
                await asyncio.sleep(0)

    def stats(self) -> Stats:
        """How it is doing, in numbers."""
        source = self._source
        heard = source.last_heard
        return Stats(
            name=str(self.scope),
            is_ready=self.is_ready,
            objects=len(self.table.kept),
            bytes=self.table.size,
            resource_version=self._observed,
            lag=None if heard is None else timing.now() - heard,
            events=self.events,
            relists=source.relists,
            reconnects=source.reconnects,
            bookmarks=source.bookmarks,
            errors=source.errors + self._crashes,
            readers=len(self._feeds),
            waiting=max((len(feed) for feed in self._feeds if isinstance(feed, Subscription)), default=0),
            trouble=None if self.trouble is None else str(self.trouble),
        )

    async def _follow(self, source: Batches) -> None:
        since = 0  # events since others could run: a source that has much to tell need not wait for it
        async for batch in source:
            self.events += len(batch)
            since += len(batch)
            if since > SLICE:
                await asyncio.sleep(0)
                since = len(batch)
            is_first = True
            for changes in self._writer.slices(batch):
                step = self.table.step
                if not is_first:
                    await asyncio.sleep(0)
                is_first = False
                self._publish(changes, step)
            self._settle(source)
            if self.table.indexes:
                await self.build_indexes()

    def _publish(self, changes: list[Change[Any]], step: int) -> None:
        if changes:
            for feed in list(self._feeds):
                feed.offer(changes, step)
            self._tell_progress(changes)

    def _settle(self, source: Batches) -> None:
        """After a whole batch: how far we are, and whether everybody has been told what was there."""
        if source.trouble is None and self.table.fresh is None:
            self.readiness.praise()
        if self.table.is_filled and self.table.fresh is None and self._observed != source.resource_version:
            was_empty, self._observed = self._observed is None, source.resource_version
            if was_empty:
                for feed in list(self._feeds):
                    feed.complete()
            self._tell_progress(())

    def _tell_progress(self, changes: Sequence[Change[Any]]) -> None:
        for call in list(self._progress.values()):
            try:
                call(changes)
            except Exception as error:  # noqa: BLE001 -- the function is somebody else's; the informer goes on
                self.report(f"a callback of {self.readiness.what}", error)

    def _note(self, trouble: Trouble) -> None:
        if trouble.retry_after is not None:
            # A kind that is not served or a missing permission may stay so for ever: who reads must hear of it.
            note = self.readiness.suspend if trouble.is_standing else self.readiness.blame
            note(str(trouble), trouble.error)
        if self._on_trouble is not None:
            self._on_trouble(trouble)

    def _joining(self, view: View[K], how: str, *, replay: bool) -> Joining[K]:
        return Joining(
            view,
            lambda: self.table.kept,
            step=self.table.step,
            is_complete=self.table.is_filled,
            with_replay=replay,
            what=f"{how} {self.scope}",
            detach=lambda feed: self._feeds.pop(feed, None),
        )

    def _joined(self, feed: F) -> F:
        if self.readiness.is_closed:
            feed.end()
        else:
            self._feeds[feed] = None
        return feed

    def _has(self, version: int) -> bool:
        observed = self._observed or ""
        return observed.isdecimal() and int(observed) >= version


class Handle(Generic[K]):
    """One user of a shared informer; the watch ends when the last of its handles is closed.

    Several handles may read the same informer with different classes. What was subscribed through a handle is closed
    with it.
    """

    def __init__(self, informer: Informer, view: View[K], release: Callable[[], Awaitable[None]]) -> None:
        self.informer = informer
        self.view = view
        self.store: Store[K] = Store(informer.table, view, informer.readiness, report=informer.report)
        self._release = release
        self._feeds: list[Feed[Any]] = []
        self._closed = False

    def __repr__(self) -> str:
        return f"<Handle of {self.scope}{', closed' if self._closed else ''}>"

    @property
    def scope(self) -> Scope:
        """Which objects the informer holds."""
        return self.informer.scope

    @property
    def is_ready(self) -> bool:
        """Whether the objects are there and kept current; not while the kind is gone, or a permission."""
        return self.informer.is_ready

    @property
    def is_closed(self) -> bool:
        """Whether this handle has been closed; the informer may go on for others."""
        return self._closed

    @property
    def trouble(self) -> Trouble | None:
        """What keeps the watch from going well; None if it does. Objects that are there stay readable in the store."""
        return self.informer.trouble

    async def wait_ready(self, within: float | None = None) -> None:
        """Returns once the objects and their indexes are there; NotReady, with the last trouble as its cause, if not.

        A kind that does not exist (yet, or any more) or a missing permission is such a trouble, also after everything
        had been there once; the watch goes on trying. What passes by itself, such as a server that restarts, is none.
        """
        await self.store.wait_ready(within)
        await self.informer.build_indexes()

    def subscribe(self, *, replay: bool = True) -> Subscription[K]:
        """The changes, one by one at the reader's pace: first what is there (if wanted), then what comes."""
        self._refuse_if_closed()
        return self._own(self.informer.subscribe(self.view, replay=replay))

    def listen(self, call: Callable[[Sequence[Change[K]]], None], *, replay: bool = True) -> Listening[K]:
        """Has a function called with each batch of changes at the moment it happens; for queues and the like."""
        self._refuse_if_closed()
        return self._own(self.informer.listen(self.view, call, replay=replay))

    async def add_index(self, index: Index[Any]) -> None:
        """Keeps this index from now on, and returns when it covers what is here; lets others run meanwhile."""
        self._refuse_if_closed()
        await self.informer.add_index(index)

    def begin_indexes(self, indexes: Iterable[Index[Any]]) -> None:
        """Keeps these indexes from now on; `wait_ready`, or the first who looks something up, builds them."""
        for index in indexes:
            self.store.begin_index(index)

    def stats(self) -> Stats:
        """How the informer is doing, in numbers."""
        return self.informer.stats()

    async def aclose(self) -> None:
        """Lets go of the informer; returns, for the last handle, when the watch has ended. A second time is nothing."""
        if not self._closed:
            self._closed = True
            for feed in self._feeds:
                feed.close()
            self._feeds.clear()
            await self._release()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _own(self, feed: F) -> F:
        self._feeds = [one for one in self._feeds if not one.is_closed]
        self._feeds.append(feed)
        return feed

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise ConfigError(f"this handle of {self.scope} is closed; open another one")
