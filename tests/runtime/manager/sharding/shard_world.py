"""Members that share keys on a real API server in virtual time, disturbed at random; no two may act on a key.

A member is paused as SIGSTOP pauses a process: none of its tasks runs a step, while its clock goes on. A killed one is
paused for ever. A partitioned one gets no response and no event. Clocks run at rates that differ by a tenth.
"""

import asyncio
import types
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import cycle
from random import Random
from typing import Any

from levelset.aio import timing
from levelset.apiserver import ApiServer
from levelset.client import Client
from levelset.client.transport.interface import Call, Response, Send
from levelset.errors import Fenced, LeaseLost, Unreachable
from levelset.runtime.cache import Cluster
from levelset.runtime.manager.sharding import Sharding, ShardMember, View
from levelset.testing.watch_control import HeldEvents, WatchControl
from tests.runtime.manager.sharding.owner_gaps import OwnerGaps

__all__ = ["SimulatedMember", "World", "run_world"]

KEYS = tuple(f"sites/default/site-{number}" for number in range(8))
SETTINGS = Sharding(name="sites", drain=3.0)
CHECKED = 0.5
CLOSELY = 0.02
"""So many seconds apart it is checked whether each key has an owner; closely when one has had none for long."""
PEACE = 45.0
SETTLED = 5.0
"""At most so many seconds in peace until all have joined, and then so many more."""
_RESUMED = 0.05
"""So many seconds after it was resumed, a process that has lost its Lease may not have noticed yet."""


class Gate:
    """Stops the tasks of one process at their next step, until it is opened again."""

    def __init__(self) -> None:
        self.is_paused = False
        self._resumed = asyncio.Event()

    def pause(self) -> None:
        self.is_paused = True
        self._resumed.clear()

    def resume(self) -> None:
        self.is_paused = False
        self._resumed.set()

    async def wait(self) -> None:
        while self.is_paused:
            await self._resumed.wait()


_PROCESS: ContextVar[Gate | None] = ContextVar("process", default=None)


