"""Plays a scenario once, with or without disturbances, in virtual time and on a loop of its own."""

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
from levelset.testing.explore.fault_injection import Disturbing
from levelset.testing.explore.judge import Mask, differences
from levelset.testing.explore.normalize import find_places, normalise
from levelset.testing.explore.plans import At, Plan
from levelset.testing.explore.processes import Following, People, Place
from levelset.testing.explore.run_result import Ended, Run
from levelset.testing.explore.stored_state import State
from levelset.testing.explore.trace import LEASE, LookObserver, Recording, pointed
from levelset.testing.quiescence import wait_settled
from levelset.testing.virtual_time import Stuck, run
from levelset.testing.watch_control import WatchedEvent, Watches

__all__ = ["play"]

K = TypeVar("K")

_PATIENCE: Final = 12.0
"""How many seconds people wait for things to settle that do not: longer than a failed look waits for the next."""
_HURRY: Final = 1.0
"""How many seconds people wait while a cache stands still: they act before it goes on."""
_LONGEST: Final = 120.0
"""How many seconds a disturbance may last after the scenario."""
_SOON: Final = 6.0
_QUIET: Final = 20.0
"""For how many seconds nothing may happen after the end that does not happen undisturbed."""
_FIRST_CHECKS: Final = (0.0, 10.0)
_CHECKS: Final = (60.0, 300.0)
"""When the end is looked at, in seconds after the scenario; at last when the exploration's own time is up."""
_LIMIT: Final = 7 * 86400.0
_MOST_CALLS: Final = 200.0
_MOST_LOOKS: Final = 1000.0
_CALLS_A_SECOND: Final = 1.0
_LOOKS_A_SECOND: Final = 5.0
"""Who writes the same, or looks at the same object, more often than that, and than so often a second for as long as the
run has lasted, will never come to rest. The calls of who says the same again and again are at most two a second."""
_PATIENT: Final = frozenset({"get", "list", "look", "watch"})
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
    """Plays the scenario with the disturbances of a plan; with a baseline, it ends as soon as all is as there.

    Without one it ends after half a minute; if it `is_long`, after the exploration's `within`.
    """
    _refuse_inside_a_loop()
    made = Run(plan, seed)
    game = _Game(exploration, made, baseline, mask, is_long)
    with _silence(), _uncollected():
        try:
            run(game.play(), limit=_LIMIT)
        except Stuck as error:
            made.error = made.error or error
    return made


def _refuse_inside_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigError("exploring runs loops of its own: call it from an ordinary function, such as `def test_...`")


