"""Records a running process: what its caches got, and what its reconciles sent, got, did and returned.

`Recorder` is attached to the places where these things happen: to the informers of a cluster as their `BatchTap`, to
its client as the `CallTap`, to the workers of controllers as their `Tracer`, and to the event loop, whose task factory
it extends: a task that a reconcile starts is recorded like the reconcile. All of it runs on one event loop, so the
order in which entries are added is the order in which things happened. A thread writes them (`recording_file.py`).
"""

import asyncio
import platform
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import msgspec

from levelset.aio import timing
from levelset.client.internals import attach_tap, known_documents, observe_writes
from levelset.client.object_types import view_of
from levelset.client.request_body import Write
from levelset.client.transport.interface import Call, Response
from levelset.errors import ConfigError
from levelset.runtime.cache.cluster import Cluster, cluster_sources
from levelset.runtime.cache.informer import Informer
from levelset.runtime.cache.reader import CacheSource
from levelset.runtime.controller.controller import Controller
from levelset.runtime.controller.request import Request
from levelset.runtime.controller.traced_tasks import (
    CURRENT,
    ENDED,
    TracedCoroutine,
    TracedTask,
    current_task,
    follow,
)
from levelset.runtime.recording import entries
from levelset.runtime.recording.entries import FLAT, BatchEvent, Entry
from levelset.runtime.recording.recording_file import PART_VALUES, RecordingWriter
from levelset.runtime.recording.recording_options import Recording
from levelset.runtime.recording.redaction import Redactor
from levelset.runtime.watch.events import Apply, Delete, Event, Init, InitApply

__all__ = ["Recorder"]

T = TypeVar("T")

_PERIOD: Final = 1.0
"""Seconds after which entries are written even if they are few."""
_MANY: Final = 6
"""Blocks that are written before that."""
_DISCOVERY: Final = re.compile(r"/api(/[^/]+)?|/apis(/[^/]+){0,2}")
_HEADERS: Final = ("warning", "retry-after")
"""The headers that clients read; the second one only of errors."""
_NO_HEADERS: Final[dict[str, str]] = {}
_BATCH, _BEGIN, _RESUME, _REQUEST, _ANSWER, _END = FLAT
_CODES: Final[dict[type[Any], int]] = {Init: 0, InitApply: 1, Apply: 3, Delete: 4}
_APPLY: Final = frozenset({Apply})
_new: Final = object.__new__
_get_current: Final = CURRENT.get
_set_current: Final = CURRENT.set


