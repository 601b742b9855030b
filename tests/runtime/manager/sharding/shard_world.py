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

__all__ = ["SimulatedMember", "World", "run_world"]

KEYS = tuple(f"sites/default/site-{number}" for number in range(8))
SETTINGS = Sharding(name="sites", drain=3.0)
CHECKED = 0.5
"""So many seconds apart it is checked whether each key has an owner."""
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
    return asyncio.Task(inner if gate is None else _paused(gate, inner), loop=loop, context=context, **options)


async def _paused(gate: Gate, inner: Coroutine[Any, Any, Any]) -> Any:
    # Since Python 3.12 a task takes no generator, not even one that can be awaited.
    return await paused_with(gate, inner)


@dataclass(eq=False)
class Wire:
    """The network of one process: it delays, and it can be cut off in several ways."""

    random: Random
    state: str = "up"
    watches: WatchControl = field(default_factory=WatchControl)
    _held: HeldEvents | None = None

    async def __call__(self, call: Call, send: Send) -> Response:
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
        moving = [key for key in self.acts if not self._process.member.view.owns(key)]
        self._since = timing.now() if self._since is None else self._since
        if timing.now() >= self._since + SETTINGS.drain:
            for key in moving:
                self.acts[key].cancel()
        return not moving

    def keys(self) -> int:
        return len(self.acts)

    async def run(self) -> None:
        random, process = self._world.random, self._process
        for key in cycle(random.sample(KEYS, len(KEYS))):
            if key not in self.acts and process.may_act(key):
                act = asyncio.get_running_loop().create_task(self._act(key))
                self.acts[key] = act
            await timing.sleep(random.choice((0.05, 0.2, 0.5)))

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
        self.wire = Wire(world.random)
        self.acting: set[str] = set()
        self.started_at = 0.0
        self.resumed_at = -1.0
        self.is_killed = False
        self.rate = world.random.choice((0.95, 1.0, 1.05)) if world.is_skewed else 1.0
        self.offset = world.random.choice((0.0, 1e6, -1e3))
        self.member: ShardMember
        self._world = world
        self._task: asyncio.Task[None] | None = None
        self.is_joined = False

    def now(self) -> float:
        return timing.now() * self.rate + self.offset

    def may_act(self, key: str) -> bool:
        return self.is_joined and self.member.may_act() and self.member.view.owns(key)

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done() and not self.is_killed

    def start(self) -> None:
        self.started_at = timing.now()
        token = _PROCESS.set(self.gate)
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"process {self.number}")
        _PROCESS.reset(token)

    async def _run(self) -> None:
        """Until the Lease is lost; then everything of it is stopped, as the manager does."""
        client = await Client.connect(self._world.server, wire_hooks=[self.wire])
        work = SimulatedWork(self._world, self)
        async with client, Cluster(client) as cluster:
            settings = replace(SETTINGS, identity=f"host-{self.number}")
            self.member = ShardMember(cluster, settings, work, clock=self.now, suffix=f"m{self.number:08d}x")
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
        self.resumed_at = timing.now()
        self.gate.resume()

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
        self.longest_gap = 0.0
        self.is_over = False
        self.disturbed_at = 0.0
        self.last_acts: dict[str, float] = {}
        self._unowned: dict[str, float] = {}

    def log(self, text: str) -> None:
        self.story.append(f"{timing.now():8.3f} {text}")

    def disturb(self, text: str) -> None:
        self.log(text)
        self.disturbed_at = timing.now()

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
            self.disturb("a disturbance ends")

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

    def check_owners(self) -> None:
        """Measures for how long each key has had no owner, since the last disturbance at least."""
        now = timing.now()
        healthy = [one for one in self.alive if not one.gate.is_paused and one.wire.state == "up"]
        if not any(one.is_joined and one.member.may_act() for one in healthy):
            # No member can take over; a new process has to see a Lease for its whole duration first.
            self.disturbed_at = max(self.disturbed_at, min((one.started_at for one in healthy), default=now))
        acting = [one for one in self.alive if not one.gate.is_paused and one.is_joined and one.member.may_act()]
        for key in KEYS:
            if any(one.member.view.owns(key) for one in acting):
                self._unowned.pop(key, None)
                continue
            since = max(self._unowned.setdefault(key, now), self.disturbed_at)
            self.longest_gap = max(self.longest_gap, now - since)

    async def watch(self) -> None:
        while True:
            self.check_owners()
            await timing.sleep(CHECKED)


async def disturb(world: World, steps: int) -> None:
    """Disturbs members at random: each time one of them, and each disturbance ends after a while."""
    random, healed_at = world.random, 0.0
    for _ in range(steps):
        await timing.sleep(random.choice((0.5, 3.0, 12.0, 25.0)))
        there = [one for one in world.alive if not one.gate.is_paused and one.wire.state == "up" and one.is_joined]
        if not there:
            continue
        chosen, what = random.choice(there), random.choice(("pause", "cut", "kill", "stop", "join", "pause", "cut"))
        seconds = random.choice((1.0, 8.0, 14.0, 18.0, 40.0))
        match what:
            case "pause":
                world.disturb(f"{chosen.number} is paused for {seconds} s")
                chosen.pause()
                healed_at = max(healed_at, world.heal(chosen.resume, seconds))
            case "cut":
                state = random.choice(("unreachable", "hangs", "loses responses"))
                world.disturb(f"{chosen.number} is cut off for {seconds} s: {state}")
                chosen.wire.cut(state)
                healed_at = max(healed_at, world.heal(chosen.wire.heal, seconds))
            case "kill":
                world.disturb(f"{chosen.number} is killed")
                chosen.kill()
                world.add()
            case "stop":
                world.disturb(f"{chosen.number} stops")
                await chosen.stop()
                world.add()
            case _:
                if len(world.alive) < 5:
                    world.disturb("another one joins")
                    world.add()
    await timing.sleep_until(max(healed_at, timing.now()))


@asynccontextmanager
async def open_world(seed: int) -> AsyncIterator[World]:
    random = Random(seed)
    asyncio.get_running_loop().set_task_factory(make_task)
    server = ApiServer()
    await server.start(listen=False)
    world = World(server, random, is_skewed=random.random() < 0.5)
    watching = asyncio.get_running_loop().create_task(world.watch())
    try:
        for _ in range(random.choice((2, 3, 4))):
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
    """One run: members join, are disturbed, and at the end have half a minute in peace."""
    async with open_world(seed) as world:
        await timing.sleep(5.0)
        world.disturb("all have joined")
        await disturb(world, world.random.choice((1, 2, 4)))
        if not world.alive:
            world.add()
        world.disturb("peace")
        quiet = timing.now()
        await timing.sleep(30.0)
        for key in KEYS:
            if world.last_acts.get(key, 0.0) < quiet + 17.5:
                world.wrong.append(f"{key} has no owner at the end")
    return world