@dataclass(eq=False)
class _Game:
    """Everybody who takes part in a run."""

    exploration: Exploration
    run: Run
    baseline: Run | None
    mask: Mask
    is_long: bool = False
    places: list[Place] = field(default_factory=list[Place])
    is_over: bool = False
    recording: Recording = field(init=False)
    following: Following = field(init=False)
    disturbing: Disturbing = field(init=False)
    cluster: Cluster = field(init=False)
    _outside: Any = None
    _first: Sequence[Controller[Any]] | None = None
    """The controllers that were made to know their kinds; the first process has them."""
    _watches: Watches = field(default_factory=Watches)
    _script: "asyncio.Task[None] | None" = None

    async def play(self) -> None:
        """The whole run."""
        async with open_cluster(seed=self.run.seed) as self.cluster:
            await self._prepare()
            living = [asyncio.create_task(one.live(), name=f"place {one.name}") for one in self.places]
            try:
                self._script = asyncio.create_task(self._act(), name="scenario")
                await asyncio.wait([self._script])
                self._note_looks()
            finally:
                await self._tear_down(living)
        self._write_down()

    def _note_looks(self) -> None:
        alive = {one.who for one in self.places if one.up.is_set()}
        self.run.failing = dict(self.recording.failing)
        self.run.unfinished = [at for at, who in self.recording.open.items() if who in alive]

    def count(self, name: At) -> bool:
        """Counts one more step; whether there have been far too many: then everything stands still, and ends."""
        seconds = self.recording.now()
        is_look = name.verb in _PATIENT
        most = _MOST_LOOKS + _LOOKS_A_SECOND * seconds if is_look else _MOST_CALLS + _CALLS_A_SECOND * seconds
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
        self.disturbing = Disturbing(self.run.plan, self._watches)
        self.following = Following(
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
        # Those of the webhooks first: of several versions the hub is the one that is stored.
        wanted = [*map(view_of, hooked.kinds), *kinds_of(first), *map(view_of, exploration.kinds)]
        await cluster.stage.define(wanted)
        assert cluster.stage.inside is not None
        server = cluster.stage.inside.server
        hooked.attach(server, client=cluster)
        server.world.listeners.append(self.following)
        names = ("a", "b") if exploration.leader else ("a",)
        self.places = [Place(name, self, self._make_process) for name in names]

    def _note_change(self, kind: str, number: int, revision: int) -> None:
        for one in self.disturbing.notice_change(kind, number, revision):
            self.recording.add("server", "disturb", self.recording.name(f"change {kind}"), disturbance=one.id)

    def _make_process(self, place: Place) -> Process:
        who = place.who
        first, self._first = self._first, None
        fresh = self.exploration.make_controllers(self._outside) if first is None else first
        made = pointed(fresh, place.is_over, self.disturbing.delay())
        leader = LeaderElection(name=LEASE, identity=who) if self.exploration.leader else None
        wire = Wire()

        def tell(event: WatchedEvent) -> None:
            if not wire.is_cut:  # the dead see nothing
                self.recording.add_event(who, event)

        process = self.cluster.process(
            *made,
            faults=[place, *self.disturbing.wire_hooks(), self._watches.telling(tell)],
            leader=leader,
            name=who,
            observers=[LookObserver(self.recording, who, self.count, lambda: wire.is_cut)],
            grace=0.0,
        )
        process.wire = wire
        return process

    async def _act(self) -> None:
        """People do what they do; then everything may come to its end."""
        transport, namespace = await open_transport(self.cluster.stage.where)
        del namespace
        people = _Cluster(transport, self.cluster.stage, namespace=self.cluster.namespace, wire_hooks=[People(self)])
        people.game = self
        async with people:
            await self.calm()
            try:
                doing: Any = self.exploration.scenario(people)
                if not isawaitable(doing):
                    raise ConfigError("the scenario is a plain function, in which nobody can wait; write `async def`")
                await doing
            except Exception as error:  # noqa: BLE001 -- the user's code; that it fails is the finding
                self.run.error = error
            await self._finish()

    def longer(self, within: float) -> float:
        """How many seconds people wait for what takes so long undisturbed."""
        return within if self.baseline is None else max(within, self.exploration.within)

    async def calm(self) -> None:
        """Waits until all places are up and everything has come to rest, or until there is no more patience.

        Nobody waits for long while a cache stands still, a call is on its way, or a process is away: what happens
        meanwhile is what those are about.
        """
        until = timing.now() + _PATIENCE
        while timing.now() < until:
            await self._wait_up(until)
            unrest = await wait_settled(self.cluster.stage, within=_HURRY, soon=_SOON)
            if not unrest and all(one.up.is_set() or one.is_away for one in self.places):
                return
            if self._watches.is_holding or any(one.is_slow for one in self.places):
                return

    async def _wait_up(self, until: float, *, is_all: bool = False) -> None:
        with suppress(TimeoutError):
            async with timing.until(until):
                for one in self.places:
                    if is_all or not one.is_away:
                        await one.up.wait()

    async def _finish(self) -> None:
        await self._wait_over()
        began, is_short = timing.now(), self.baseline is None and not self.is_long
        for wait in _FIRST_CHECKS if is_short else (*_FIRST_CHECKS, *_CHECKS, self.exploration.within):
            await timing.sleep_until(max(timing.now(), began + wait))
            await self.calm()
            if self._look() and await self._is_quiet():
                return
        if self.baseline is None:
            await self._is_quiet()

    async def _wait_over(self) -> None:
        """Waits until no disturbance is under way any more."""
        until = timing.now() + _LONGEST
        while timing.now() < until:
            await self._wait_up(until, is_all=True)
            if self._has_ended():
                return
            await asyncio.sleep(_HURRY)

    def _has_ended(self) -> bool:
        is_up = all(one.up.is_set() and not one.is_slow for one in self.places)
        return is_up and not self._watches.is_holding

    def _look(self) -> bool:
        """Looks at what is stored; whether that is an end as it should be."""
        ignored, trees = self.exploration.ignored, self.following.state.trees()
        end = normalise(trees, self.following.uids, ignored=ignored, generated=self.recording.generated)
        self.run.ends.append(end)
        return self.baseline is not None and any(not differences(end, one, self.mask) for one in self.baseline.ends)

    async def _is_quiet(self) -> bool:
        """Whether no more happens in a while than in the undisturbed run."""
        before = len(self.following.changes)
        await asyncio.sleep(_QUIET)
        self.run.late_changes = len(self.following.changes) - before
        is_as_expected = self._look()
        most = 0 if self.baseline is None else 2 * self.baseline.late_changes + 2
        return is_as_expected and self.run.late_changes <= most

    async def _tear_down(self, living: "Sequence[asyncio.Task[None]]") -> None:
        for task in living:
            task.cancel()
        outcomes = await asyncio.gather(*living, return_exceptions=True)
        for place, outcome in zip(self.places, outcomes, strict=True):
            if isinstance(outcome, Exception):
                place.ended.append(Ended(place.who, outcome))  # no process could be made
            await place.end()

    def _write_down(self) -> None:
        made = self.run
        made.trace = self.recording.trace
        following = self.following
        made.changes, made.broken = following.changes, following.broken
        keys = [(one.key, one.prefix) for one in following.changes]
        made.places = find_places(keys, following.state.trees(), following.uids, self.recording.generated)
        made.ended = [one for place in self.places for one in place.ended]
        made.missed = self.disturbing.missed
        made.seconds = round(self.recording.now(), 3)


class _Cluster(Cluster):
    """The cluster as the people of a scenario know it; they do not wait for ever for what does not come to rest."""

    game: _Game

    async def settled(self, *, within: float = 60.0, soon: float = 1.0) -> None:  # noqa: ARG002
        """Returns when everything has come to rest, or after a while if something keeps it from that."""
        await self.game.calm()

    async def until(self, ref: Ref[K], condition: Callable[[K], object] | None = None, /, *, within: float = 60.0) -> K:
        """As in a test; but what is disturbed may take longer."""
        return await super().until(ref, condition, within=self.game.longer(within))

    async def until_gone(self, ref: Ref[Any], /, *, within: float = 60.0) -> None:
        """As in a test; but what is disturbed may take longer."""
        await super().until_gone(ref, within=self.game.longer(within))

    def _with(self, changes: dict[str, Any]) -> Any:
        made: Any = super()._with(changes)
        made.game = self.game
        return made


@contextmanager
def _silence() -> Generator[None, None, None]:
    """Keeps the log quiet: that looks fail and watches break is what a run is about."""
    logger = logging.getLogger("levelset")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _uncollected() -> Generator[None, None, None]:
    """Puts the garbage off until the run is over: a run is short, and looking for garbage takes a tenth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