class Recorder:
    """Records one process from `open` to `aclose`; implements the taps and the tracer."""

    def __init__(
        self, recording: Recording, cluster: Cluster, *, on_end: Callable[[str], object] | None = None
    ) -> None:
        self.recording = recording
        self.end_reason: str | None = None
        """Why it has ended; None while it records."""
        self._cluster = cluster
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._clock = timing.clock_of(self._loop)
        self._began = self._clock()
        self._tasks = self._requests = 0
        self._scopes: dict[Informer, int] = {}
        self._previous_factory: Any = None
        self._detach_client: list[Callable[[], object]] = []
        self._writer: RecordingWriter | None = None
        self._values: list[Any] = _Nothing()
        """The entries that are not encoded yet: objects and flat rows, in order."""
        self._paths: list[str] = _Nothing()
        """The path of each request in them, and one for each informer's kind."""
        self._last: entries.Stop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._size = 0
        self._flush_timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    @property
    def written(self) -> int:
        """How many bytes the file has."""
        return self._size if self._writer is None else self._writer.written

    async def open(self, *, is_partial: bool = False) -> None:
        """Creates the file and attaches itself; what the caches hold already becomes the first entries."""
        options = self.recording
        cleaner = Redactor(options.redact, secrets_too=options.redact_secrets, keep=options.keep)
        self._writer = await asyncio.to_thread(
            RecordingWriter,
            Path(options.path),
            max_bytes=options.max_bytes,
            cleaner=cleaner,
        )
        installed = await asyncio.to_thread(_installed_version)
        self._values, self._paths = [], []
        self._began, wall = self._clock(), datetime.now(UTC)  # at once: the times of all entries count from both
        client = self._cluster.client
        redacted = [*(("Secret",) if options.redact_secrets else ()), *options.redact]
        self._add(
            entries.Start(
                at=0,
                format=entries.FORMAT,
                levelset=installed,
                python=platform.python_version(),
                wall=wall.isoformat(),
                namespace=client.namespace,
                only_namespace=client.only_namespace,
                is_partial=is_partial,
                redacted=redacted,
                clock=self._began,
            )
        )
        self._attach()
        if options.max_seconds is not None:
            reason = f"{options.max_seconds:g} seconds have passed"
            self._timer = self._loop.call_later(options.max_seconds, self.end, reason)

    def end(self, reason: str) -> None:
        """Ends the recording: nothing more is recorded, and the file is completed; `aclose` waits for that."""
        if self.end_reason is not None:
            return
        self.end_reason = reason
        self._detach()
        self._turn()
        self._last = entries.Stop(self._now(), reason)
        self._values, self._paths = _Nothing(), _Nothing()
        if self._on_end is not None:
            self._on_end(reason)
        self._closing = self._loop.create_task(self._close(), name="levelset: end of the recording")

    async def aclose(self, reason: str = "the process has stopped") -> None:
        """Ends the recording and returns when the file is complete."""
        self.end(reason)
        if self._closing is not None:
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            if self._writing is not None:
                await asyncio.wait([self._writing])
            await asyncio.to_thread(writer.close, self._last)
            self._size = writer.written

    def controller(self, controller: Controller[Any]) -> None:
        """Records that the reconciles of a controller are recorded from now on."""
        gvk = view_of(controller.kind).gvk
        words = controller.name, gvk.group, gvk.version, gvk.kind, list(controller.namespaces), controller.concurrency
        self._add(entries.ControllerEntry(self._now(), *words))

    def leader(self, *, is_leader: bool) -> None:
        """Records that this process has become the leader, or is it no more."""
        self._add(entries.Leader(self._now(), is_leader))

    # --- the caches (BatchTap) --------------------------------------------------------------------------------------

    def batch(self, informer: Informer, events: Sequence[Event[Any]], version: str | None) -> None:
        """Records a batch that an informer is about to apply."""
        scope, values = self._scope(informer), self._values
        found: list[Any] = [3] * (2 * len(events))
        if _APPLY.issuperset(map(type, events)):  # nearly always: one expression costs less than a row for each
            applied: Any = events
            found[1::2] = [one.item.cached.raw for one in applied]
        else:
            found = [*chain.from_iterable(map(_event, events))]
        values += (_BATCH, self._clock(), scope, version, found)
        if len(values) > PART_VALUES:
            self._turn()
        if self._flush_timer is None:
            self._wake()

    def more(self, informer: Informer) -> None:
        """Records that an informer goes on with its batch."""
        self._add(entries.More(self._now(), self._scope(informer)))

    def failed(self, informer: Informer, error: str, is_persistent: bool) -> None:
        """Records an error of a watch."""
        self._add(entries.WatchFailed(self._now(), self._scope(informer), error, is_persistent))

    def _scope(self, informer: Informer) -> int:
        number = self._scopes.get(informer)
        if number is None:
            scope, number = informer.scope, len(self._scopes)
            self._scopes[informer] = number
            gvk = scope.gvk
            words = str(scope.labels), str(scope.fields), scope.is_metadata, scope.is_changed
            named = number, gvk.group, gvk.version, gvk.kind, scope.namespace
            self._add(entries.ScopeEntry(self._now(), *named, *words))
        return number

    def _add_snapshot(self, informer: Informer) -> None:
        """Records what a cache holds already, as a list."""
        number, table = self._scope(informer), informer.table
        if table.is_filled:
            objects = [BatchEvent(1, one.raw) for one in table.cached.values()]
            events = [BatchEvent(0, b""), *objects, BatchEvent(2, table.resource_version.encode())]
            self._add(entries.Batch(self._now(), number, informer.observed, events, is_snapshot=True))

    def _add_unseen(self, source: CacheSource) -> None:
        """Records the writes that a cache has not shown yet."""
        gvk = source.scope.gvk
        for one in source.writes.by_key.values():
            namespace, _, name = one.key.rpartition("/")
            version = one.opaque if one.version is None else str(one.version)
            is_gone = one.gone is not None or one.is_vague
            words = gvk.group, gvk.version, gvk.kind, None if name == "*" else name, namespace or None, version
            if not one.is_silent:
                self._add(entries.OtherWrite(self._now(), *words, uid=one.gone, is_gone=is_gone))

    def _record_write(self, write: Write) -> None:
        """Records a write outside of the recorded reconciles, if it is to an object that a cache may hold."""
        task = _get_current()
        if task is not None and task.requests >= 0:
            return  # nearly always
        if not any(one.concerns(write.gvk) for one in cluster_sources(self._cluster)):
            return
        gvk = write.gvk
        words = gvk.group, gvk.version, gvk.kind, write.name, write.namespace, write.resource_version
        self._add(entries.OtherWrite(self._now(), *words, uid=write.uid, is_gone=write.is_gone))

    # --- requests (CallTap) -----------------------------------------------------------------------------------------

    def begin_call(self, call: Call) -> "tuple[int, TracedTask] | Call | None":
        """Records a request of a reconcile; of the others only discovery."""
        task = _get_current()
        if task is None or task.requests < 0:
            return None if call.method != "GET" or _DISCOVERY.fullmatch(call.path) is None else call
        # `_request`, as a flat row: a call of a reconcile must cost little. A function that is an attribute of an
        # object is called by a name of its own: as a method it would be looked up in the class first.
        clock, values, headers, path = self._clock, self._values, call.headers, call.path
        self._requests = number = self._requests + 1
        task.requests += 1
        self._paths.append(path)
        content_type = headers.get("content-type") or headers.get("Content-Type") or ""
        values += (_REQUEST, clock(), task.number, number, call.method, path, call.query, content_type, call.body)
        return number, task

    def end_call(
        self, begun: "tuple[int, TracedTask] | Call", outcome: Response | BaseException, is_plain: bool = False
    ) -> None:
        """Records the answer to a request."""
        if type(begun) is tuple:
            number, task = begun
            clock, values = self._clock, self._values
            task.requests -= 1
            if is_plain and type(outcome) is Response and outcome.stream is None:
                values += (_ANSWER, clock(), number, outcome.status, _NO_HEADERS, outcome.body)
            else:
                values += (_ANSWER, clock(), number, *_answer(outcome))
        elif isinstance(begun, Call) and isinstance(outcome, Response):
            accept = begun.headers.get("Accept", "") or begun.headers.get("accept", "")
            self._add(entries.Discovery(self._now(), begun.path, accept, outcome.status, outcome.body))

    async def discover(self, read: Callable[[], Awaitable[None]]) -> None:
        """Awaits a lookup of the REST mapper, whose requests are no part of the reconcile that needs it.

        A replay may know the kind already, or not yet: what other reconciles have looked up depends on the order. So
        the reconcile has, as after a mere yield, only a continuation in the recording.
        """
        task = current_task()
        if task is None:
            await read()
            return
        task.requests += 1
        CURRENT.set(None)
        try:
            await read()
        finally:
            CURRENT.set(task)
            task.requests -= 1
            self.resumed(task, None, None)

    def _request(
        self, task: TracedTask, method: str, path: str, rest: tuple[str, str, bytes]
    ) -> tuple[int, TracedTask]:
        self._requests = number = self._requests + 1
        task.requests += 1
        self._add(entries.Request(self._now(), task.number, number, method, path, *rest))
        return number, task

    # --- reconciles (Tracer) ----------------------------------------------------------------------------------------

    def follow(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Awaits the work of a worker; records each time that a reconcile of it goes on."""
        return follow(work, self.resumed)

    def begin(self, controller: str, key: str, request: Any, began: float) -> TracedTask | None:
        """Records that a reconcile begins."""
        if self.end_reason is not None:
            return None
        # Made without `__init__`, which would be one more call.
        task = _new(TracedTask)
        self._tasks = task.number = number = self._tasks + 1
        task.tracer, task.requests = self, 0
        _set_current(task)
        attempt = request.attempt if type(request) is Request else 0
        values = self._values
        values += (_BEGIN, began, number, controller, key, request.reasons, attempt, request.priority)
        if self._flush_timer is None:
            self._wake()
        return task

    def finished(self, task: TracedTask, record: Any) -> None:
        """Records the outcome of the worker's reconcile; a crash after that is none."""
        if task.requests < 0:
            return
        task.requests = ENDED
        _, result, action, error, seconds, _, _, waited, now = record
        text = None if error is None else f"{type(error).__name__}: {error}"
        values = self._values
        values += (_END, now, task.number, result, action.after, text, seconds, waited)
        if len(values) > PART_VALUES:
            self._turn()
        if self._flush_timer is None:
            self._wake()

    def value(self, task: TracedTask, name: str, make: Callable[[], Any]) -> Any:
        """Makes a value and records it."""
        found = make()
        self._add(entries.Value(self._now(), task.number, name, found))
        return found

    def event(self, task: TracedTask, about: str, reason: str, message: str, is_warning: bool) -> None:
        """Records that a Kubernetes Event was recorded."""
        self._add(entries.Event(self._now(), task.number, about, reason, message, is_warning))

    async def call(self, task: TracedTask, name: str, arguments: bytes, make: Callable[[], Awaitable[Any]]) -> Any:
        """Calls a client of the outside and records arguments and result."""
        begun = self._request(task, "CALL", name, ("", "", arguments))
        try:
            result = await make()
        except BaseException as error:
            self.end_call(begun, error)
            raise
        self.end_call(begun, Response(status=200, body=_encoded_result(name, result)), True)
        return result

    def resumed(self, task: TracedTask, waited_for: Any, error: BaseException | None) -> None:
        """Records that a task goes on; not called if it only goes on inside of a request."""
        clock, values = self._clock, self._values
        is_cancelled = error is not None and isinstance(error, asyncio.CancelledError)
        values += (_RESUME, clock(), task.number, waited_for is None, is_cancelled)
        if self._flush_timer is None:
            self._wake()

    # --- the event loop ---------------------------------------------------------------------------------------------

    def _attach(self) -> None:
        self._cluster.attach(self)
        for source in cluster_sources(self._cluster):
            self._add_snapshot(source.informer)
            self._add_unseen(source)
        for path, body in known_documents(self._cluster.client):
            self._add(entries.Discovery(self._now(), path, "", 200, body))
        client = self._cluster.client
        self._detach_client = [attach_tap(client, self), observe_writes(client, self._record_write)]
        self._previous_factory = self._loop.get_task_factory()
        self._loop.set_task_factory(self._create_task)

    def _detach(self) -> None:
        for timer in (self._timer, self._flush_timer):
            if timer is not None:
                timer.cancel()
        self._cluster.attach(None)
        for detach in self._detach_client:
            detach()
        if self._loop.get_task_factory() == self._create_task:
            self._loop.set_task_factory(self._previous_factory)

    def _create_task(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        task = CURRENT.get()
        if task is not None and not task.requests and self.end_reason is None:
            child = self._new_task()
            self._add(entries.Spawn(self._now(), task.number, child.number))
            coro = TracedCoroutine(coro, child, self.resumed)
        if self._previous_factory is not None:
            return self._previous_factory(loop, coro, **options)
        return asyncio.Task(coro, loop=loop, **options)

    def _new_task(self) -> TracedTask:
        self._tasks += 1
        return TracedTask(self._tasks, self)

    def _now(self) -> int:
        return int((self._clock() - self._began) * 1e6)

    def _add(self, entry: Entry) -> None:
        self._values.append(entry)
        if isinstance(entry, entries.Request):
            self._paths.append(entry.path)
        elif isinstance(entry, entries.ScopeEntry):
            self._paths.append(f"/{entry.kind.lower()}")

    def _turn(self) -> None:
        """Hands the entries over to the writer; has them written at once if there are many."""
        writer = self._writer
        if writer is None:
            return
        if self._values:
            writer.put(self._values, self._paths)
            self._values, self._paths = [], []
        if writer.end_reason is not None and self.end_reason is None:
            self._loop.call_soon(self.end, writer.end_reason)
        if len(writer.pending) > _MANY and self._writing is None:
            self._write(writer)

    def _wake(self) -> None:
        """Has the entries written after a period."""
        if self._writer is not None:
            self._flush_timer = self._loop.call_later(_PERIOD, self._flush)

    def _flush(self) -> None:
        self._flush_timer = None
        if self._values:
            self._wake()  # a request that is under way may be answered before anything else happens
        self._turn()
        if self._writer is not None:
            self._writer.seal()
            if self._writer.pending and self._writing is None:
                self._write(self._writer)

    def _write(self, writer: RecordingWriter) -> None:
        self._writing = self._loop.run_in_executor(None, writer.write_pending)
        self._writing.add_done_callback(self._note_written)

    def _note_written(self, _: "asyncio.Future[None]") -> None:
        self._writing = None
        if self._writer is not None and self._writer.end_reason is not None:
            self.end(self._writer.end_reason)
        elif self._writer is not None and self._writer.pending and self._flush_timer is None:
            self._wake()


def _installed_version() -> str:
    # Loaded late: the reader of metadata takes longer to load than this package.
    found: str = import_module("importlib.metadata").version("levelset")
    return found


class _Nothing(list[Any]):
    """A list that stays empty."""

    def append(self, _: Any, /) -> None:
        """Drops what is given."""

    def __iadd__(self, _: Any, /) -> Self:  # type: ignore[misc]  # values of any type
        return self


def _event(event: Any) -> tuple[int, bytes]:
    code = _CODES.get(event.__class__)
    if code is None:
        return 2, event.resource_version.encode()
    return code, event.item.cached.raw if code else b""


def _answer(outcome: Response | BaseException) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an answer entry."""
    if isinstance(outcome, Response):
        if outcome.stream is not None:
            return outcome.status, {"stream": "yes"}, b""
        find, headers = outcome.headers.find, dict[str, str]()
        for name in _HEADERS if outcome.status >= 300 else _HEADERS[:1]:
            found = find(name)
            if found is not None:
                headers[name] = found
        return outcome.status, headers, outcome.body
    simple: Iterable[tuple[str, Any]] = vars(outcome).items() if hasattr(outcome, "__dict__") else ()
    attributes = {name: value for name, value in simple if isinstance(value, str | int | float | bool | None)}
    kind = type(outcome)
    tree = {"module": kind.__module__, "type": kind.__name__, "message": str(outcome), "attributes": attributes}
    return 0, {}, msgspec.json.encode(tree)


def _encoded_result(name: str, result: Any) -> bytes:
    try:
        return msgspec.json.encode(result)
    except TypeError as error:
        raise ConfigError(
            f"{name} returned {type(result).__name__}, which cannot be recorded: return numbers, texts, lists, maps, "
            f"dataclasses or structs ({error})"
        ) from error
