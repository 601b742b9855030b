"""Runs a scenario once, with the disturbances of a plan, in virtual time on its own event loop."""

import asyncio
import gc
import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, Final, TypeVar

from levelset.aio import timing
from levelset.client.client import open_transport
from levelset.client.object_types import view_of
from levelset.errors import ConfigError
from levelset.objects.ref import Ref
from levelset.runtime.controller.controller import Controller
from levelset.runtime.manager.crd_install import kinds_of
from levelset.runtime.manager.leader_election import LeaderElection
from levelset.runtime.webhook.webhook_set import Webhooks
from levelset.testing.cluster import Cluster, open_cluster
from levelset.testing.environment import Process, Wire
from levelset.testing.explore.exploration import Exploration
from levelset.testing.explore.judge import Mask, differences
from levelset.testing.explore.normalize import find_locations, normalise
from levelset.testing.explore.plan_execution import FaultInjector
from levelset.testing.explore.plans import Plan, StepName
from levelset.testing.explore.processes import ChangeRecorder, ProcessSlot, UserTransportHook
from levelset.testing.explore.run_result import EndedProcess, Run
from levelset.testing.explore.stored_state import State
from levelset.testing.explore.trace_recorder import LEASE, ReconcileObserver, Recording, with_crash_points
from levelset.testing.quiescence import wait_settled
from levelset.testing.virtual_time import Stuck, run
from levelset.testing.watch_control import WatchControl, WatchedEvent

__all__ = ["play"]

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
_LIMIT: Final = 7 * 86400.0
_MAX_CALLS: Final = 200.0
_MAX_RECONCILES: Final = 1000.0
_CALLS_PER_SECOND: Final = 1.0
_RECONCILES_PER_SECOND: Final = 5.0
"""A write, or a read or reconcile, that is repeated more often than the base number plus the rate times the duration of
the run is an endless loop. Repeated calls are slowed down to two per second."""
_READS: Final = frozenset({"get", "list", "reconcile", "watch"})
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
) -> Run:
    """Runs the scenario with the disturbances of a plan; stops as soon as the end state of the baseline is reached.

    Without a baseline it stops after half a minute; with `is_long`, after the exploration's `within`.
    """
    _refuse_inside_a_loop()
    made = Run(plan, seed)
    simulation = _Simulation(exploration, made, baseline, mask, is_long)
    with _logging_disabled(), _gc_disabled():
        try:
            run(simulation.play(), limit=_LIMIT)
        except Stuck as error:
            made.error = made.error or error
    return made


