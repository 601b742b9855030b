"""A watch that never ends: batches of what is new about the objects of one kind.

This is what a cache wants. `levelset.runtime.watch.watch` makes a stream of single events of it.

What a watch asks of its server: the same kind, place and selection each time, from another version.

Notices a stream on which nothing comes any more: whoever waits for too long is woken.

A connection can die without a word. One timer per watch looks after the reader now and then; the reader itself only
notes when it began to wait, since it does so for every batch.

What goes wrong in a watch, in words: which kind, where, why, and when it is tried again.

A watch heals by itself, so trouble is something to tell and never something to raise. `Trouble` is the value;
`Complaints` writes it to the log, and does not repeat what somebody has to repair first.

The machine with a client: asks what to do, does it, and hands on what is new, for ever.
"""

import asyncio
import logging
import random as stdlib_random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Self, TypedDict, TypeVar

from levelset.aio import timing
from levelset.aio.backoff import Backoff
from levelset.aio.streams import Stream
from levelset.aio.supervisor import Interruption
from levelset.client.client import Reading
from levelset.client.lists import KeptPage, Transform
from levelset.client.object_types import Kind, View, view_of
from levelset.client.requests import Fields, Labels, read_fields, read_labels
from levelset.client.responses import retry_after_of
from levelset.client.watch_request import Watching
from levelset.errors import ApiError, ConfigError, Forbidden, LevelsetError, NotFound, Unauthorized, UnknownKind
from levelset.objects.field_selectors import FieldSelector
from levelset.objects.label_selectors import LabelSelector
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.watch.events import Event
from levelset.runtime.watch.machine import ListPage, Machine, OpenWatch, Phase, ReadWatch, Setback
from levelset.runtime.watch.transforms import guarded

