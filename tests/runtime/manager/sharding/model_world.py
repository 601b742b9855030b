"""Members of the model that act on keys and are disturbed at random: what one random run is."""

from collections.abc import Callable

from tests.runtime.manager.sharding.owner_gaps import OwnerGaps
from tests.runtime.manager.sharding.protocol_model import TIMES, ModelMember, ModelServer, Simulation

__all__ = ["ModelWorld", "run_model"]

KEYS = tuple(f"sites/default/site-{number}" for number in range(8))
DRAIN = 3.0
CHECKED = 0.5
CLOSELY = 0.02
SLOWEST = 0.95
PEACE = 45.0
SETTLED = 5.0
"""At most so many seconds in peace until all have joined, and then so many more."""


class Act:
    """One reconcile: from its start to its end, with a write in the middle."""

    def __init__(self, world: "ModelWorld", by: ModelMember, key: str) -> None:
        self.world, self.by, self.key = world, by, key
        self.is_cancelled = False
        random, simulation = world.simulation.random, world.simulation
        world.note(by, key, "starts")
        world.acts[by.me, key] = self
        first, second = (random.choice((0.05, 0.3, 2.0, 6.0)) for _ in range(2))
        simulation.later(first, self.write)
        simulation.later(first + second, self.end)

    def write(self) -> None:
        if self.by.is_paused:
            self.world.simulation.later(0.1, self.write)  # its next step is when the process runs again
        elif self.is_open and self.by.may_act():  # the fence
            self.world.note(self.by, self.key, "writes")

    def cancel(self) -> None:
        if not self.is_cancelled:
            self.is_cancelled = True
            self.world.simulation.later(self.world.simulation.random.choice((0.0, 0.5, 1.5)), self.end)

    def end(self) -> None:
        if self.by.is_paused:
            self.world.simulation.later(0.1, self.end)
        elif self.is_open:
            del self.world.acts[self.by.me, self.key]

    @property
    def is_open(self) -> bool:
        return self.world.acts.get((self.by.me, self.key)) is self


class ModelWorld:
    """Members that act on keys and are disturbed; `wrong` is what must not be."""

    def __init__(self, seed: int) -> None:
        self.simulation = simulation = Simulation(seed)
        random = simulation.random
        self.server = ModelServer(simulation, lambda: random.choice((0.001, 0.01, 0.05, 0.2)))
        self.is_skewed = random.random() < 0.5
        self.members: list[ModelMember] = []
        self.acts: dict[tuple[str, str], Act] = {}
        self.draining: dict[str, float] = {}
        self.resumed: dict[str, float] = {}
        self.wrong: list[str] = []
        self.story: list[str] = []
        self.gaps = OwnerGaps(KEYS)
        self.number_of_acts = 0

    @property
    def slowest(self) -> float:
        """The rate of the slowest clock: what is promised is in seconds of that."""
        return min(one.rate for one in self.members)

    def log(self, text: str) -> None:
        self.story.append(f"{self.simulation.now:8.3f} {text}")

    def fail(self, member: ModelMember, text: str) -> None:
        """A member is about to be paused, cut off or killed."""
        self.log(f"{member.me} {text}")
        self.gaps.fail(member, self.members, self.simulation.now)

    def add(self) -> None:
        simulation = self.simulation
        rate = simulation.random.choice((SLOWEST, 1.0, 1.05)) if self.is_skewed else 1.0
        member = ModelMember(f"m{len(self.members) + 1:03}", self.server, rate=rate)
        member.is_drained, member.on_end = self.is_drained, self.ended
        member.on_unheard = lambda one: self.gaps.fail(one, self.members, simulation.now)
        self.members.append(member)
        simulation.later(0.1, lambda: self.act(member))

    def act(self, member: ModelMember) -> None:
        """Starts to act on a key that the member owns, again and again."""
        if not member.is_running:
            return
        random = self.simulation.random
        if not member.is_paused:
            for key in random.sample(KEYS, 2):
                if (member.me, key) not in self.acts and member.may_act() and member.owns(key):
                    Act(self, member, key)
        self.simulation.later(random.choice((0.2, 0.5, 1.0)), lambda: self.act(member))

    def is_drained(self, member: ModelMember) -> bool:
        moving = [act for (me, key), act in self.acts.items() if me == member.me and not member.owns(key)]
        if not moving:
            self.draining.pop(member.me, None)
            return True
        since = self.draining.setdefault(member.me, self.simulation.now)
        if self.simulation.now >= since + DRAIN:
            for act in moving:
                act.cancel()
        return False

    def ended(self, member: ModelMember) -> None:
        """A member has lost its Lease: what it does is cancelled, and another process starts."""
        self.log(f"{member.me} has lost its Lease")
        for (me, _), act in tuple(self.acts.items()):
            if me == member.me:
                act.cancel()
        self.simulation.later(1.0, self.add)

    def note(self, by: ModelMember, key: str, what: str) -> None:
        self.number_of_acts += 1
        now = self.simulation.now
        for (me, other_key), act in self.acts.items():
            is_late = now < self.resumed.get(me, -1.0) + 0.3  # it has not noticed yet that it was paused
            if me != by.me and other_key == key and not act.by.is_paused and not is_late:
                self.wrong.append(f"{now:.3f}: {by.me} {what} at {key} while {me} is at it")

    def check_owners(self) -> None:
        """Often when a key has been without an owner for long, so that the end of a gap is known exactly."""
        self.gaps.check(self.members, self.simulation.now)
        is_close = self.gaps.current > TIMES.lease - CHECKED
        self.simulation.later(CLOSELY if is_close else CHECKED, self.check_owners)

    def is_settled(self) -> bool:
        """Whether all processes have joined, and each key has an owner."""
        running = [one for one in self.members if one.is_running]
        return all(one.may_act() for one in running) and all(any(one.owns(key) for one in running) for key in KEYS)

    def leave(self, member: ModelMember) -> None:
        """SIGTERM: its reconciles end first, then its Lease is released."""
        mine = [act for (me, _), act in self.acts.items() if me == member.me]
        member.is_drained = lambda _: False
        member.is_leaving = True
        if not member.is_running:
            return
        if member.is_paused:
            self.simulation.later(0.1, lambda: self.leave(member))
        elif mine:
            for act in mine:
                act.cancel()
            self.simulation.later(0.1, lambda: self.leave(member))
        else:
            member.leave()


