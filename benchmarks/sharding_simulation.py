"""A hundred members that share a million keys in virtual time, while members come and go; figures and plots.

    python benchmarks/sharding_simulation.py [--members 100 --keys 1000000 --changes 30] [--plots docs/images]

It runs the decisions of `levelset.runtime.manager.sharding` on the model of an API server that the tests use
(`protocol_model.py`): requests and events take 2 to 20 ms, and a reconcile of an object that moves up to a second. The
owners of all keys are kept up to date with one score for each key and change.
"""

import argparse
import json
import sys
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import compress, count
from operator import ge
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from levelset.runtime.manager.sharding.rendezvous import key_hash, member_seed  # noqa: E402
from tests.runtime.manager.sharding.protocol_model import ModelMember, ModelServer, Simulation  # noqa: E402

PAUSE = 30.0
"""Seconds between two changes: each is over before the next one."""
ZONE = 10
"""So many members die at once when a zone is lost."""
KINDS = ("kill", "replace", "join", "leave", "zone")
COLORS = {"kill": "#c0392b", "zone": "#d68910", "replace": "#8e44ad", "join": "#2471a3", "leave": "#1e8449"}
WORDS = {
    "kill": "killed, and started again",
    "zone": f"{ZONE} killed at once",
    "replace": "rolling update",
    "join": "joins",
    "leave": "leaves",
}
_MASK = (1 << 64) - 1


class Keys:
    """The owner of each key as members come and go."""

    def __init__(self, number: int) -> None:
        self.hashes = array("Q", (key_hash(f"sites/default/site-{one}") for one in range(number)))
        self.best = array("Q", bytes(8 * number))
        self.owners: list[str] = [""] * number
        self.seeds: dict[str, int] = {}
        self._lanes = Lanes(self.hashes)

    def join(self, member: str) -> int:
        """Adds a member; returns how many keys it takes."""
        seed = self.seeds[member] = member_seed(member)
        return len(_take(self._lanes.scores(seed), member, self.best, self.owners))

    def leave(self, members: Sequence[str]) -> int:
        """Removes members; returns how many keys they had."""
        gone = set(members)
        for one in members:
            del self.seeds[one]
        moved = [index for index, owner in enumerate(self.owners) if owner in gone]
        lanes = Lanes(array("Q", (self.hashes[index] for index in moved)))
        best, owners = array("Q", bytes(8 * len(moved))), [""] * len(moved)
        for member, seed in self.seeds.items():
            _take(lanes.scores(seed), member, best, owners)
        for place, index in enumerate(moved):
            self.best[index], self.owners[index] = best[place], owners[place]
        return len(moved)


def _take(scores: "array[int]", member: str, best: "array[int]", owners: list[str]) -> list[int]:
    """Gives a member the keys for which it has the highest score; returns their indices."""
    taken = list(compress(range(len(scores)), map(ge, scores, best)))
    for index in taken:
        best[index], owners[index] = scores[index], member
    return taken


class Lanes:
    """Scores of many keys at once: integers of 128 bits for each key, half of them for what a product overflows.

    It is the function of `rendezvous.py` with the operations of long integers, which are loops in C: five times as fast
    as a call for each key. A block fits into the cache of a processor.
    """

    BLOCK = 4096

    def __init__(self, hashes: "array[int]") -> None:
        self._blocks = [
            (len(block), _pack(block))
            for block in (hashes[at : at + self.BLOCK] for at in range(0, len(hashes), self.BLOCK))
        ]

    def scores(self, seed: int) -> "array[int]":
        """The scores of all keys for the member with this seed."""
        found = array("Q")
        for size, packed in self._blocks:
            ones = _ones(size)
            mask = ones * _MASK
            mixed = packed + ones * seed & mask
            mixed = (mixed ^ mixed >> 30 & mask) * 0xBF58476D1CE4E5B9 & mask
            mixed = (mixed ^ mixed >> 27 & mask) * 0x94D049BB133111EB & mask
            lanes = array("Q", (mixed ^ mixed >> 31 & mask).to_bytes(16 * size, "little"))
            found.extend(lanes[::2])
        return found


