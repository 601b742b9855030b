"""Runs a scenario once, with the disturbances of a plan, in virtual time on its own event loop."""

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from inspect import isawaitable
from string import ascii_lowercase
from typing import Any, Final, TypeVar

from levelset.aio import timing
from levelset.client.client import Client, open_transport
from levelset.client.object_types import view_of
from levelset.errors import ConfigError
from levelset.garbage_collection import paused
from levelset.objects.ref import Ref
from levelset.runtime.controller.controller import Controller
from levelset.runtime.manager.crd_install import kinds_of
from levelset.runtime.manager.leader_election import LeaderElection
from levelset.runtime.manager.sharding import Sharding
from levelset.runtime.webhook.webhook_set import Webhooks
from levelset.testing.cluster import Cluster, open_cluster
from levelset.testing.embedded_server import CustomResourceDefinition
from levelset.testing.environment import Process, Wire
from levelset.testing.explore.exploration import Exploration
from levelset.testing.explore.faults.disturbance import SCENARIO_END
from levelset.testing.explore.faults.environment_faults import (
    ObjectTouched,
    Outage,
    Overlap,
    SlowGarbageCollection,
    SpecChanged,
    ThirdParty,
)
from levelset.testing.explore.faults.plan import Plan, StepName
from levelset.testing.explore.judging.invariants import InvariantChecker
from levelset.testing.explore.judging.judge import Mask, differences
from levelset.testing.explore.outside_world import (
    GeneratedIds,
    OutsideCaller,
    OutsideErrors,
    describe_outside,
    wrap_outside,
)
from levelset.testing.explore.records.call_sites import static_call_sites
from levelset.testing.explore.records.normalize import NormalizedState, find_locations, normalise, text_normalizer
from levelset.testing.explore.records.run_result import EndedProcess, Run, StartingState
from levelset.testing.explore.records.stored_state import State, Tree
from levelset.testing.explore.simulation.due_timers import next_due
from levelset.testing.explore.simulation.fault_injector import FaultInjector
from levelset.testing.explore.simulation.operations import user_tree
from levelset.testing.explore.simulation.processes import (
    ChangeRecorder,
    ProcessOutside,
    ProcessSlot,
    UserOutsideCaller,
    UserTransportHook,
)
from levelset.testing.explore.simulation.starting_state import capture_start, continue_from, storage_of
from levelset.testing.explore.simulation.third_parties import OTHER, ThirdParties, delay_garbage_collection
from levelset.testing.explore.simulation.trace_recorder import (
    GENERATED,
    LEASE,
    RECONCILE_FUNCTIONS,
    ReconcileObserver,
    Recording,
    with_crash_points,
)
from levelset.testing.quiescence import wait_settled
from levelset.testing.reconcile_failures import AllowedErrors
from levelset.testing.virtual_time import HotLoop, Stuck, run
from levelset.testing.watch_control import WatchControl, WatchedEvent

__all__ = ["logging_disabled", "play"]

K = TypeVar("K")

_PATIENCE: Final = 12.0
"""Seconds the scenario waits for the controllers to settle: longer than the backoff of a failed reconcile."""
_HURRY: Final = 1.0
"""Seconds the scenario waits while events are held back: it continues before they are delivered."""
_LONGEST: Final = 120.0
"""Seconds a disturbance may last after the scenario."""
_SOON: Final = 6.0
_QUIET: Final = 20.0
"""Seconds after the end in which there must not be more changes than undisturbed."""
_FIRST_CHECKS: Final = (0.0, 10.0)
_CHECKS: Final = (60.0, 300.0)
"""When the end state is checked, in seconds after the scenario; finally after the exploration's `within`."""
_BESIDE: Final = 0.5
"""Seconds by which the second of two overlapping processes acts later."""
_ELECTED: Final = 3600.0
_MOST_ROUNDS: Final = 400
_MOST_IDLE: Final = 150
"""A run is followed for at most so many due times, and so many in which nothing changes."""
_BACKOFF: Final = 1000.0
"""Seconds after an outage until the last retry, by the backoff of failed reconciles."""
_STATEMENTS: Final = 5.0
"""Seconds after which it is checked whether all statements have come true."""
_LIMIT: Final = 7 * 86400.0
_MAX_CALLS: Final = 200.0
_MAX_RECONCILES: Final = 1000.0
_CALLS_PER_SECOND: Final = 1.0
_RECONCILES_PER_SECOND: Final = 5.0
"""A write, or a read or reconcile, that is repeated more often than the base number plus the rate times the duration of
the run is an endless loop. Repeated calls are slowed down to two per second."""
_READS: Final = frozenset({"get", "list", "reconcile", "watch"})
_NO_LOG: Final = logging.CRITICAL + 1
_NOTHING: Final = Plan()
_NO_MASK: Final = Mask()