__all__ = [
    "Complaints",
    "OnTrouble",
    "Pace",
    "Question",
    "Run",
    "Teller",
    "Trouble",
    "WatchOptions",
    "Watchdog",
    "Watcher",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The objects that somebody wants to know about, and who is to be asked."""

    client: Reading
    kind: Kind[Any]
    namespace: str | None = None
    labels: LabelSelector | None = None
    fields: FieldSelector | None = None
    managed_fields: bool = False
    transform: Transform | None = None
    as_kept: bool = False

    async def list(self, step: ListPage) -> KeptPage:
        """One page of the list."""
        return await self.client.list_kept(
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

    async def open(self, step: OpenWatch, seconds: float) -> Watching:
        """The watch, once the server has agreed to it."""
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
            as_kept=self.as_kept,
        )
        return await watch.__aenter__()


class Watchdog:
    """Wakes a reader that waits longer than `limit` seconds; time in which nobody waits does not count."""

    __slots__ = ("_limit", "_loop", "_reading", "_since", "_timer")

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._reading = Interruption()
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def enter(self) -> None:
        """The current task begins to wait; whatever comes of it, it says `leave`."""
        self._reading.enter()
        self._since = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_at(self._since + self._limit, self._look)

    def leave(self) -> bool:
        """The waiting is over; whether it was cancelled by us and nobody else."""
        return self._reading.leave()

    def stop(self) -> None:
        """Looks after nobody any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._reading.task is None:
            return  # the next one who waits sets the timer again
        due = self._since + self._limit
        if self._loop.time() >= due:
            self._reading.interrupt()
        else:
            self._timer = self._loop.call_at(due, self._look)


log = logging.getLogger("levelset.runtime.watch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something that a watch could not do; `retry_after` is None if it went on without trying that again.

    `attempt` counts the failures in a row: 1 is the first since things went well.
    """

    error: Exception
    gvk: GroupVersionKind
    namespace: str | None = None
    name: str | None = None
    """The one object that it is about, if it is about one."""
    attempt: int = 1
    retry_after: float | None = None

    @property
    def where(self) -> str:
        """The kind and the namespace, or the object, in words."""
        if self.name is not None:
            return "/".join(part for part in (self.gvk.kind, self.namespace, self.name) if part)
        return f"{self.gvk.kind} in {f'namespace {self.namespace}' if self.namespace else 'all namespaces'}"

    @property
    def cause(self) -> str:
        """What it is about, without the words that differ each time: the class, code and reason of the error."""
        error = self.error
        said = f" {error.code} {error.reason}" if isinstance(error, ApiError) else ""
        return f"{type(error).__name__}{said}"

    @property
    def is_standing(self) -> bool:
        """Whether it stays until somebody does something: a kind that is not there, a permission that is missing."""
        return isinstance(self.error, NotFound | Forbidden | Unauthorized | UnknownKind)

    def __str__(self) -> str:
        error = str(self.error) or type(self.error).__name__
        if self.retry_after is None:
            return f"watching {self.where}: {error}; the watch goes on"
        return f"watching {self.where}: {error}; attempt {self.attempt + 1} in {self.retry_after:.1f} s"


OnTrouble = Callable[[Trouble], None]
"""Is told of each trouble, at once; must not block."""


class Complaints:
    """Writes trouble to the log (`levelset.runtime.watch`): a warning each time, a standing one once for each cause."""

    def __init__(self) -> None:
        self._standing: str | None = None

    def __call__(self, trouble: Trouble) -> None:
        """Writes one down."""
        cause = trouble.cause if trouble.is_standing else None
        if trouble.retry_after == 0:
            log.info("a watch begins again: %s", trouble, extra={"cause": trouble.cause})
        elif cause is None or cause != self._standing or trouble.attempt == 1:
            log.warning("a watch is in trouble: %s", trouble, extra={"cause": trouble.cause})
        if trouble.retry_after is not None:
            self._standing = cause


class Teller:
    """Tells the trouble of one watch: counts it, remembers the last, and survives a listener that fails."""

    def __init__(self, gvk: GroupVersionKind, namespace: str | None, on_trouble: OnTrouble | None = None) -> None:
        self.count = 0
        self.last: Trouble | None = None
        """The last trouble that was waited for."""
        self._gvk = gvk
        self._namespace = namespace
        self._on_trouble: OnTrouble = Complaints() if on_trouble is None else on_trouble

    def tell(self, error: Exception, *, attempt: int, retry_after: float) -> None:
        """Something failed that is tried again."""
        trouble = Trouble(
            error=error, gvk=self._gvk, namespace=self._namespace, attempt=attempt, retry_after=retry_after
        )
        self.last = trouble
        self._say(trouble)

    def tell_aside(self, error: Exception) -> None:
        """Something cannot be used; the watch goes on without it."""
        self._say(Trouble(error=error, gvk=self._gvk, namespace=self._namespace))

    def _say(self, trouble: Trouble) -> None:
        self.count += 1
        try:
            self._on_trouble(trouble)
        except Exception:
            log.exception("on_trouble failed")


K = TypeVar("K")

_LARGEST_BATCH: Final = 1000
_LONGEST_WAIT: Final = 600.0
_SETTLED: Final = 1.0
_SPREAD: Final = 0.25
_HEALED: Final = (LevelsetError, OSError)
"""What a server or the way to it can do to us; anything else is a mistake in the house, and raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long everything may take, and how long to wait before trying again."""

    backoff: Backoff
    watch_timeout: float
    idle_timeout: float
    random: Callable[[], float]


class Run(AsyncIterator[list[Event[K]]]):
    """Does the steps of a machine, one batch at a time."""

    def __init__(self, question: Question, machine: Machine[K], teller: Teller, pace: Pace) -> None:
        self.machine = machine
        self.teller = teller
        self.told: str | None = None
        """The version up to which everything was handed on."""
        self.opens = 0
        self.last_heard: float | None = None
        self._question = question
        self._pace = pace
        self._delays = pace.backoff.delays(random=pace.random)
        self._watch: Watching | None = None
        self._watchdog: Watchdog | None = None
        self._opened = 0.0
        self._rest: list[Event[K]] = []
        self._has_healed = False

    async def __anext__(self) -> list[Event[K]]:
        while True:
            if self._rest:
                await asyncio.sleep(0)  # a long list must not keep everybody else waiting
                return self._slice(self._rest)
            match self.machine.step():
                case ReadWatch():
                    events = await self._read()
                case OpenWatch() as step:
                    events = await self._open(step)
                case ListPage() as step:
                    events = await self._list(step)
                case Setback() as setback:
                    events = await self._recover(setback)
            if events or self.machine.resource_version != self.told or self._has_healed:
                self._has_healed = False
                return self._slice(events)

    async def aclose(self) -> None:
        """Closes the connection."""
        await self._close()

    def trouble(self) -> Trouble | None:
        """The last trouble, unless there was progress since, or a watch that has stayed open."""
        if not self.machine.failures or (self._watch is not None and self._lasted() >= _SETTLED):
            return None
        return None if self._is_allowed() else self.teller.last

    def _slice(self, events: list[Event[K]]) -> list[Event[K]]:
        if len(events) <= _LARGEST_BATCH:
            self.told, self._rest = self.machine.resource_version, []
            return events
        self._rest = events[_LARGEST_BATCH:]
        return events[:_LARGEST_BATCH]

    async def _list(self, step: ListPage) -> list[Event[K]]:
        try:
            page = await self._question.list(step)
        except _HEALED as error:
            self.machine.failed(error)
            return []
        self.last_heard = timing.now()
        return self.machine.listed(page)

    async def _open(self, step: OpenWatch) -> list[Event[K]]:
        await self._close()
        seconds = self._pace.watch_timeout * (1.0 - _SPREAD * self._pace.random())
        try:
            self._watch = await self._question.open(step, seconds)
        except _HEALED as error:
            self.machine.failed(error)
            return []
        self.opens += 1
        self.last_heard = self._opened = timing.now()
        self._watchdog = Watchdog(self._pace.idle_timeout)
        self.machine.opened()
        self._has_healed = self._is_allowed()
        return []

    def _is_allowed(self) -> bool:
        """Whether a watch has gone on that was refused: then the server need not send anything for that to be over."""
        last = self.teller.last
        is_open = self._watch is not None and self.machine.phase is Phase.WATCHING
        return is_open and self.machine.failures > 0 and last is not None and last.is_standing

    async def _read(self) -> list[Event[K]]:
        watch, watchdog = self._watch, self._watchdog
        assert watch is not None  # opened before it is read
        assert watchdog is not None
        watchdog.enter()
        try:
            batch = await watch.__anext__()
        except StopAsyncIteration:
            self.machine.ended(lasted=self._lasted())
            return []
        except asyncio.CancelledError:
            if not watchdog.leave():
                raise
            self.machine.idled()
            return []
        except _HEALED as error:
            self.machine.failed(error, lasted=self._lasted())
            return []
        finally:
            watchdog.leave()
        self.last_heard = timing.now()
        events = self.machine.received(batch)
        if self.machine.skipped:
            self._tell_skipped()
        return events

    async def _recover(self, setback: Setback) -> list[Event[K]]:
        await self._close()
        failures, delay = self.machine.failures, 0.0
        if setback.waits:
            if failures <= 1:
                self._delays.reset()
            asked = retry_after_of(setback.error) or 0.0
            delay = max(self._delays.next_delay(timing.now()), min(asked, _LONGEST_WAIT))
        self.teller.tell(setback.error, attempt=failures, retry_after=delay)
        await timing.sleep(delay)
        return []

    def _tell_skipped(self) -> None:
        skipped, self.machine.skipped = self.machine.skipped, []
        for error in skipped:
            self.teller.tell_aside(error)

    def _lasted(self) -> float:
        return timing.now() - self._opened

    async def _close(self) -> None:
        watch, self._watch = self._watch, None
        if self._watchdog is not None:
            self._watchdog.stop()
            self._watchdog = None
        if watch is not None:
            await watch.aclose()


_BACKOFF: Final = Backoff()


class WatchOptions(TypedDict, total=False):
    """The options of a `Watcher`, for those who pass them on."""

    namespace: str | None
    labels: Labels | None
    fields: Fields | None
    page_size: int | None
    streaming: bool | None
    any_version: bool
    watch_timeout: float
    idle_timeout: float
    backoff: Backoff
    on_trouble: OnTrouble | None
    managed_fields: bool
    transform: Transform | None
    random: Callable[[], float]


class Watcher(AsyncIterator[list[Event[K]]]):
    """Batches of events about the objects of one kind, for one reader; nothing is asked before somebody reads.

    It never ends by itself, and what can be healed is never raised: `on_trouble` is told instead (the default writes to
    the log), and `trouble` is the last of it until things go well again. A batch may be empty: then only
    `resource_version` has moved on, or a watch that was refused has been opened again.

    `watch_timeout` is for how many seconds a watch is asked for, or up to a quarter less, so that many do not end
    together. `idle_timeout` is how long nothing may come, not even a bookmark (which servers send every minute), before
    the connection counts as dead and is made anew. See `machine` for `streaming` and `any_version`.

    With `as_kept` the batches are of `Told`, which is less work for whoever keeps the objects.
    """

    def __init__(
        self,
        client: Reading,
        kind: Kind[K],
        *,
        namespace: str | None = None,
        labels: Labels | None = None,
        fields: Fields | None = None,
        page_size: int | None = 500,
        streaming: bool | None = None,
        any_version: bool = False,
        watch_timeout: float = 290.0,
        idle_timeout: float = 75.0,
        backoff: Backoff = _BACKOFF,
        on_trouble: OnTrouble | None = None,
        managed_fields: bool = False,
        transform: Transform | None = None,
        random: Callable[[], float] = stdlib_random.random,
        as_kept: bool = False,
    ) -> None:
        if watch_timeout < 2 or idle_timeout <= 0:
            raise ConfigError("a watch needs a watch_timeout of at least 2 seconds and a positive idle_timeout")
        self.view: View[K] = view_of(kind)
        self.namespace = namespace
        teller = Teller(self.view.gvk, namespace, on_trouble)
        question = Question(
            client=client,
            kind=kind,
            namespace=namespace,
            labels=read_labels(labels),
            fields=read_fields(fields),
            managed_fields=managed_fields,
            transform=None if transform is None else guarded(transform, teller.tell_aside),
            as_kept=as_kept,
        )
        machine = Machine(self.view, page_size=page_size, streaming=streaming, any_version=any_version, as_kept=as_kept)
        pace = Pace(backoff=backoff, watch_timeout=watch_timeout, idle_timeout=idle_timeout, random=random)
        self._run: Run[K] = Run(question, machine, teller, pace)
        self._stream: Stream[list[Event[K]]] = Stream(self._run)

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[list[Event[K]]]:
        return self._stream.__anext__()

    async def aclose(self) -> None:
        """Ends the watch and returns when its connection is closed; may be called again, and by any task."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def resource_version(self) -> str | None:
        """The batches so far have told everything up to this version; None before the first list is complete."""
        return self._run.told

    @property
    def trouble(self) -> Trouble | None:
        """What keeps the watch from going well; None if it does."""
        return self._run.trouble()

    @property
    def lists(self) -> int:
        """How many complete lists there were: one, and one for each time that the watch could not simply go on."""
        return self._run.machine.lists

    @property
    def relists(self) -> int:
        """How many complete lists there were after the first."""
        return max(0, self.lists - 1)

    @property
    def reconnects(self) -> int:
        """How many watches were opened after the first."""
        return max(0, self._run.opens - 1)

    @property
    def bookmarks(self) -> int:
        """How many bookmarks came."""
        return self._run.machine.bookmarks

    @property
    def errors(self) -> int:
        """How many troubles were told."""
        return self._run.teller.count

    @property
    def last_heard(self) -> float | None:
        """When the server last sent something, on the loop's clock."""
        return self._run.last_heard