def _pack(block: "array[int]") -> int:
    lanes = array("Q", bytes(16 * len(block)))
    lanes[::2] = block
    return int.from_bytes(lanes.tobytes(), "little")


@cache
def _ones(size: int) -> int:
    return int.from_bytes((b"\1" + bytes(15)) * size, "little")


@dataclass(frozen=True, slots=True)
class Change:
    """What one change did: the seconds that a key had no owner at most, the keys that moved, and messages each second."""

    at: float
    what: str
    gap: float
    moved: int
    members: int
    messages: float


class Fleet:
    """Members on a simulated API server."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.simulation = Simulation(1)
        random = self.simulation.random
        self.server = ModelServer(self.simulation, lambda: random.uniform(0.002, 0.02))
        self.living: list[ModelMember] = []
        self._numbers = count()
        for _ in range(size):
            self.start()
        self.joined_at = self._wait_joined()

    def start(self) -> ModelMember:
        member = ModelMember(f"m{next(self._numbers):05}", self.server)
        random, simulation = self.simulation.random, self.simulation
        ends: dict[int, float] = {}

        def is_drained(one: ModelMember) -> bool:
            end = ends.setdefault(len(one.respected_at), simulation.now + random.uniform(0.0, 1.0))
            return simulation.now >= end

        member.is_drained = is_drained
        self.living.append(member)
        return member

    def _wait_joined(self) -> float:
        while not all(one.may_act() for one in self.living):
            self.simulation.run(self.simulation.now + 1.0)
            assert self.simulation.now < 600.0, "all join within ten minutes"
        return self.simulation.now

    def change(self, what: str) -> tuple[list[ModelMember], list[ModelMember]]:
        """Makes a change; returns the members that are gone and those that start."""
        number = {"join": 0, "zone": ZONE}.get(what, 1)
        gone = [self.living.pop(self.simulation.random.randrange(len(self.living))) for _ in range(number)]
        for one in gone:
            if what in {"kill", "zone"}:
                one.kill()
            else:
                one.leave()
        return gone, [self.start() for _ in range(1 if what == "join" else 0 if what == "leave" else number)]

    def gap(self, at: float, gone: Sequence[ModelMember], made: Sequence[ModelMember]) -> float:
        """The longest time without an owner: until all know who is gone, and until those that join may act."""
        before = [one for one in self.living if one not in made]
        longest = max((one.forgot_at.get(other.me, at) - at for one in before for other in gone), default=0.0)
        for one in made:
            assert one.admitted_at is not None, f"{one.me} has joined"
            first = min(other.respected_at[one.me] for other in before if one.me in other.respected_at)
            longest = max(longest, one.admitted_at - first)
        return longest


def simulate(size: int, keys: int, changes: int) -> dict[str, Any]:
    """Lets members come and go; returns what that cost."""
    fleet, owners = Fleet(size), Keys(keys)
    for one in fleet.living:
        owners.join(one.me)
    spread = Counter(owners.owners)
    began, before = fleet.simulation.now, Counter(fleet.server.messages)
    quiet = _quiet_messages(fleet)
    made = [_make_change(fleet, owners, began) for _ in range(changes)]
    seconds, spent = fleet.simulation.now - began, Counter(fleet.server.messages)
    spent.subtract(before)
    return {
        "members": size,
        "keys": keys,
        "virtual_seconds": seconds,
        "seconds_to_join": fleet.joined_at,
        "keys_per_member": [min(spread.values()), max(spread.values())],
        "messages_per_second": {name: round(number / seconds, 1) for name, number in spent.items()},
        "messages_per_second_in_peace": quiet,
        "by_kind": {what: _summary([one for one in made if one.what == what]) for what in KINDS},
        "changes": [asdict(one) for one in made],
    }


def _quiet_messages(fleet: Fleet) -> dict[str, float]:
    before = Counter(fleet.server.messages)
    fleet.simulation.run(fleet.simulation.now + PAUSE)
    spent = Counter(fleet.server.messages)
    spent.subtract(before)
    return {name: round(number / PAUSE, 1) for name, number in spent.items() if number}


def _make_change(fleet: Fleet, owners: Keys, began: float) -> Change:
    simulation, size = fleet.simulation, fleet.size
    what, at = simulation.random.choice(KINDS), simulation.now
    if what in {"join", "leave"}:  # the number of members stays near the size
        what = "join" if len(fleet.living) < size else "leave" if len(fleet.living) > size else what
    sent = sum(fleet.server.messages.values())
    gone, made = fleet.change(what)
    simulation.run(at + PAUSE)
    while not all(one.may_act() for one in fleet.living):
        simulation.run(simulation.now + 1.0)
    moved = owners.leave([one.me for one in gone]) if gone else 0
    moved += sum(owners.join(one.me) for one in made)
    messages = (sum(fleet.server.messages.values()) - sent) / (simulation.now - at)
    return Change(at - began, what, fleet.gap(at, gone, made), moved, len(fleet.living), messages)


def _summary(changes: Sequence[Change]) -> dict[str, Any]:
    if not changes:
        return {"changes": 0}
    return {
        "changes": len(changes),
        "longest_gap": round(max(one.gap for one in changes), 2),
        "keys_moved": round(sum(one.moved for one in changes) / len(changes)),
        "messages_per_second": round(sum(one.messages for one in changes) / len(changes)),
    }


# --- plots ------------------------------------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 760, 260, 70, 36, 46


def plot(found: dict[str, Any], name: str, title: str, ticks: Sequence[float]) -> str:
    """One figure of each change over time, as SVG: a dot for each, in the color of its kind."""
    tall, wide = HEIGHT - TOP - BOTTOM, WIDTH - LEFT - 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{title}</text>',
    ]
    for tick in ticks:
        y = TOP + tall - tall * tick / ticks[-1]
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:,g}</text>')
    for one in found["changes"]:
        x = LEFT + 10 + (wide - 20) * one["at"] / found["virtual_seconds"]
        y = TOP + tall - tall * min(1.0, one[name] / ticks[-1])
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{COLORS[one["what"]]}"/>')
    for index, (what, color) in enumerate(COLORS.items()):
        x = LEFT + 138 * index
        parts.append(f'<circle cx="{x}" cy="{HEIGHT - 16}" r="5" fill="{color}"/>')
        parts.append(f'<text x="{x + 10}" y="{HEIGHT - 12}" font-size="11">{WORDS[what]}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def write_plots(found: dict[str, Any], folder: Path) -> None:
    size = f"{found['members']} members, {found['keys']:,} keys"
    most = max(one["moved"] for one in found["changes"])
    step = 10 ** (len(str(most)) - 1) / 2
    steps = [step * number for number in range(int(most / step) + 2)]
    loads = max(one["messages"] for one in found["changes"])
    messages = [1000.0 * number for number in range(int(loads / 1000) + 2)]
    folder.mkdir(parents=True, exist_ok=True)
    plots = {
        "sharding-gaps.svg": plot(
            found, "gap", f"Seconds without an owner at most, by change ({size})", [0, 5, 10, 15, 17]
        ),
        "sharding-moves.svg": plot(found, "moved", f"Keys that moved, by change ({size})", steps),
        "sharding-messages.svg": plot(
            found, "messages", f"Messages per second at the API server, by change ({size})", messages
        ),
    }
    for name, text in plots.items():
        (folder / name).write_text(text, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=30)
    parser.add_argument("--plots", type=Path, default=ROOT / "build")
    given = parser.parse_args()
    found = simulate(given.members, given.keys, given.changes)
    write_plots(found, given.plots)
    print(json.dumps({name: value for name, value in found.items() if name != "changes"}, indent=1))


if __name__ == "__main__":
    main()