def play(
    exploration: Exploration,
    plan: Plan = _NOTHING,
    *,
    seed: int = 1,
    baseline: Run | None = None,
    mask: Mask = _NO_MASK,
    is_long: bool = False,
    start: StartingState | None = None,
) -> Run:
    """Runs the scenario with the disturbances of a plan; stops as soon as the end state of the baseline is reached.

    Without a baseline it stops after half a minute; with `is_long`, after the exploration's `within`. `start` is that
    of an earlier run with the same seed, which saves the preparation of the server.
    """
    _refuse_inside_a_loop()
    made = Run(plan, seed, is_long=is_long, start=start)
    with logging_disabled(), _gc_disabled():
        _simulate(_Simulation(exploration, made, baseline, mask, is_long))
    return made


def _simulate(simulation: "_Simulation") -> None:
    made = simulation.run
    try:
        run(simulation.play(), limit=_LIMIT)
    except Stuck as error:
        made.error = made.error or error
    except HotLoop as error:
        made.hot_loop = str(error)
        simulation.fill_result()


def _refuse_inside_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigError("the explorer runs its own event loops: call it from a plain function, such as `def test_...`")


@dataclass(eq=False)
class _NewControllers:
    """The controllers of a process that does not run yet, and the caller of their outside once it does."""

    controllers: Sequence[Controller[Any]]
    callers: list[OutsideCaller]


