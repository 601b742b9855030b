"""Plays a recording again: performs its inputs in their order, and compares what the controllers do with its outputs.

There is no queue, no watch and no connection. They have made their decisions, and the recording has them: caches get
the recorded batches, reconciles begin when they began, tasks go on when they went on, and requests get their recorded
answers. The clock stands at the time of the entry that is performed; a timer fires when its task has to go on.
"""

import asyncio
import hashlib
import logging
import math
from bdb import BdbQuit
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from contextvars import copy_context
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import msgspec

from levelset.client import Retries
from levelset.client.client import Client
from levelset.client.internals import attach_tap
from levelset.client.object_types import Item, Kind, OnlyMetadata, View, view_of
from levelset.client.request_body import Write
from levelset.client.transport.interface import Call, Response
from levelset.errors import BadObject, ConfigError
from levelset.objects.cached_object import decode_cached
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.runtime.cache.cluster import Cluster, cluster_sources
from levelset.runtime.cache.informer import Handle, Informer
from levelset.runtime.controller.controller import Controller
from levelset.runtime.controller.observers import NullObserver
from levelset.runtime.controller.reconcile_history import ReconcileHistory
from levelset.runtime.controller.request import Reason
from levelset.runtime.controller.running_controller import ControllerParts, assemble
from levelset.runtime.controller.traced_tasks import (
    CURRENT,
    ENDED,
    TracedCoroutine,
    TracedTask,
    current_task,
    follow,
)
from levelset.runtime.queue import Due, Scheduler
from levelset.runtime.recording import entries as kinds
from levelset.runtime.recording.entries import Entry, entry_text
from levelset.runtime.watch.events import Apply, Delete, Event, Init, InitApply, InitDone
from levelset.testing.replay.differences import (
    Difference,
    place_of_coroutine,
    request_lines,
    same_error,
    same_request,
    user_place,
)
from levelset.testing.replay.held_loop import HeldLoop
from levelset.testing.replay.nondeterminism import NondeterminismWatch
from levelset.testing.replay.recorded_server import GatedTask, RecordedServer, answer_of, error_of

__all__ = ["Replayer"]

T = TypeVar("T")

_SLACK: Final = 1.0
"""How many seconds after its recorded time a task may go on: timers are set a little later than they were."""
_MOST_CANCELS: Final = 100
"""How often a task is cancelled that goes on all the same."""
_RANDOM_DELAYS: Final = frozenset({"failed", "timed_out", "conflict", "retry"})
"""Results whose next reconcile is after a random delay."""