def disturb(world: ModelWorld) -> float:
    """Disturbs one member after the other at random times; returns when the last disturbance ends."""
    simulation, random = world.simulation, world.simulation.random
    end = simulation.now
    for _ in range(random.choice((1, 2, 4, 6))):
        simulation.run(simulation.now + random.choice((0.5, 3.0, 12.0, 25.0)))
        there = [one for one in world.members if one.is_healthy]
        if not there:
            continue
        chosen, what = random.choice(there), random.choice(("pause", "cut", "kill", "stop", "join", "pause", "cut"))
        seconds = random.choice((1.0, 8.0, 14.0, 18.0, 40.0))
        match what:
            case "pause":
                world.fail(chosen, f"is paused for {seconds} s")
                chosen.pause()
                simulation.later(seconds, resume(world, chosen))
                end = max(end, simulation.now + seconds)
            case "cut":
                network = random.choice(("unreachable", "hangs", "loses responses"))
                world.fail(chosen, f"is cut off for {seconds} s: {network}")
                chosen.cut(network)
                simulation.later(seconds, heal(world, chosen))
                end = max(end, simulation.now + seconds)
            case "kill":
                world.fail(chosen, "is killed")
                chosen.kill()
                world.add()
            case "stop":
                world.log(f"{chosen.me} stops")
                world.leave(chosen)
                world.add()
            case _:
                world.log("another one joins")
                world.add()
    return max(end, simulation.now)


def resume(world: ModelWorld, member: ModelMember) -> Callable[[], None]:
    def do() -> None:
        if member.phase != "killed":
            world.resumed[member.me] = world.simulation.now
            world.log(f"{member.me} is resumed")
            member.resume()

    return do


def heal(world: ModelWorld, member: ModelMember) -> Callable[[], None]:
    def do() -> None:
        world.log(f"{member.me} is reached again")
        member.heal()

    return do


def run_model(seed: int) -> ModelWorld:
    world = ModelWorld(seed)
    simulation = world.simulation
    world.check_owners()
    for _ in range(simulation.random.choice((2, 3, 4))):
        world.add()
        simulation.run(simulation.now + simulation.random.choice((0.0, 0.05, 3.0)))
    simulation.run(simulation.now + 10.0)
    world.log("all have joined")
    simulation.run(disturb(world) + 0.01)
    world.log("peace")
    end = simulation.now + PEACE
    simulation.run(simulation.now + SETTLED)  # what has lost its Lease is started again within that time
    while simulation.now < end and not world.is_settled():
        simulation.run(simulation.now + 1.0)
    simulation.run(simulation.now + SETTLED)
    acting = [one for one in world.members if one.may_act()]
    world.wrong += [f"{key} has no owner" for key in KEYS if not any(one.owns(key) for one in acting)]
    return world