@dataclass(eq=False)
class _Simulation:
    """One run: the cluster, the user, the process slots and the recording."""

    exploration: Exploration
    run: Run
    baseline: Run | None
    mask: Mask
    is_long: bool = False
    slots: list[ProcessSlot] = field(default_factory=list[ProcessSlot])
    is_over: bool = False
    recording: Recording = field(init=False)
    recorder: ChangeRecorder = field(init=False)
    injector: FaultInjector = field(init=False)
    cluster: Cluster = field(init=False)
    outside_ids: GeneratedIds = field(default_factory=GeneratedIds)
    _outside: Any = None
    _first: "_NewControllers | None" = None
    _scenario_end: float = 0.0
    """The controllers that were created to read their kinds; the first process uses them."""
    _others: ThirdParties = field(init=False)
    _schemas: "Mapping[tuple[str, str], Tree]" = field(default_factory=dict[tuple[str, str], Tree])
    _living: "dict[ProcessSlot, asyncio.Task[None]]" = field(default_factory=dict[ProcessSlot, "asyncio.Task[None]"])
    """All process slots, also retired ones, with their tasks."""
    _tasks: "list[asyncio.Task[None]]" = field(default_factory=list["asyncio.Task[None]"])
    _watches: WatchControl = field(default_factory=WatchControl)
    _script: "asyncio.Task[None] | None" = None
    _stored: "tuple[int, Mapping[str, str], NormalizedState] | None" = None
    """The last end state of the stored objects, and the changes and ids after which it was."""

    async def play(self) -> None:
        """Runs the scenario and fills the result."""
        if self.baseline is not None:
            asyncio.get_running_loop().set_exception_handler(_ignore_lost_errors)
        storage = None if self.run.start is None else storage_of(self.run.start)
        async with open_cluster(seed=self.run.seed, storage=storage) as self.cluster:
            await self._prepare()
            for one in self.slots:
                self._run_slot(one)
            ticking = asyncio.create_task(self._check_in_time(), name="invariants in time")
            try:
                self._script = asyncio.create_task(self._run_scenario(), name="scenario")
                await asyncio.wait([self._script])
                self._note_reconciles()
            finally:
                ticking.cancel()
                await self._tear_down()
        self.fill_result()

    @property
    def outside_errors(self) -> OutsideErrors:
        """What calls to the outside raise if they fail."""
        return self.exploration.outside_errors

    def _note_reconciles(self) -> None:
        alive = {one.process_name for one in self.slots if one.up.is_set()}
        if self.baseline is None:  # an error holds the frames that it came through, and with them the whole run
            self.run.failing = dict(self.recording.failing)
            self.run.failures = tuple(self.recording.failures)
        self.run.unfinished = [at for at, who in self.recording.open.items() if who in alive]

    def count(self, name: StepName) -> bool:
        """Counts a step; returns whether it happened far too often, so that the run is stopped."""
        seconds = self.recording.now()
        is_read = name.verb in _READS
        most = (
            _MAX_RECONCILES + _RECONCILES_PER_SECOND * seconds if is_read else _MAX_CALLS + _CALLS_PER_SECOND * seconds
        )
        if name.number > most and not self.is_over:
            self.is_over, self.run.endless = True, name
            assert self._script is not None
            self._script.cancel()
        return self.is_over

    async def _prepare(self) -> None:
        cluster, exploration = self.cluster, self.exploration
        loop, storage = asyncio.get_running_loop(), cluster.storage
        self._outside = exploration.make_outside()
        self.recording = Recording(loop.time, lambda: storage.revision)
        self.injector = FaultInjector(self.run.plan, self._watches)
        state = State(self._outside)
        self.recorder = ChangeRecorder(
            self.recording,
            state,
            InvariantChecker(exploration.invariants, state, within=exploration.within),
            lambda: storage.revision,
            loop.time,
            self._note_change,
        )
        self._first = self._make_controllers()
        first = self._first.controllers
        if self.baseline is None:
            self.recording.awaits = {}
            functions = [getattr(one, name, None) for one in first for name in RECONCILE_FUNCTIONS]
            self.run.call_sites = static_call_sites(filter(None, functions))
        self.run.controllers = tuple(one.name for one in first)
        self.run.leading = frozenset(one.name for one in first if one.leader_only and exploration.leader)
        self.run.sharing = frozenset(one.name for one in first if one.leader_only and exploration.shards)
        hooked = self.injector.with_failure_policies(Webhooks(exploration.webhooks))
        self.recording.has_webhooks = bool(hooked.kinds)
        # Kinds of webhooks come first: of several versions the hub is the stored one.
        wanted = [*map(view_of, hooked.kinds), *kinds_of(first), *map(view_of, exploration.kinds)]
        await cluster.environment.define(wanted)
        if self.run.start is None:
            self.run.start = capture_start(cluster)
        else:
            continue_from(self.run.start, cluster)
        assert cluster.environment.embedded is not None
        server = cluster.environment.embedded.server
        hooked.attach(server, client=cluster)
        server.state.listeners.append(self.recorder)
        self._others = ThirdParties(
            await Client.connect(server, namespace=cluster.namespace, manager=OTHER),
            self.recorder,
            self.recording,
            cluster.namespace,
        )
        self.run.namespace, self.run.outside_before = cluster.namespace, self._describe_outside()
        for one in self.run.plan:
            if isinstance(one, SlowGarbageCollection):
                delay_garbage_collection(server, one.seconds)
        self._schemas = await self._spec_schemas() if self.baseline is None else {}
        names = ascii_lowercase[: exploration.shards] or ("ab" if exploration.leader else "a")
        self.slots = [ProcessSlot(name, self, self._make_process) for name in names]

    async def _spec_schemas(self) -> dict[tuple[str, str], Tree]:
        """The schemas of the specs of custom kinds, by group and kind."""
        found: dict[tuple[str, str], Tree] = {}
        for definition in await self.cluster.environment.control.list(CustomResourceDefinition):
            spec = definition.spec
            schema = spec["versions"][-1].get("schema", {}).get("openAPIV3Schema", {})
            found[spec["group"], spec["names"]["kind"]] = schema.get("properties", {}).get("spec") or {}
        return found

    def _note_change(self, kind: str, number: int, revision: int) -> None:
        for one in self.injector.notice_change(kind, number, revision):
            self.recording.add("server", "disturb", self.recording.name(f"change {kind}"), disturbance=one.id)

    def _make_controllers(self) -> "_NewControllers":
        callers: list[OutsideCaller] = []
        outside = wrap_outside(self._outside, lambda: callers[0] if callers else None)
        return _NewControllers(self.exploration.make_controllers(outside), callers)

    def _make_process(self, slot: ProcessSlot) -> Process:
        process_name = slot.process_name
        fresh, self._first = self._first or self._make_controllers(), None
        made = with_crash_points(fresh.controllers, slot.is_over, self.injector.delay(), self.injector.is_preempted)
        if slot.is_beside:
            # The old process acts first: that two act in the same instant only leader election can prevent.
            for one in made:
                object.__setattr__(one, "debounce", max(one.debounce, _BESIDE))
        leader = LeaderElection(name=LEASE, identity=process_name) if self.exploration.leader else None
        wire = Wire()
        fresh.callers.append(ProcessOutside(slot, process_name, lambda: wire.is_cut))

        def record_event(event: WatchedEvent) -> None:
            if not wire.is_cut:  # a killed process sees no events
                self.recording.add_event(process_name, event)

        process = self.cluster.process(
            *made,
            faults=[slot, *self.injector.wire_hooks(), self._watches.observed_by(record_event)],
            leader=leader,
            shards=Sharding(name=LEASE, identity=process_name) if self.exploration.shards else None,
            name=process_name,
            observers=[ReconcileObserver(self.recording, process_name, self.count, lambda: wire.is_cut)],
            grace=0.0,
        )
        process.wire = wire
        process.options = {**process.options, "now": self.injector.clock(self.cluster.environment.now)}
        return process

    async def reach(self, moment: StepName) -> None:
        """Lets other writers act at this moment; in an undisturbed run, notes what they could change."""
        if self.baseline is None:
            watched = {one.kind for one in self.recording.trace if one.act == "event"}
            self.run.targets += self._others.targets(moment, watched)
        for one in self.injector.take_moment(moment):
            if await self._others.act(one, moment):
                self.injector.note(one)
                await self.wait_quiet()
                if isinstance(one, ObjectTouched) or (isinstance(one, SpecChanged) and one.back):
                    await self._others.restore(moment)
                    await self.wait_quiet()
        if moment == SCENARIO_END:
            self.run.user_objects = [user_tree(one) for one in self._others.user_objects().values()]
            if self.baseline is None:
                self.run.operations = tuple(self._others.operations(self._schemas))

    async def _check_in_time(self) -> None:
        """Checks the invariants each time the clock has advanced, when everything that was due then is done."""
        loop = self.cluster.environment.loop
        assert loop is not None, "explorations run in virtual time"
        while self.recorder.checker.has_any:
            await loop.jump(loop.time() + _LIMIT)
            await loop.idle()
            self.recorder.check_now()

    async def _run_scenario(self) -> None:
        """Runs the scenario, then waits for the end state."""
        transport, namespace = await open_transport(self.cluster.environment.target)
        del namespace
        user = _Cluster(
            transport, self.cluster.environment, namespace=self.cluster.namespace, wire_hooks=[UserTransportHook(self)]
        )
        user.simulation = self
        outside: OutsideCaller = UserOutsideCaller(self)
        async with user:
            await self.wait_quiet()
            try:
                doing = self.exploration.begin_scenario(user, wrap_outside(self._outside, lambda: outside))
                if not isawaitable(doing):
                    raise ConfigError("the scenario is a plain function; write `async def`")
                await doing
            except Exception as error:  # noqa: BLE001 -- the user's code; that it fails is the finding
                self.run.error = error
            if self.baseline is None or self.injector.has_moment(SCENARIO_END):
                await self._wait_over()
                await self.wait_quiet()
            await self.reach(SCENARIO_END)
            self.recorder.checker.end_scenario()
            self._scenario_end = timing.now()
            await self._finish()
            await self._follow()
            await self._wait_statements()
            self.recorder.checker.finish()

    async def _wait_statements(self) -> None:
        """Waits for what must come true eventually."""
        while (until := self.recorder.checker.waits_until) is not None and timing.now() < until:
            await timing.sleep_until(min(until, timing.now() + _STATEMENTS))

    def longer(self, within: float) -> float:
        """The timeout of a disturbed run for what takes `within` seconds undisturbed."""
        if self.baseline is None:
            return within
        outages = [one.seconds + _BACKOFF for one in self.run.plan if isinstance(one, Outage)]
        return max(within, self.exploration.within) + sum(outages)

    async def wait_quiet(self) -> None:
        """Waits until all processes run and the controllers have settled, or until a timeout.

        Does not wait long while events are held back, a call is delayed or a process is down: the purpose of these
        disturbances is that the scenario continues meanwhile.
        """
        until = timing.now() + _PATIENCE
        while timing.now() < until:
            await self._wait_up(until)
            pending = await wait_settled(self.cluster.environment, within=_HURRY, soon=_SOON, allow_errors=True)
            if not pending and all(one.up.is_set() or one.is_away for one in self.slots):
                return
            if self._watches.is_holding or any(one.is_slow for one in self.slots) or self._has_outage():
                return

    async def _wait_up(self, until: float, *, is_all: bool = False) -> None:
        with suppress(TimeoutError):
            async with timing.until(until):
                for one in self.slots:
                    if is_all or not one.is_away:
                        await one.up.wait()

    async def _finish(self) -> None:
        await self._wait_over()
        began, is_short = timing.now(), self.baseline is None and not self.is_long
        checks = _FIRST_CHECKS if is_short else (*_FIRST_CHECKS, *_CHECKS, self.exploration.within)
        if any(isinstance(one, Outage) for one in self.run.plan):
            checks = (*checks, self.exploration.within + _BACKOFF)
        for wait in checks:
            await timing.sleep_until(max(timing.now(), began + wait))
            if self._has_outage():  # it began only now, after another disturbance
                await self._wait_over()
                began = timing.now() - wait
            await self.wait_quiet()
            if self._record_end_state() and await self._is_quiet():
                return
        if self.baseline is None:
            await self._is_quiet()
        elif any(isinstance(one, ThirdParty) for one in self.run.plan):
            await self._wait_healed(began + self._longest_follow())

    async def _wait_healed(self, until: float) -> None:
        """Waits for reconciles that are due later: a periodic one may undo what another writer has changed."""
        for _ in range(_MOST_IDLE):
            due = next_due(self.cluster.environment)
            if due is None or due > until:
                return
            await timing.sleep_until(max(due, timing.now() + 1.0))
            await self.wait_quiet()
            if self._record_end_state():
                return

    async def _follow(self) -> None:
        """Follows a run for hours: the long undisturbed one, and disturbed ones if something happened in that time."""
        late_end = None if self.baseline is None else self.baseline.late_end
        if late_end is None and not (self.baseline is None and self.is_long):
            return
        began = self._scenario_end
        if late_end is None:
            await self._follow_until(began + self._longest_follow())
            self._record_end_state()
        else:
            assert self.baseline is not None
            for more in (_SOON, self.exploration.within):
                await self._follow_until(began + self.baseline.late_until + more, is_all=True)
                self._record_end_state()
                if not differences(self.run.end, late_end, self.mask):
                    break
        changes = self.recorder.changes
        self.run.late_until = max(0.0, changes[-1].at - began) if changes else 0.0

    def _longest_follow(self) -> float:
        # Elections renew a Lease every two seconds, which makes an hour as expensive as a day without them.
        has_leases = self.exploration.leader or self.exploration.shards
        return min(self.exploration.follow, _ELECTED) if has_leases else self.exploration.follow

    async def _follow_until(self, until: float, *, is_all: bool = False) -> None:
        """Advances from due time to due time; stops when nothing is due or nothing changes, unless `is_all`."""
        idle = rounds = 0
        while timing.now() < until and rounds < _MOST_ROUNDS:
            due = next_due(self.cluster.environment)
            if due is None or idle >= _MOST_IDLE:
                self.run.is_at_rest = True
                break
            before = len(self.recorder.changes)
            await timing.sleep_until(min(until, max(due, timing.now() + 1.0)))
            await self.wait_quiet()
            rounds += 1
            idle = idle + 1 if len(self.recorder.changes) == before else 0
        if is_all:
            await timing.sleep_until(max(until, timing.now()))
            await self.wait_quiet()

    async def _wait_over(self) -> None:
        """Waits until no disturbance is active."""
        began = timing.now()
        while timing.now() < (until := max(began, self.injector.outage_end) + _LONGEST):
            await self._wait_up(until, is_all=True)
            if self._has_ended():
                return
            await timing.sleep_until(max(timing.now() + _HURRY, self.injector.outage_end))

    def _has_ended(self) -> bool:
        is_up = all(one.up.is_set() and not one.is_slow for one in self.slots)
        return is_up and not self._watches.is_holding and not self._has_outage() and all(map(_is_done, self._tasks))

    def _has_outage(self) -> bool:
        return timing.now() < self.injector.outage_end

    def _record_end_state(self) -> bool:
        """Records the stored state; returns whether it is an end state of the baseline."""
        names, changes = self.outside_ids.texts(), len(self.recorder.changes)
        if self._stored is None or self._stored[:2] != (changes, names):
            trees, uids, generated = self.recorder.state.trees(), self.recorder.uids, self.recording.generated
            end = normalise(trees, uids, ignored=self.exploration.ignored, generated=generated, names=names)
            self._stored = changes, names, end
        end = {**self._stored[2], **self._describe_outside()}
        self.run.ends.append(end)
        return self.baseline is not None and any(not differences(end, one, self.mask) for one in self.baseline.ends)

    def _describe_outside(self) -> NormalizedState:
        if self._outside is None:
            return {}
        text = text_normalizer(self.recorder.state.trees(), self.recorder.uids, self.recording.generated)
        return describe_outside(self._outside, self.outside_ids, text, ignored=self.exploration.ignored)

    async def _is_quiet(self) -> bool:
        """Whether there are not more changes after the end than in the undisturbed run."""
        before = len(self.recorder.changes)
        await asyncio.sleep(_QUIET)
        self.run.late_changes = len(self.recorder.changes) - before
        is_as_expected = self._record_end_state()
        most = 0 if self.baseline is None else 2 * self.baseline.late_changes + 2
        return is_as_expected and self.run.late_changes <= most

    def _run_slot(self, slot: ProcessSlot) -> None:
        self._living[slot] = asyncio.create_task(slot.run(), name=f"process slot {slot.name}")

    def overlap(self, old: ProcessSlot, found: Overlap) -> None:
        """Starts a second process beside the first one, which ends after a while."""
        new = ProcessSlot(f"{old.name}{old.name}", self, self._make_process)
        new.is_beside = True
        self.slots.append(new)
        self._run_slot(new)

        async def retire() -> None:
            await timing.sleep(found.seconds)
            self.slots.remove(old)
            await old.retire()

        self.spawn(retire(), f"retire {old.name}")

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Runs a task until the end of the run."""
        self._tasks.append(asyncio.create_task(work, name=name))

    async def _tear_down(self) -> None:
        for task in (*self._tasks, *self._living.values()):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        outcomes = await asyncio.gather(*self._living.values(), return_exceptions=True)
        for slot, outcome in zip(self._living, outcomes, strict=True):
            if isinstance(outcome, Exception):
                slot.ended.append(EndedProcess(slot.process_name, outcome))  # the process could not be created
            await slot.end()

    def fill_result(self) -> None:
        """Fills the result with what was recorded."""
        made = self.run
        made.trace = self.recording.trace
        made.awaits = tuple(self.recording.awaits or ())
        recorder = self.recorder
        made.states = frozenset(recorder.coverage.states)
        made.changes, made.broken = recorder.changes, recorder.checker.broken
        keys = [(one.key, one.prefix) for one in recorder.changes]
        made.locations = find_locations(keys, recorder.state.trees(), recorder.uids, self.recording.generated)
        made.ended = [one for slot in self._living for one in slot.ended]
        made.missed = self.injector.missed
        made.generated = {name: f"{prefix}{GENERATED}" for name, prefix in self.recording.generated.items()}
        made.overridden = self.recording.overridden
        made.seconds = round(self.recording.now(), 3)


def _ignore_lost_errors(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The exception handler of a disturbed run: that tasks fail there, as those of a killed process, is expected."""
    if "future" not in context:
        loop.default_exception_handler(context)