@types.coroutine
def paused_with(gate: Gate, inner: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Runs a coroutine step by step; each step waits while the process is paused, cancellations too."""
    value: Any = None
    thrown: BaseException | None = None
    while True:
        while gate.is_paused:
            try:
                yield from gate.wait().__await__()
            except BaseException as error:  # noqa: BLE001 -- delivered when the process runs again
                thrown = error
        try:
            step = inner.send(value) if thrown is None else inner.throw(thrown)
        except StopIteration as stop:
            return stop.value
        value = thrown = None
        try:
            value = yield step
        except BaseException as error:  # noqa: BLE001 -- delivered to the coroutine
            thrown = error


def make_task(loop: asyncio.AbstractEventLoop, inner: Any, context: Any = None, **options: Any) -> "asyncio.Task[Any]":
    """The task factory: tasks that a simulated process creates stop with it."""
    gate = (context.get(_PROCESS) if context is not None else None) or _PROCESS.get()
    if gate is None:
        return asyncio.Task(inner, loop=loop, context=context, **options)
    task: asyncio.Task[Any] = asyncio.Task(_paused(gate, inner), loop=loop, context=context, **options)
    task.add_done_callback(lambda _: inner.close())  # one that is cancelled before its first step never awaits it
    return task


async def _paused(gate: Gate, inner: Coroutine[Any, Any, Any]) -> Any:
    # Since Python 3.12 a task takes no generator, not even one that can be awaited.
    return await paused_with(gate, inner)


@dataclass(eq=False)
class Wire:
    """The network of one process: it delays, and it can be cut off in several ways."""

    random: Random
    on_unheard: Callable[[], None]
    """Called when a write has arrived whose response gets lost."""
    state: str = "up"
    calls: int = 0
    watches: WatchControl = field(default_factory=WatchControl)
    _held: HeldEvents | None = None

    async def __call__(self, call: Call, send: Send) -> Response:
        self.calls += 1
        await timing.sleep(self.random.choice((0.0, 0.002, 0.03, 0.2)))
        match self.state:
            case "unreachable":
                raise Unreachable("no route to host", is_sent=False)
            case "hangs":
                while self.state == "hangs":
                    await timing.sleep(0.5)
                raise Unreachable("the connection is reset", is_sent=False)
            case "loses responses" if call.verb != "watch":
                await send(call)
                if call.verb in {"create", "update"}:
                    self.on_unheard()
                raise Unreachable("the response was lost", is_sent=True)
            case _:
                return await self.watches(call, send)

    def cut(self, state: str) -> None:
        self.state = state
        if state != "loses responses":
            self._held = self.watches.hold(lambda _: True)

    def heal(self) -> None:
        self.state = "up"
        if self._held is not None:
            self._held.release()
            self._held = None


class SimulatedWork:
    """Acts on the keys that its member owns, again and again; a MovingWork."""

    def __init__(self, world: "World", process: "SimulatedMember") -> None:
        self.acts: dict[str, asyncio.Task[None]] = {}
        self._world = world
        self._process = process
        self._since: float | None = None

    def changed(self, view: View) -> None:
        self._since = None

    def is_drained(self) -> bool:
        moving = [key for key in self.acts if not self._process.owns(key)]
        self._since = timing.now() if self._since is None else self._since
        if timing.now() >= self._since + SETTINGS.drain:
            for key in moving:
                self.acts[key].cancel()
        return not moving

    def keys(self) -> int:
        return len(self.acts)

    async def run(self) -> None:
        random, process = self._world.random, self._process
        await process.member.admitted.wait()
        process.admitted_at = timing.now()
        for key in cycle(random.sample(KEYS, len(KEYS))):
            if key not in self.acts and process.may_act(key):
                act = asyncio.get_running_loop().create_task(self._act(key))
                self.acts[key] = act
            await timing.sleep(random.choice((0.05, 0.5, 1.0)))

    async def stop(self) -> None:
        for act in self.acts.values():
            act.cancel()
        await asyncio.gather(*self.acts.values(), return_exceptions=True)

    async def _act(self, key: str) -> None:
        """One reconcile: it starts, writes twice, and ends; it may be slow to end when it is cancelled."""
        random, world, process = self._world.random, self._world, self._process
        try:
            if not process.may_act(key):
                return
            world.note(process, key, "starts")
            process.acting.add(key)
            for _ in range(2):
                await timing.sleep(random.choice((0.0, 0.2, 2.0, 6.0)))
                process.member.fence()
                world.note(process, key, "writes")
        except asyncio.CancelledError:
            await timing.sleep(random.choice((0.0, 0.5, 1.5)))  # cleans up
        except Fenced:
            pass
        finally:
            process.acting.discard(key)
            self.acts.pop(key, None)


class SimulatedMember:
    """One process: its gate, network and clock."""

    def __init__(self, world: "World", number: int) -> None:
        self.number = number
        self.gate = Gate()
        self.wire = Wire(world.random, self._fail_again)
        self.acting: set[str] = set()
        self.undisturbed_since = 0.0
        self.admitted_at: float | None = None
        self.resumed_at = -1.0
        self.is_killed = False
        self.rate = world.random.choice((0.95, 1.0, 1.05)) if world.is_skewed else 1.0
        self.offset = world.random.choice((0.0, 1e6, -1e3))
        self.member: ShardMember
        self._world = world
        self._task: asyncio.Task[None] | None = None
        self.is_joined = False
        self._owned_in: View | None = None
        self._owned: dict[str, bool] = {}

    def _fail_again(self) -> None:
        self._world.gaps.fail(self, self._world.members, timing.now())

    def now(self) -> float:
        return timing.now() * self.rate + self.offset

    def may_act(self, key: str) -> bool:
        return self.is_joined and self.member.may_act() and self.owns(key)

    @property
    def me(self) -> str:
        return self.member.name if self.is_joined else f"m{self.number:08d}x"

    @property
    def holder(self) -> str:
        return f"host-{self.number}"

    @property
    def is_healthy(self) -> bool:
        return self.is_running and not self.gate.is_paused and self.wire.state == "up"

    @property
    def is_serving(self) -> bool:
        is_reaching = self.is_running and not self.gate.is_paused and self.wire.state in {"up", "loses responses"}
        return is_reaching and self.is_joined and self.member.may_act()

    @property
    def waits_for(self) -> frozenset[str]:
        if not self.is_running or not self.is_joined:
            return frozenset()
        state = self.member.state
        if state.is_admitted or not self.member._may_exist:
            return frozenset()
        return state.awaited or frozenset(state.others)

    def owns(self, key: str) -> bool:
        if self._owned_in is not self.member.view:
            self._owned_in, self._owned = self.member.view, {one: self.member.view.owns(one) for one in KEYS}
        return self._owned[key]

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done() and not self.is_killed

    def start(self) -> None:
        self.undisturbed_since = timing.now()
        token = _PROCESS.set(self.gate)
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"process {self.number}")
        _PROCESS.reset(token)

    async def _run(self) -> None:
        """Until the Lease is lost; then everything of it is stopped, as the manager does."""
        client = await Client.connect(self._world.server, wire_hooks=[self.wire])
        work = SimulatedWork(self._world, self)
        async with client, Cluster(client) as cluster:
            settings = replace(SETTINGS, identity=self.holder)
            self.member = ShardMember(cluster, settings, work, clock=self.now, suffix=self.me)
            self.is_joined = True
            acting = asyncio.get_running_loop().create_task(work.run())
            try:
                await self.member.run()
            except LeaseLost:
                self._world.restart(self)
            except asyncio.CancelledError:
                acting.cancel()
                await work.stop()
                await self.member.release()
                raise
            finally:
                acting.cancel()
                await work.stop()

    async def stop(self) -> None:
        """SIGTERM: a graceful stop."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([self._task])

    def pause(self) -> None:
        self.gate.pause()

    def resume(self) -> None:
        self.resumed_at = self.undisturbed_since = timing.now()
        self.gate.resume()

    def heal(self) -> None:
        self.undisturbed_since = timing.now()
        self.wire.heal()

    def kill(self) -> None:
        self.is_killed = True
        self.gate.pause()
        self.wire.cut("unreachable")

    async def bury(self) -> None:
        """Ends what is left of a process at the end of the run."""
        self.wire.heal()
        self.gate.resume()
        await self.stop()


class World:
    """The members of one run, what they do, and what went wrong."""

    def __init__(self, server: ApiServer, random: Random, *, is_skewed: bool) -> None:
        self.server = server
        self.random = random
        self.is_skewed = is_skewed
        self.members: list[SimulatedMember] = []
        self.wrong: list[str] = []
        self.story: list[str] = []
        self.acts = 0
        self.gaps = OwnerGaps(KEYS)
        self.is_over = False
        self.last_acts: dict[str, float] = {}

    def log(self, text: str) -> None:
        self.story.append(f"{timing.now():8.3f} {text}")

    @property
    def slowest(self) -> float:
        """The rate of the slowest clock: what is promised is in seconds of that."""
        return min(one.rate for one in self.members)

    def fail(self, member: SimulatedMember, text: str) -> None:
        """A member is about to be paused, cut off or killed."""
        self.log(f"{member.number} {text}")
        self.gaps.fail(member, self.members, timing.now())

    def note(self, by: SimulatedMember, key: str, what: str) -> None:
        """A member starts to act on a key, or writes: no other one may be at it."""
        if self.is_over:
            return
        self.acts += 1
        self.last_acts[key] = timing.now()
        for other in self.members:
            is_late = timing.now() < other.resumed_at + _RESUMED
            if other is not by and key in other.acting and not other.gate.is_paused and not is_late:
                self.wrong.append(f"{timing.now():.3f}: {by.number} {what} at {key} while {other.number} is at it")

    def add(self) -> SimulatedMember:
        made = SimulatedMember(self, len(self.members) + 1)
        if not self.is_over:
            self.members.append(made)
            made.start()
        return made

    def heal(self, end: Callable[[], None], seconds: float) -> float:
        """Ends a disturbance after so many seconds; returns when."""

        def heal() -> None:
            end()
            self.log("a disturbance ends")

        asyncio.get_running_loop().call_later(seconds, heal)
        return timing.now() + seconds + 0.01

    def restart(self, lost: SimulatedMember) -> None:
        """Starts another process in place of one that has lost its Lease, as the kubelet does."""
        if not self.is_over:
            self.log(f"{lost.number} has lost its Lease")
            asyncio.get_running_loop().call_later(1.0, self.add)

    @property
    def alive(self) -> list[SimulatedMember]:
        return [one for one in self.members if one.is_running]

    def is_settled(self, since: float) -> bool:
        """Whether all processes have joined, and every key was acted on since then."""
        acting = all(one.is_joined and one.member.may_act() for one in self.alive)
        return acting and all(self.last_acts.get(key, 0.0) > since for key in KEYS)

    async def watch(self) -> None:
        """Measures for how long each key has no owner; often when one has had none for long."""
        while True:
            self.gaps.check(self.members, timing.now())
            await timing.sleep(CLOSELY if self.gaps.current > SETTINGS.lease - CHECKED else CHECKED)


async def disturb(world: World, steps: int) -> None:
    """Disturbs members at random: each time one of them, and each disturbance ends after a while."""
    random, healed_at = world.random, 0.0
    for _ in range(steps):
        await timing.sleep(random.choice((0.5, 3.0, 12.0, 25.0)))
        there = [one for one in world.alive if one.is_healthy and one.is_joined]
        if not there:
            continue
        chosen, what = random.choice(there), random.choice(("pause", "cut", "kill", "stop", "join", "pause", "cut"))
        seconds = random.choice((1.0, 8.0, 14.0, 18.0, 40.0))
        match what:
            case "pause":
                world.fail(chosen, f"is paused for {seconds} s")
                chosen.pause()
                healed_at = max(healed_at, world.heal(chosen.resume, seconds))
            case "cut":
                state = random.choice(("unreachable", "hangs", "loses responses"))
                world.fail(chosen, f"is cut off for {seconds} s: {state}")
                chosen.wire.cut(state)
                healed_at = max(healed_at, world.heal(chosen.heal, seconds))
            case "kill":
                world.fail(chosen, "is killed")
                chosen.kill()
                world.add()
            case "stop":
                world.log(f"{chosen.number} stops")
                await chosen.stop()
                world.add()
            case _:
                if len(world.alive) < 5:
                    world.log("another one joins")
                    world.add()
    await timing.sleep_until(max(healed_at, timing.now()))


@asynccontextmanager
async def open_world(seed: int, members: int | None = None) -> AsyncIterator[World]:
    """Members of a run that has just begun: two to four, unless given."""
    random = Random(seed)
    asyncio.get_running_loop().set_task_factory(make_task)
    server = ApiServer()
    await server.start(listen=False)
    world = World(server, random, is_skewed=random.random() < 0.5)
    watching = asyncio.get_running_loop().create_task(world.watch())
    try:
        for _ in range(random.choice((2, 3, 4)) if members is None else members):
            world.add()
            await timing.sleep(random.choice((0.0, 0.05, 3.0)))
        yield world
    finally:
        world.is_over = True
        watching.cancel()
        for one in world.members:
            await one.bury()
        await server.stop()
        asyncio.get_running_loop().set_task_factory(None)


async def run_world(seed: int) -> World:
    """One run: members join and are disturbed; at the end they have peace until all have joined, and a while more."""
    async with open_world(seed) as world:
        await timing.sleep(5.0)
        world.log("all have joined")
        await disturb(world, world.random.choice((1, 2, 4)))
        if not world.alive:
            world.add()
        world.log("peace")
        quiet = timing.now()
        await timing.sleep(SETTLED)  # what has lost its Lease is started again within that time
        while timing.now() < quiet + PEACE and not world.is_settled(quiet):
            await timing.sleep(1.0)
        await timing.sleep(SETTLED)
        missing = [key for key in KEYS if world.last_acts.get(key, 0.0) < quiet]
        world.wrong += [f"{key} has no owner at the end" for key in missing]
    return world