class Replayer:
    """Replays entries on a loop of its own; `before` is called before each reconcile, with its entry and number."""

    def __init__(
        self,
        entries: Sequence[Entry],
        controllers: Sequence[Controller[Any]],
        *,
        before: Callable[[kinds.Begin, int], object] | None = None,
        is_lenient: bool = False,
        watch: NondeterminismWatch | None = None,
    ) -> None:
        start = entries[0]
        assert isinstance(start, kinds.Start), "the first entry of a recording"
        self.entries = entries
        self.difference: Difference | None = None
        self.is_quit = False
        """Whether the user has quit the debugger, which ends the replay."""
        self.reconciles = 0
        self.requests = 0
        self.digest = hashlib.sha256()
        """Of all requests and outcomes."""
        self.watch = watch or NondeterminismWatch()
        self._start = start
        self._controllers = _matched(entries, controllers)
        self._before = before
        self._is_lenient = is_lenient
        self._position = 1
        self._found = 0
        self._done: set[int] = set()
        """Entries after the current position that are done already."""
        self._loop = HeldLoop()
        self._loop.on_thread = self._note_thread
        self._tasks: dict[int, GatedTask] = {}
        self._begins: dict[int, tuple[kinds.Begin, int]] = {}
        self._beginning: kinds.Begin | None = None
        self._positions = _positions_by_task(entries)
        self._scopes: dict[int, Informer] = {}
        self._applying: dict[int, Iterator[None]] = {}
        discovery = {(one.path, one.accept): one for one in entries if isinstance(one, kinds.Discovery)}
        discovery |= {(path, ""): one for (path, _), one in discovery.items()}
        self._server = RecordedServer(self, discovery)
        self._parts: dict[str, tuple[ControllerParts[Any], _ReplayScheduler]] = {}
        self._stack = AsyncExitStack()
        self._cluster: Cluster | None = None
        self._workers: list[asyncio.Task[None]] = []
        self._works: dict[asyncio.Task[Any] | None, Coroutine[Any, Any, Any]] = {}
        """What each worker runs, to say where it waits."""
        self._is_closing = False
        self._is_torn = not isinstance(entries[-1], kinds.Stop)
        """Whether the recording may end in the middle of what a task did in one go: what followed is not known."""
        self._discovering: GatedTask | None = None

    def run(self) -> None:
        """Replays until the end, until the first difference, or until the user quits the debugger."""
        log = logging.getLogger("levelset.runtime.controller")
        log.addFilter(_is_no_quit)
        try:
            copy_context().run(self._replay)
        finally:
            self._close()
            log.removeFilter(_is_no_quit)

    def _replay(self) -> None:
        self._run_coroutine(self._open())
        self._loop.set_task_factory(self._create_task)
        while (entry := self._current()) is not None and self.difference is None and not self.is_quit:
            self._loop.set_time(entry.at / 1e6)
            self._perform(entry)

    # --- the inputs -------------------------------------------------------------------------------------------------

    def _perform(self, entry: Entry) -> None:
        match entry:
            case kinds.Resume():
                self._resume(entry)
                return
            case kinds.Request() | kinds.Value() | kinds.Event() | kinds.End() | kinds.Spawn():
                self._miss(entry)
                return
            case kinds.Answer() if self._is_cancelled(entry):
                self._cancel(entry)
                return
            case _:
                self._position += 1
        self._perform_input(entry)

    def _perform_input(self, entry: Entry) -> None:
        match entry:
            case kinds.ScopeEntry():
                self._scopes[entry.number] = self._informer(entry)
                self._loop.drain()
            case kinds.Batch():
                self._apply(entry)
            case kinds.More():
                if entry.scope in self._applying:
                    next(self._applying[entry.scope], None)
                    self._drain()
            case kinds.OtherWrite():
                self._record_write(entry)
            case kinds.WatchFailed():
                self._scope(entry.scope).record_error(entry.error, None, is_persistent=entry.is_persistent)
            case kinds.Begin():
                self._begin(entry)
            case kinds.Answer():
                self._answer(entry)
            case _:
                pass

    def _scope(self, number: int) -> Informer:
        if number not in self._scopes:
            raise BadObject(f"the recording is damaged: it has no informer {number}, which has events")
        return self._scopes[number]

    def _apply(self, entry: kinds.Batch) -> None:
        informer = self._scope(entry.scope)
        events = [_event(informer.view, one.code, one.raw) for one in entry.events]
        applying = self._applying[entry.scope] = self._in_loop(_applied(informer, events, entry.version))
        next(applying, None)
        if entry.is_snapshot:
            for _ in applying:
                pass
        self._drain()

    def _record_write(self, entry: kinds.OtherWrite) -> None:
        """Has reads wait until the caches show a write that no replayed reconcile makes."""
        assert self._cluster is not None, "it is open"
        gvk = GroupVersionKind(entry.group, entry.version, entry.kind)
        words = entry.name, entry.namespace, entry.resource_version
        for source in cluster_sources(self._cluster):
            if source.concerns(gvk):
                source.record(Write(gvk, *words, uid=entry.uid, is_gone=entry.is_gone))

    def _in_loop(self, steps: Iterator[None]) -> Iterator[None]:
        """Runs each step as a callback of the loop, which the code of a cache may need."""
        while True:
            ended: list[bool] = []
            self._loop.call_soon(_advance_into, steps, ended)
            self._drain()
            if not ended or ended[0]:
                return
            yield

    def _begin(self, entry: kinds.Begin) -> None:
        self.reconciles += 1
        self._begins[entry.task] = entry, self.reconciles
        if entry.controller not in self._parts:
            raise BadObject(f"the recording is damaged: it has no controller {entry.controller!r}, which reconciles")
        parts, scheduler = self._parts[entry.controller]
        self._beginning = entry
        if not scheduler.has_worker:
            worker = self._loop.create_task(parts.engine.workers.work(), name=f"worker of {entry.controller}")
            self._workers.append(worker)
            self._loop.drain()
        reasons = tuple(Reason(one.kind, _ref(one.about)) for one in entry.reasons)
        scheduler.feed(Due(entry.key, entry.priority, reasons, self._loop.time(), self._loop.time()))
        self._drain()

    def _answer(self, entry: kinds.Answer) -> None:
        found = self._server.waiting.get(entry.number)
        if found is None:
            return  # of a task that this replay leaves out
        task, future = found
        if entry.headers.get("stream"):
            self._differ(task, "a response that is read as it arrives", "a replay has no such responses", None)
            return
        outcome = answer_of(entry)
        if isinstance(outcome, Response):
            future.set_result(outcome)
        else:
            future.set_exception(outcome)
        self._drain()

    def _is_cancelled(self, entry: kinds.Answer) -> bool:
        return entry.status == 0 and isinstance(error_of(entry.body), asyncio.CancelledError)

    def _cancel(self, entry: kinds.Answer) -> None:
        """The recorded request was cancelled: here that is the work of a timer, or of another task."""
        found = self._server.waiting.get(entry.number)
        position = self._position
        if found is not None:
            task = found[0]
            task.open()
            self._drain()
            while self._position == position and self.difference is None and self._fire(entry):
                task.open()
                self._drain()
            if self._position == position and self.difference is None:
                self._differ(
                    task, "the request was cancelled", "it is not cancelled", place_of_coroutine(task.coroutine)
                )
        if self._position == position:
            self._position += 1

    def _resume(self, entry: kinds.Resume) -> None:
        position, task = self._position, self._tasks.get(entry.task)
        while self._position == position and self.difference is None:
            if task is not None and task.gate is not None:
                task.open()
                self._drain()
            elif entry.is_yield or not self._fire(entry):
                break
        if self._position != position or self.difference is not None:
            return
        self._position += 1
        if not (entry.is_yield or self._is_lenient):
            place = None if task is None else place_of_coroutine(task.coroutine)
            self._differ(task or entry.task, "the task goes on", "it still waits, or has ended", place)

    def _miss(self, entry: Any) -> None:
        """Handles an output of the recording that has not happened."""
        position = self._position
        while self._position == position and self.difference is None and self._fire(entry):
            pass
        if self._position == position and self.difference is None:
            task = self._tasks.get(entry.task)
            place = None if task is None else place_of_coroutine(task.coroutine)
            self._differ(task or entry.task, entry_text(entry), "nothing: the reconcile waits, or has ended", place)

    def _note_thread(self) -> None:
        if CURRENT.get() is not None:
            self.watch.add("a thread; its result may come at another time")

    def _fire(self, entry: Entry) -> bool:
        with self.watch.watching():
            return self._loop.fire_next(entry.at / 1e6 + _SLACK)

    def _drain(self) -> None:
        with self.watch.watching():
            self._loop.drain()

    # --- the order of the recording ---------------------------------------------------------------------------------

    def may_resume(self, task: GatedTask, *, is_yield: bool) -> bool:
        """Whether the task goes on now; its entry of the recording is then done."""
        if self._is_over:
            return self._is_closing
        entry = self._current()
        if isinstance(entry, kinds.Resume) and entry.task == task.number:
            self._advance(entry)
            return True
        # It lets others run where the recorded code did not: that is no difference.
        return is_yield and not isinstance(self._next_of(task.number), kinds.Resume)

    def may_cancel(self, number: int) -> bool:
        """Whether the next entry is of the task whose request with this number was cancelled."""
        entry = self._current()
        if not self._is_over and isinstance(entry, kinds.Answer) and entry.number == number:
            self._advance(entry)
            return True
        return self._is_closing

    @property
    def _is_over(self) -> bool:
        if self.difference is not None or self.is_quit or self._is_closing:
            return True
        return self._is_torn and self._current() is None

    def _current(self) -> Entry | None:
        while self._position in self._done:
            self._done.discard(self._position)
            self._position += 1
        return self.entries[self._position] if self._position < len(self.entries) else None

    def _advance(self, entry: Entry) -> None:
        """The current entry, or a later one of the task that runs, is done."""
        if entry is self._current():
            self._position += 1
            self._loop.set_time(entry.at / 1e6)
        else:
            self._done.add(self._found)

    def _next_of(self, number: int) -> Entry | None:
        return next((self.entries[one] for one in self._ahead(number)), None)

    def _ahead(self, number: int) -> Iterator[int]:
        """The positions of the entries of a task that are not done yet."""
        positions = self._positions.get(number, ())
        for place in range(bisect_left(positions, self._position), len(positions)):
            if positions[place] not in self._done:
                yield positions[place]

    def _take(self, task: TracedTask, kind: type[T]) -> T | None:
        """The next entry of this task if it is such an output.

        Continuations after a mere yield are skipped: code that does not yield there is ahead of the recording, which
        is no difference. If only some reconciles are replayed, other continuations may be missing, too.
        """
        for position in self._ahead(task.number):
            entry: Any = self.entries[position]
            if isinstance(entry, kinds.Resume) and (entry.is_yield or self._is_lenient):
                self._done.add(position)
                continue
            self._found = position
            return entry if isinstance(entry, kind) else None
        return None

    def _recorded_text(self, task: TracedTask) -> str:
        """What the task did next in the recording, for a report."""
        found = self._next_of(task.number)
        return "nothing more in this reconcile" if found is None else entry_text(found)

    # --- what the controllers do ------------------------------------------------------------------------------------

    def follow(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Awaits the work of a worker; its reconciles go on when they did in the recording."""
        self._works[asyncio.current_task()] = work
        return follow(work, self._gate)

    def _gate(self, task: TracedTask, waited_for: Any, error: BaseException | None) -> Awaitable[None] | None:
        assert isinstance(task, GatedTask), "made by this replayer"
        del error
        return None if self.may_resume(task, is_yield=waited_for is None) else task.park()

    def begin(self, controller: str, key: str, request: Any, began: float) -> TracedTask:
        """A reconcile begins that has begun in the recording."""
        del controller, request, began
        begin, self._beginning = self._beginning, None
        assert begin is not None, "workers get requests only from the recording"
        assert begin.key == key, "the request is that of the recording"
        task = GatedTask(begin.task, self, root=begin.task, coroutine=self._works[asyncio.current_task()])
        self._tasks[task.number] = task
        CURRENT.set(task)
        if self._before is not None:
            try:
                self._before(begin, self.reconciles)
            except BdbQuit:
                self.is_quit = True
        return task

    def finished(self, task: TracedTask, record: Any) -> None:
        """Compares the outcome of a reconcile."""
        CURRENT.set(None)
        result, action, error = record[1:4]
        self.is_quit = self.is_quit or isinstance(error, BdbQuit)
        if self._is_over:
            return
        entry = self._take(task, kinds.End)
        text = None if error is None else f"{type(error).__name__}: {error}"
        present = kinds.End(0, task.number, result, action.after, text, 0.0, 0.0)
        if entry is None or not _same_end(entry, present):
            recorded = self._recorded_text(task) if entry is None else entry_text(entry)
            self._differ(task, recorded, entry_text(present), _place_of_error(error))
            return
        self._advance(entry)
        if self._next_of(task.number) is None:  # older recordings also have what its timers did later
            task.requests = ENDED
        self.digest.update(f"{entry.task} {result} {text}\n".encode())
        del self._tasks[task.number]

    def value(self, task: TracedTask, name: str, make: Callable[[], Any]) -> Any:
        """The recorded value; a new one, after a difference."""
        if self._is_over:
            return make()
        entry = self._take(task, kinds.Value)
        if entry is None or entry.name != name:
            self._differ(task, self._recorded_text(task), f"reads {name}", user_place())
            return make()
        self._advance(entry)
        return entry.value

    def event(self, task: TracedTask, about: str, reason: str, message: str, is_warning: bool) -> None:
        """Compares a Kubernetes Event."""
        if self._is_over:
            return
        entry = self._take(task, kinds.Event)
        present = kinds.Event(0, task.number, about, reason, message, is_warning)
        if entry is None or (entry.about, entry.reason, entry.message) != (about, reason, message):
            recorded = self._recorded_text(task) if entry is None else f"{entry_text(entry)}: {entry.message}"
            self._differ(task, recorded, f"{entry_text(present)}: {message}", user_place())
            return
        self._advance(entry)

    def requested(self, task: GatedTask, call: Call) -> int | None:
        """Compares a request; returns the number of the recorded one."""
        content_type = call.headers.get("Content-Type", "") or call.headers.get("content-type", "")
        return self._requested(
            task, kinds.Request(0, task.number, 0, call.method, call.path, call.query, content_type, call.body)
        )

    async def discover(self, read: Callable[[], Awaitable[None]]) -> None:
        """Awaits a lookup of the REST mapper; where the recorded reconcile waited for one, it goes on when that did."""
        task = current_task()
        if not isinstance(task, GatedTask) or self._is_over:
            await read()
            return
        task.requests += 1
        CURRENT.set(None)
        self._discovering = task
        try:
            await read()
            while not self.may_resume(task, is_yield=True):
                await task.park()
        finally:
            self._discovering = None
            CURRENT.set(task)
            task.requests -= 1

    def lacks(self, path: str) -> None:
        """The present code needs a kind that the recorded process did not know."""
        task = self._discovering
        if task is not None:
            present = f"discovers {path}, which the recorded process did not"
            self._differ(task, self._recorded_text(task), present, user_place())

    async def call(self, task: TracedTask, name: str, arguments: bytes, make: Callable[[], Awaitable[Any]]) -> Any:
        """The recorded result of a call of a client of the outside; `make` is not called."""
        assert isinstance(task, GatedTask), "made by this replayer"
        del make
        number = self._requested(task, kinds.Request(0, task.number, 0, "CALL", name, "", "", arguments))
        if number is None:
            return await self._loop.create_future()
        return msgspec.json.decode((await self._server.wait(task, number)).body)

    def _requested(self, task: GatedTask, present: kinds.Request) -> int | None:
        if self._is_over:
            return None
        entry = self._take(task, kinds.Request)
        if entry is None or not same_request(entry, present):
            found = entry or self._next_of(task.number)
            diff = request_lines(found, present) if isinstance(found, kinds.Request) else ()
            self._differ(task, self._recorded_text(task), entry_text(present), user_place(), diff)
            return None
        self._advance(entry)
        self.requests += 1
        for part in (present.method, present.path, present.query):
            self.digest.update(part.encode())
        self.digest.update(present.body)
        return entry.number

    def _create_task(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        parent = CURRENT.get()
        if isinstance(parent, GatedTask) and not parent.requests and not self._is_over:
            entry = self._take(parent, kinds.Spawn)
            if entry is None:
                self._differ(parent, self._recorded_text(parent), "starts a task", user_place())
            else:
                self._advance(entry)
                child = self._tasks[entry.child] = GatedTask(entry.child, self, root=parent.root, coroutine=coro)
                coro = TracedCoroutine(coro, child, self._gate)
        return asyncio.Task(coro, loop=loop, **options)

    def _differ(
        self, task: TracedTask | int | None, recorded: str, present: str, place: str | None, diff: Sequence[str] = ()
    ) -> None:
        if self.difference is not None:
            return
        number = task.root if isinstance(task, GatedTask) else task
        begin, count = self._begins.get(number if isinstance(number, int) else -1, (None, 0))
        current = self._current() or self.entries[-1]
        self.difference = Difference(
            begin=begin,
            number=count,
            at=current.at / 1e6,
            recorded=recorded,
            present=present,
            diff=diff,
            place=place,
        )

    # --- the parts --------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        start = self._start
        client = Client(self._server, namespace=start.namespace, retries=Retries(attempts=1), timeout=1e9)
        if start.only_namespace is not None:
            client = client.in_namespace(start.only_namespace)
        attach_tap(client, _DiscoveryTap(self))
        self._cluster = await self._stack.enter_async_context(Cluster(client))
        began = datetime.fromisoformat(start.wall)
        for controller in self._controllers.values():
            scheduler = _ReplayScheduler(held=True, name=controller.name)
            parts = await assemble(
                controller,
                self._cluster,
                self._stack,
                observer=NullObserver(),
                history=ReconcileHistory(1, ref_of=view_of(controller.kind).ref_at),
                scheduler=scheduler,
                now=lambda: began + timedelta(seconds=self._loop.time()),
            )
            parts.informers.close()  # the recording says which reconciles begin
            parts.engine.workers.tracer = self
            self._parts[controller.name] = parts, scheduler

    def _informer(self, entry: kinds.ScopeEntry) -> Informer:
        """The informer with the scope of an entry; declared now if no controller declares it."""
        assert self._cluster is not None, "it is open"
        gvk = GroupVersionKind(entry.group, entry.version, entry.kind)
        for source in cluster_sources(self._cluster):
            scope = source.scope
            words = (
                scope.gvk,
                scope.namespace,
                str(scope.labels),
                str(scope.fields),
                scope.is_metadata,
                scope.is_changed,
            )
            if words == (gvk, entry.namespace, entry.labels, entry.fields, entry.is_metadata, entry.is_changed):
                return source.informer
        kind: Kind[Any] = OnlyMetadata(gvk) if entry.is_metadata else gvk
        cluster, found = self._cluster, list[Informer]()

        async def declare() -> None:
            handle: Handle[Any] = cluster.declare(
                kind,
                namespace=entry.namespace,
                labels=entry.labels or None,
                fields=entry.fields or None,
                transform=_unchanged if entry.is_changed else None,
            )
            found.append(handle.informer)

        self._run_coroutine(declare())
        return found[0]

    def _run_coroutine(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._loop.drain()
        if not task.done():
            place = place_of_coroutine(task.get_coro())
            task.cancel()
            self._loop.drain()
            raise ConfigError(
                f"the recording does not say which kinds the API server serves (needed at {place}); record from the "
                "start of the process, or use classes for the kinds"
            )
        task.result()

    def _close(self) -> None:
        """Ends what still runs: reconciles first, then what the controllers share."""
        loop, self._is_closing = self._loop, True
        loop.set_task_factory(None)
        self._cancel_all(self._workers)
        closing = loop.create_task(self._stack.aclose())
        loop.drain()
        while not closing.done() and loop.fire_next(math.inf):
            pass
        self._cancel_all(asyncio.all_tasks(loop))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    def _cancel_all(self, tasks: Iterable["asyncio.Task[Any]"]) -> None:
        for _ in range(_MOST_CANCELS):
            left = [one for one in tasks if not one.done()]
            if not left:
                return
            for one in left:
                one.cancel()
            self._loop.drain()


class _DiscoveryTap:
    """The tap of a replay: it sees the lookups of the REST mapper; requests arrive at the `RecordedServer`."""

    __slots__ = ("discover",)

    def __init__(self, replayer: Replayer) -> None:
        self.discover = replayer.discover

    def begin_call(self, call: Call) -> int | None:
        """Nothing is recorded."""
        del call
        return None

    def end_call(self, begun: object, outcome: Response | BaseException, is_plain: bool = False) -> None:
        """Never called."""


class _ReplayScheduler(Scheduler[str, Reason]):
    """A scheduler that hands out only what the recording has."""

    __slots__ = ("_takers",)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._takers: list[asyncio.Future[Due[str, Reason]]] = []

    @property
    def has_worker(self) -> bool:
        """Whether a worker waits."""
        return any(not one.done() for one in self._takers)

    def feed(self, due: Due[str, Reason]) -> None:
        """Hands a request to a waiting worker."""
        self._takers = [one for one in self._takers if not one.done()]
        self._takers.pop(0).set_result(due)

    async def take(self) -> Due[str, Reason]:
        """Waits for `feed`."""
        taker: asyncio.Future[Due[str, Reason]] = asyncio.get_running_loop().create_future()
        self._takers.append(taker)
        return await taker

    def take_nowait(self, now: float | None = None) -> Due[str, Reason] | None:
        """Nothing: each request comes by `take`."""
        del now
        return None

    def done(self, key: str) -> None:
        """Does nothing: the recording has what follows."""

    def add(self, key: str, **_: Any) -> bool:
        """Does nothing, as `done`."""
        del key
        return False

    def enqueue_all(self, keys: Any, reason: Reason | None, priority: int, /) -> int:
        """Does nothing, as `done`."""
        del keys, reason, priority
        return 0

    def is_superseded(self, key: str) -> bool:
        """Not known; the recording has the answers."""
        del key
        return False


def _matched(entries: Sequence[Entry], controllers: Sequence[Controller[Any]]) -> Mapping[str, Controller[Any]]:
    """The controllers of a recording, by name, each in the namespaces that it had."""
    given = {one.name: one for one in controllers}
    recorded = {one.name: one for one in entries if isinstance(one, kinds.ControllerEntry)}
    missing = [name for name in recorded if name not in given]
    if missing:
        raise ConfigError(
            f"the recording has the controllers {', '.join(missing)}, which are not among those given "
            f"({', '.join(given) or 'none'}); pass all controllers of the process"
        )
    found: dict[str, Controller[Any]] = {}
    for name, one in recorded.items():
        controller, namespaces = given[name], tuple(one.namespaces)
        if namespaces != controller.namespaces:
            controller = controller.with_options(namespace=[place for place in namespaces if place] or None)
        found[name] = controller
    return found


def _positions_by_task(entries: Sequence[Entry]) -> Mapping[int, list[int]]:
    found: dict[int, list[int]] = {}
    for position, entry in enumerate(entries):
        task = None if isinstance(entry, kinds.Begin) else getattr(entry, "task", None)
        if task is not None:
            found.setdefault(task, []).append(position)
    return found


def _applied(informer: Informer, events: Sequence[Any], version: str | None) -> Iterator[None]:
    """The steps of an informer that applies a batch, the first of them too."""
    yield from informer.apply(events, version) or ()


def _event(view: View[Any], code: int, raw: bytes) -> Event[Any]:
    if code == 0:
        return Init()
    if code == 2:
        return InitDone(raw.decode())
    item: Item[Any] = Item(decode_cached(raw), view)
    return InitApply(item) if code == 1 else Apply(item) if code == 3 else Delete(item)


def _is_no_quit(record: logging.LogRecord) -> bool:
    """False for the failure of the reconcile in which the user quit the debugger, which is no failure of the code."""
    return record.exc_info is None or not isinstance(record.exc_info[1], BdbQuit)


def _ref(about: tuple[str, str, str, str | None, str] | None) -> Ref[Any] | None:
    if about is None:
        return None
    group, version, kind, namespace, name = about
    return Ref(GroupVersionKind(group, version, kind), name, namespace)


def _same_end(recorded: kinds.End, present: kinds.End) -> bool:
    return (
        recorded.result == present.result
        and same_error(recorded.error, present.error)
        and (recorded.result in _RANDOM_DELAYS or recorded.after == present.after)
    )


def _place_of_error(error: BaseException | None) -> str | None:
    """The innermost line of the user's code in the traceback of an error."""
    found, trace = None, None if error is None else error.__traceback__
    while trace is not None:
        found = user_place(trace.tb_frame) or found
        trace = trace.tb_next
    return found


def _advance_into(steps: Iterator[None], ended: list[bool]) -> None:
    """Makes one step, and notes whether it was the last."""
    ended.append(next(steps, steps) is steps)


def _unchanged(raw: bytes) -> bytes:
    return raw