def _is_done(task: "asyncio.Task[None]") -> bool:
    return task.done()


class _Cluster(Cluster):
    """The cluster of a scenario, with timeouts that allow for disturbances."""

    simulation: _Simulation

    async def settled(
        self,
        *,
        within: float = 60.0,  # noqa: ARG002
        soon: float = 1.0,  # noqa: ARG002
        allow_errors: AllowedErrors | None = None,  # noqa: ARG002
    ) -> None:
        """Waits until the controllers have settled, or until a timeout; failed reconciles are judged after the run."""
        await self.simulation.wait_quiet()

    async def advance(self, seconds: float, *, allow_errors: AllowedErrors | None = None) -> None:  # noqa: ARG002
        """Lets time pass; failed reconciles are judged after the run."""
        await super().advance(seconds, allow_errors=True)

    async def until(self, ref: Ref[K], condition: Callable[[K], object] | None = None, /, *, within: float = 60.0) -> K:
        """As in a test, with a longer timeout in a disturbed run."""
        return await super().until(ref, condition, within=self.simulation.longer(within))

    async def until_gone(self, ref: Ref[Any], /, *, within: float = 60.0) -> None:
        """As in a test, with a longer timeout in a disturbed run."""
        await super().until_gone(ref, within=self.simulation.longer(within))

    def _derive(self, changes: dict[str, Any]) -> Any:
        made: Any = super()._derive(changes)
        made.simulation = self.simulation
        return made


@contextmanager
def logging_disabled() -> Generator[None, None, None]:
    """Disables the log: failed reconciles and broken watches are expected in a run."""
    logger = logging.getLogger("levelset")
    level = logger.level
    if level == _NO_LOG:  # for all runs of an exploration: each change of the level costs a step for every logger
        yield
        return
    logger.setLevel(_NO_LOG)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _gc_disabled() -> Generator[None, None, None]:
    """Disables garbage collection during a run, and then collects what the run has left.

    The next collection would come while the run is still referenced, and move it to an older generation: it would be
    collected with others, ten runs later, in three times the time.
    """
    was_enabled = gc.isenabled()
    with paused():
        try:
            yield
        finally:
            if was_enabled:
                gc.collect(0)
