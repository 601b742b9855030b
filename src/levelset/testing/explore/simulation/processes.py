"""The processes of a run and the recording of what they do.

- `ProcessSlot` restarts its process after each crash, and is the wire hook that injects disturbances.
- `ChangeRecorder` listens to the server: records every change with its process and call, and checks the invariants.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, cast

from levelset.aio import timing
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.client.transport.interface import Call, Hook, Response, Send
from levelset.errors import LeaseLost
from levelset.objects import codec
from levelset.testing import faults
from levelset.testing.call_info import BOOKKEEPING_KINDS, call_info, is_write
from levelset.testing.environment import Process
from levelset.testing.explore.faults.environment_faults import Outage, Overlap, PagedList, Pause
from levelset.testing.explore.faults.plan import (
    CrashAfter,
    CrashBefore,
    Disturbance,
    Downtime,
    Slow,
    StaleRestart,
    StepName,
    Takeover,
)
from levelset.testing.explore.judging.invariants import InvariantChecker
from levelset.testing.explore.outside_world import GeneratedIds, OutsideErrors
from levelset.testing.explore.records.normalize import StateCoverage
from levelset.testing.explore.records.run_result import Change, EndedProcess
from levelset.testing.explore.records.stored_state import Key, State, Tree
from levelset.testing.explore.simulation.fault_injector import CUT_OFF, FaultInjector, apply_fault
from levelset.testing.explore.simulation.trace_recorder import ACTING, CAUSE, GENERATED, LEASE, Recording, is_ignored

__all__ = ["ChangeRecorder", "ProcessOutside", "ProcessSlot", "RunContext", "UserOutsideCaller", "UserTransportHook"]

_IGNORED_KINDS: Final = BOOKKEEPING_KINDS | {("apiextensions.k8s.io", "CustomResourceDefinition")}
"""Kinds whose changes are not recorded: bookkeeping, and CRDs that are installed on first use."""


@dataclass(eq=False)
class ChangeRecorder:
    """A listener of the server; `on_change` is called with each change's kind, number within the kind and revision."""

    recording: Recording
    state: State
    checker: InvariantChecker
    revision: Callable[[], int]
    now: Callable[[], float]
    on_change: Callable[[str, int, int], None]
    changes: list[Change] = field(default_factory=list[Change])
    uids: dict[str, Key] = field(default_factory=dict[str, Key])
    """The uids of all objects that ever existed."""
    made: Counter[StepName] = field(default_factory=Counter[StepName])
    """The number of revisions that each call has created."""
    holder: str = ""
    coverage: StateCoverage = field(default_factory=StateCoverage)
    _numbers: Counter[str] = field(default_factory=Counter[str])

    def __call__(self, served: ServedResource, before: Tree | None, after: Tree | None) -> None:
        """Records a committed write."""
        if (served.group, served.kind) in _IGNORED_KINDS:
            if served.kind == "Lease" and after is not None and after["metadata"]["name"] == LEASE:
                spec: Tree = after.get("spec") or {}
                self.holder = spec.get("holderIdentity") or ""
            return
        change = self._record_change(served, before, after)
        self._numbers[change.kind] += 1
        self.on_change(change.kind, self._numbers[change.kind], change.revision)
        self.checker.check(change)

    def check_now(self) -> None:
        """Checks the invariants without a change of an object: the outside has changed, or time has passed."""
        self.state.at = self.now()
        steps = self.recording.trace.steps
        self.checker.check(None, steps[-1].name if steps else None)

    def _record_change(self, served: ServedResource, before: Tree | None, after: Tree | None) -> Change:
        tree: Any = before if after is None else after
        metadata = tree["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        key: Key = served.group, served.kind, namespace, name
        prefix = metadata.get("generateName", "")
        if prefix and before is None:
            self.recording.note_generated(served.kind, namespace, name, prefix)
        process, by = ACTING.get() or ("server", None)
        if by is not None:
            self.made[by] += 1
        cause = CAUSE.get()
        change = Change(
            revision=self.revision(),
            at=self.now(),
            key=key,
            before=_uid(before),
            after=_uid(after),
            prefix=prefix,
            process=process,
            by=by,
            holder=self.holder,
            controller="" if cause is None or by is None else cause.controller,
            content=_content(tree) if prefix else "",
            is_deleting=after is not None and "deletionTimestamp" in metadata,
            tree=after,
        )
        self.changes.append(change)
        self.uids[metadata.get("uid", "")] = key
        self.state.revision, self.state.at = change.revision, change.at
        self.state.put(key, after)
        self.coverage.note(key, after, prefix)
        return change


def _content(tree: Tree) -> str:
    return codec.encode_tree({name: tree[name] for name in sorted(tree) if name not in {"metadata", "status"}}).decode()


def _uid(tree: Tree | None) -> str | None:
    return None if tree is None else tree["metadata"].get("uid", "")


_CRASHES: Final = (Downtime, CrashAfter, StaleRestart)
"""After a call with one of these the process ends, however the call ended."""
_OFTEN: Final = 10
_PACE: Final = 0.05
_SLOWEST: Final = 0.5
"""The same call takes longer each time after ten times, up to half a second."""
_MOST_ENDED: Final = 3
"""How often a process may end by itself before it is not restarted any more."""
_DOWN: Final = 1.0
"""The seconds until a new process starts after a crash."""


class RunContext(Protocol):
    """What the process slots and the user of a run share."""

    recording: Recording
    recorder: ChangeRecorder
    injector: FaultInjector
    outside_ids: GeneratedIds

    @property
    def outside_errors(self) -> OutsideErrors:
        """What calls to the outside raise if they fail."""
        ...

    def count(self, name: StepName) -> bool:
        """Counts a step; returns whether it happened far too often, so that the run is stopped."""
        ...

    async def reach(self, moment: StepName) -> None:
        """Lets other writers act at this moment."""
        ...

    def overlap(self, old: "ProcessSlot", found: Overlap) -> None:
        """Starts a second process, and ends the first one later."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Runs a task until the end of the run."""
        ...


@dataclass(frozen=True)
class _StaleView:
    """Caches see the state of this revision until some time."""

    revision: int
    until: float
    hook: Hook


class ProcessOutside:
    """The caller of the outside for one process of a slot: names, records and disturbs its calls."""

    def __init__(self, slot: "ProcessSlot", process_name: str, is_dead: Callable[[], bool]) -> None:
        self._slot = slot
        self._process_name = process_name
        self._is_dead = is_dead
        self.outside_errors = slot.context.outside_errors
        self.outside_ids = slot.context.outside_ids

    @property
    def is_dead(self) -> bool:
        """Whether the process has crashed."""
        return self._is_dead()

    def begin_outside(self, action: str) -> tuple[StepName, Disturbance | None] | None:
        """Names the call and takes its disturbance; None if it is not made in a reconcile."""
        if CAUSE.get() is None:
            return None
        context = self._slot.context
        name = context.recording.name(action)
        found = context.injector.take(name)
        if isinstance(found, Outage):
            context.injector.start_outage(found, context.recorder.revision())
        return name, context.injector.outside_outage() if found is None else found

    def end_outside(self, name: StepName, outcome: str, found: Disturbance | None) -> None:
        """Records the call."""
        disturbance = "" if found is None else found.id
        self._slot.context.recording.add(
            self._process_name, "call", name, cause=CAUSE.get(), outcome=outcome, disturbance=disturbance
        )
        self._slot.context.recorder.check_now()

    def pause_outside(self, name: StepName, found: Pause, call: Callable[[], Awaitable[object]]) -> None:
        """Pauses the process at this call, which is made when the pause is over and another process leads."""
        self._slot.pause(found)
        self.end_outside(name, "paused", found)

        async def call_late() -> None:
            await timing.sleep(found.seconds)
            outcome = "done"
            try:
                await call()
            except Exception as error:  # noqa: BLE001 -- its caller is gone
                outcome = type(error).__name__
            self.end_outside(name, outcome, found)

        self._slot.context.spawn(call_late(), f"late call of {self._process_name}")

    def crash_outside(self, name: StepName, found: Disturbance) -> None:
        """Crashes the process at this call."""
        if isinstance(found, CrashBefore):
            self.end_outside(name, "-", found)
        self._slot.crash_at(name, found)

    def shown_text(self, text: str) -> str:
        """A text without generated names."""
        return _without_generated_names(self._slot.context, text)


class UserTransportHook:
    """The wire hook of the user: records the calls of the scenario as steps; they are never disturbed."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    async def __call__(self, call: Call, send: Send) -> Response:
        """Sends and records the call."""
        if is_ignored(call_info(call)):
            return await send(call)
        name = self._context.recording.name_call(call, by="user")
        if is_write(call):
            await self._context.reach(name[0])
        return await _recorded(self._context, _NamedCall("user", "user", call, *name), send)


class UserOutsideCaller:
    """The user as a caller of the outside: the calls of the scenario are steps; they are never disturbed."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self.is_dead = False
        self.outside_ids = context.outside_ids
        self.outside_errors: OutsideErrors = ()

    def begin_outside(self, action: str) -> tuple[StepName, None]:
        """Names the call."""
        return self._context.recording.name(f"{action} by user"), None

    def end_outside(self, name: StepName, outcome: str, found: Disturbance | None) -> None:
        """Records the call."""
        assert found is None
        self._context.recording.add("user", "user", name, outcome=outcome)
        self._context.recorder.check_now()

    def pause_outside(self, name: StepName, found: Pause, call: Callable[[], Awaitable[object]]) -> None:
        """Never called: nothing is disturbed."""
        raise NotImplementedError(name)

    def crash_outside(self, name: StepName, found: Disturbance) -> None:
        """Never called, likewise."""
        raise NotImplementedError(name)

    def shown_text(self, text: str) -> str:
        """A text without generated names."""
        return _without_generated_names(self._context, text)


def _without_generated_names(context: RunContext, text: str) -> str:
    for made, prefix in context.recording.generated.items():
        text = text.replace(made, f"{prefix}{GENERATED}")
    return text


class ProcessSlot:
    """Runs one process after the other; it is also the wire hook of the current one."""

    def __init__(self, name: str, context: RunContext, make: Callable[["ProcessSlot"], Process]) -> None:
        self.name = name
        self.number = 0
        self.up = asyncio.Event()
        """Set while a process runs."""
        self.ended: list[EndedProcess] = []
        self._context = self.context = context
        self._make = make
        self._process: Process | None = None
        self._killing: asyncio.Task[None] | None = None
        self._stale: _StaleView | None = None
        self._cut_until = 0.0
        self._paging: PagedList | None = None
        self._down = _DOWN
        self.is_away = False
        """Whether the next process starts only after a downtime."""
        self.is_slow = False
        """Whether a call is delayed at the moment."""
        self.is_beside = False
        """Whether it runs beside an older process."""
        self.is_retired = False
        """Whether another slot has replaced this one."""

    @property
    def process_name(self) -> str:
        """The name of the current process, such as `a.2`."""
        return f"{self.name}.{self.number}"

    async def run(self) -> None:
        """Restarts the process whenever it ends; until cancelled, or until too many have ended by themselves."""
        recording = self._context.recording
        while len(self.ended) < _MOST_ENDED and not self.is_retired:
            self.number += 1
            self._process = process = self._make(self)
            recording.add(self.process_name, "start", StepName(f"start {self.name}", self.number))
            await process.start()
            self.up.set()
            self.is_away, self._down = False, _DOWN
            await process.wait_ended()
            self.up.clear()
            if self._killing is not None:
                await self._killing
                self._killing = None
            elif process.error is not None and not _is_lost_lease(process.error):
                self.ended.append(EndedProcess(self.process_name, process.error))
            await asyncio.sleep(self._down)

    async def end(self) -> None:
        """Kills the current process."""
        if self._process is not None:
            await self._process.kill()

    async def __call__(self, call: Call, send: Send) -> Response:
        """Sends a call of this process, or applies the disturbance that the plan has for it."""
        context, what = self._context, call_info(call)
        if timing.now() < self._cut_until:
            return await faults.drop_request(call, send)
        if (hook := context.injector.outage_of(call, is_in_reconcile=CAUSE.get() is not None)) is not None:
            return await self._fail(call, hook, send)
        if is_ignored(what):
            return await send(call)
        # Requests of a reconcile itself get the newest state: only caches may be stale.
        if self._stale is not None and what.verb in {"list", "watch"} and CAUSE.get() is None:
            send = self._send_stale(self._stale, send)
        name, alias = context.recording.name_call(call)
        if context.count(name):
            return await faults.hang(call, send)
        await _slow_down(name)
        sent = _NamedCall(self.process_name, "call", call, name, alias)
        found = context.injector.take(name)
        if isinstance(found, PagedList):
            self._paging = found
        elif found is None and self._paging is not None and name.action == self._paging.at.action:
            found = self._paging if "continue=" in call.query else None
        return await (_recorded(context, sent, send) if found is None else self._disturbed(found, sent, send))

    async def _fail(self, call: Call, hook: Hook, send: Send) -> Response:
        """A call during an outage; those of reconciles are recorded."""
        if CAUSE.get() is None or is_ignored(call_info(call)):
            return await hook(call, send)
        name, alias = self._context.recording.name_call(call)
        if self._context.count(name):
            return await faults.hang(call, send)

        async def failing(call: Call) -> Response:
            return await hook(call, send)

        sent = _NamedCall(self.process_name, "call", call, name, alias)
        found = self._context.injector.take(name)
        if found is not None:
            return await self._disturbed(found, sent, failing)
        return await _recorded(self._context, sent, failing)

    async def retire(self) -> None:
        """Kills the process for good: its successor runs already."""
        self.is_retired = True
        self._context.recording.add(self.process_name, "crash", StepName(f"retire {self.name}"))
        await self.end()

    def is_over(self, at: StepName, point: int) -> bool:
        """Called at each await and at the end of a reconcile; returns whether the process crashes there."""
        found = self._context.injector.take_point(at, point)
        if found is None:
            return False
        self._context.recording.add(self.process_name, "disturb", at, disturbance=found.id)
        self._crash(at)
        return True

    async def _disturbed(self, found: Disturbance, sent: "_NamedCall", send: Send) -> Response:
        if isinstance(found, CrashBefore | Takeover):
            _record(self._context, sent, outcome="-", disturbance=found.id)
            if isinstance(found, Takeover):
                self._cut_until = timing.now() + CUT_OFF
                return await faults.drop_request(sent.call, send)
            self._crash(sent.name)
            return await faults.hang(sent.call, send)

        if isinstance(found, Pause):
            return await self._pause(found, sent, send)
        if isinstance(found, Outage):
            return await self._begin_outage(found, sent, send)
        if isinstance(found, Overlap):
            self._context.overlap(self, found)

        async def through(call: Call) -> Response:
            return await apply_fault(found, call, send)

        self.is_slow = isinstance(found, Slow)
        try:
            response = await _recorded(self._context, sent, through, disturbance=found.id)
            if not isinstance(found, _CRASHES):
                return response
        except Exception:  # the call fails in an outage
            if not isinstance(found, _CRASHES):
                raise
        finally:
            self.is_slow = False
        self.crash_at(sent.name, found)
        return await faults.hang(sent.call, send)

    async def _begin_outage(self, found: Outage, sent: "_NamedCall", send: Send) -> Response:
        injector = self._context.injector
        injector.start_outage(found, self._context.recorder.revision())
        hook = injector.outage_of(sent.call, is_in_reconcile=CAUSE.get() is not None)

        async def through(call: Call) -> Response:
            return await (send(call) if hook is None else hook(call, send))

        return await _recorded(self._context, sent, through, disturbance=found.id)

    async def _pause(self, found: Pause, sent: "_NamedCall", send: Send) -> Response:
        """Nothing is sent until the pause is over; then the call is, although another process leads by then."""
        self.pause(found)
        _record(self._context, sent, outcome="paused", disturbance=found.id)

        async def send_late() -> None:
            await timing.sleep(found.seconds)
            with suppress(Exception):  # its caller is gone
                await _recorded(self._context, sent, send, disturbance=found.id)

        self._context.spawn(send_late(), f"late call of {self.process_name}")
        return await faults.hang(sent.call, send)

    def pause(self, found: Pause) -> None:
        """Cuts the process off until the pause is over."""
        self._cut_until = timing.now() + found.seconds

    def crash_at(self, at: StepName, found: Disturbance) -> None:
        """Crashes the process at a call."""
        if isinstance(found, StaleRestart):
            self._start_stale(found)
        if isinstance(found, Downtime):
            self.is_away, self._down = True, found.seconds
        self._crash(at)

    def _start_stale(self, found: StaleRestart) -> None:
        changes = self._context.recorder.changes
        back = min(found.back, len(changes))
        if back == 0:
            return
        revision, seconds = changes[-back].revision - 1, found.seconds + _DOWN
        self._stale = _StaleView(revision, timing.now() + seconds, faults.list_older_revision(revision))
        self._context.injector.hold_back_all(revision, seconds)

    def _send_stale(self, older: _StaleView, send: Send) -> Send:
        async def sending(call: Call) -> Response:
            if timing.now() >= older.until:
                self._stale = None
                return await send(call)
            return await older.hook(call, send)

        return sending

    def _crash(self, at: StepName) -> None:
        process = self._process
        assert process is not None, "a call comes from a running process"
        self.up.clear()
        process.wire.is_cut = True
        self._context.recording.add(self.process_name, "crash", at)
        self._killing = asyncio.get_running_loop().create_task(process.kill(), name=f"kill {self.process_name}")


async def _slow_down(name: StepName) -> None:
    """Delays a call that is repeated very often.

    Virtual time does not advance by itself. A controller that recreates what the server deletes at once while its cache
    is stale would loop for ever in the same instant; the delay lets the cache catch up.
    """
    if name.number > _OFTEN and CAUSE.get() is not None:
        await timing.sleep(min(_PACE * (name.number - _OFTEN), _SLOWEST))


@dataclass(frozen=True, slots=True)
class _NamedCall:
    """A call, its step name and the process that sends it."""

    process_name: str
    act: Literal["call", "user"]
    call: Call
    name: StepName
    alias: str


async def _recorded(context: RunContext, sent: _NamedCall, send: Send, *, disturbance: str = "") -> Response:
    """Sends a call and records its outcome."""
    token = ACTING.set((sent.process_name, sent.name))
    outcome = "cancelled"
    try:
        response = await send(sent.call)
        outcome = str(response.status)
        context.recording.note_overridden(sent.name, sent.call, response)
    except Exception as error:
        outcome = type(error).__name__
        raise
    finally:
        ACTING.reset(token)
        _record(context, sent, outcome=outcome, disturbance=disturbance)
    return response


def _record(context: RunContext, sent: _NamedCall, *, outcome: str, disturbance: str) -> None:
    context.recording.add(
        sent.process_name,
        sent.act,
        sent.name,
        cause=CAUSE.get(),
        alias=sent.alias,
        is_write=is_write(sent.call),
        outcome=outcome,
        made=context.recorder.made[sent.name],
        disturbance=disturbance,
    )


def _is_lost_lease(error: BaseException) -> bool:
    """Whether the process ended because it lost its Lease, which is correct."""
    if isinstance(error, BaseExceptionGroup):
        nested: Sequence[BaseException] = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return any(map(_is_lost_lease, nested))
    return isinstance(error, LeaseLost)