def _refuse_inside_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigError("the explorer runs its own event loops: call it from a plain function, such as `def test_...`")


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
    _outside: Any = None
    _first: Sequence[Controller[Any]] | None = None
    """The controllers that were created to read their kinds; the first process uses them."""
    _watches: WatchControl = field(default_factory=WatchControl)
    _script: "asyncio.Task[None] | None" = None

    async def play(self) -> None:
        """Runs the scenario and fills the result."""
        async with open_cluster(seed=self.run.seed) as self.cluster:
            await self._prepare()
            living = [asyncio.create_task(one.run(), name=f"process slot {one.name}") for one in self.slots]
            try:
                self._script = asyncio.create_task(self._run_scenario(), name="scenario")
                await asyncio.wait([self._script])
                self._note_reconciles()
            finally:
                await self._tear_down(living)
        self._fill_result()

    def _note_reconciles(self) -> None:
        alive = {one.process_name for one in self.slots if one.up.is_set()}
        self.run.failing = dict(self.recording.failing)
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
        self.recorder = ChangeRecorder(
            self.recording,
            State(self._outside),
            exploration.invariants,
            lambda: storage.revision,
            loop.time,
            self._note_change,
        )
        self._first = first = exploration.make_controllers(self._outside)
        self.run.leading = frozenset(one.name for one in first if one.leader_only and exploration.leader)
        hooked = Webhooks(exploration.webhooks)
        # Kinds of webhooks come first: of several versions the hub is the stored one.
        wanted = [*map(view_of, hooked.kinds), *kinds_of(first), *map(view_of, exploration.kinds)]
        await cluster.environment.define(wanted)
        assert cluster.environment.embedded is not None
        server = cluster.environment.embedded.server
        hooked.attach(server, client=cluster)
        server.state.listeners.append(self.recorder)
        names = ("a", "b") if exploration.leader else ("a",)
        self.slots = [ProcessSlot(name, self, self._make_process) for name in names]

    def _note_change(self, kind: str, number: int, revision: int) -> None:
        for one in self.injector.notice_change(kind, number, revision):
            self.recording.add("server", "disturb", self.recording.name(f"change {kind}"), disturbance=one.id)

    def _make_process(self, slot: ProcessSlot) -> Process:
        process_name = slot.process_name
        first, self._first = self._first, None
        fresh = self.exploration.make_controllers(self._outside) if first is None else first
        made = with_crash_points(fresh, slot.is_over, self.injector.delay())
        leader = LeaderElection(name=LEASE, identity=process_name) if self.exploration.leader else None
        wire = Wire()

        def record_event(event: WatchedEvent) -> None:
            if not wire.is_cut:  # a killed process sees no events
                self.recording.add_event(process_name, event)

        process = self.cluster.process(
            *made,
            faults=[slot, *self.injector.wire_hooks(), self._watches.observed_by(record_event)],
            leader=leader,
            name=process_name,
            observers=[ReconcileObserver(self.recording, process_name, self.count, lambda: wire.is_cut)],
            grace=0.0,
        )
        process.wire = wire
        return process

    async def _run_scenario(self) -> None:
        """Runs the scenario, then waits for the end state."""
        transport, namespace = await open_transport(self.cluster.environment.target)
        del namespace
        user = _Cluster(
            transport, self.cluster.environment, namespace=self.cluster.namespace, wire_hooks=[UserTransportHook(self)]
        )
        user.simulation = self
        async with user:
            await self.wait_quiet()
            try:
                doing: Any = self.exploration.scenario(user)
                if not isawaitable(doing):
                    raise ConfigError("the scenario is a plain function; write `async def`")
                await doing
            except Exception as error:  # noqa: BLE001 -- the user's code; that it fails is the finding
                self.run.error = error
            await self._finish()

    def longer(self, within: float) -> float:
        """The timeout of a disturbed run for what takes `within` seconds undisturbed."""
        return within if self.baseline is None else max(within, self.exploration.within)

    async def wait_quiet(self) -> None:
        """Waits until all processes run and the controllers have settled, or until a timeout.

        Does not wait long while events are held back, a call is delayed or a process is down: the purpose of these
        disturbances is that the scenario continues meanwhile.
        """
        until = timing.now() + _PATIENCE
        while timing.now() < until:
            await self._wait_up(until)
            pending = await wait_settled(self.cluster.environment, within=_HURRY, soon=_SOON)
            if not pending and all(one.up.is_set() or one.is_away for one in self.slots):
                return
            if self._watches.is_holding or any(one.is_slow for one in self.slots):
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
        for wait in _FIRST_CHECKS if is_short else (*_FIRST_CHECKS, *_CHECKS, self.exploration.within):
            await timing.sleep_until(max(timing.now(), began + wait))
            await self.wait_quiet()
            if self._record_end_state() and await self._is_quiet():
                return
        if self.baseline is None:
            await self._is_quiet()

    async def _wait_over(self) -> None:
        """Waits until no disturbance is active."""
        until = timing.now() + _LONGEST
        while timing.now() < until:
            await self._wait_up(until, is_all=True)
            if self._has_ended():
                return
            await asyncio.sleep(_HURRY)

    def _has_ended(self) -> bool:
        is_up = all(one.up.is_set() and not one.is_slow for one in self.slots)
        return is_up and not self._watches.is_holding

    def _record_end_state(self) -> bool:
        """Records the stored state; returns whether it is an end state of the baseline."""
        ignored, trees = self.exploration.ignored, self.recorder.state.trees()
        end = normalise(trees, self.recorder.uids, ignored=ignored, generated=self.recording.generated)
        self.run.ends.append(end)
        return self.baseline is not None and any(not differences(end, one, self.mask) for one in self.baseline.ends)

    async def _is_quiet(self) -> bool:
        """Whether there are not more changes after the end than in the undisturbed run."""
        before = len(self.recorder.changes)
        await asyncio.sleep(_QUIET)
        self.run.late_changes = len(self.recorder.changes) - before
        is_as_expected = self._record_end_state()
        most = 0 if self.baseline is None else 2 * self.baseline.late_changes + 2
        return is_as_expected and self.run.late_changes <= most

    async def _tear_down(self, living: "Sequence[asyncio.Task[None]]") -> None:
        for task in living:
            task.cancel()
        outcomes = await asyncio.gather(*living, return_exceptions=True)
        for slot, outcome in zip(self.slots, outcomes, strict=True):
            if isinstance(outcome, Exception):
                slot.ended.append(EndedProcess(slot.process_name, outcome))  # the process could not be created
            await slot.end()

    def _fill_result(self) -> None:
        made = self.run
        made.trace = self.recording.trace
        recorder = self.recorder
        made.changes, made.broken = recorder.changes, recorder.broken
        keys = [(one.key, one.prefix) for one in recorder.changes]
        made.locations = find_locations(keys, recorder.state.trees(), recorder.uids, self.recording.generated)
        made.ended = [one for slot in self.slots for one in slot.ended]
        made.missed = self.injector.missed
        made.seconds = round(self.recording.now(), 3)


class _Cluster(Cluster):
    """The cluster of a scenario, with timeouts that allow for disturbances."""

    simulation: _Simulation

    async def settled(self, *, within: float = 60.0, soon: float = 1.0) -> None:  # noqa: ARG002
        """Waits until the controllers have settled, or until a timeout."""
        await self.simulation.wait_quiet()

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
def _logging_disabled() -> Generator[None, None, None]:
    """Disables the log: failed reconciles and broken watches are expected in a run."""
    logger = logging.getLogger("levelset")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _gc_disabled() -> Generator[None, None, None]:
    """Disables garbage collection during a run: it is short, and collecting takes a tenth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
