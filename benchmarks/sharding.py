"""Measures shared work: a simulation of many members, and real ones as processes.

    python benchmarks/sharding.py simulate [--members 100 --keys 1000000 --seconds 300]
    python benchmarks/sharding.py processes [--objects 100000 --members 1 2 4]

`simulate` runs the pure core with a model of the API server in virtual time while members come and go, and writes a plot
(build/sharding.svg). `processes` reconciles objects with CPU-bound functions in one, two and four processes, by
turns, and measures CPU time and memory of each process.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import sys
import time
from array import array
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


# --- the simulation ---------------------------------------------------------------------------------------------------


class Keys:
    """The owner of each key as members come and go, kept up to date: one score for each key and change."""

    def __init__(self, number: int) -> None:
        from levelset.runtime.manager.sharding.rendezvous import key_hash

        self.hashes = array("Q", (key_hash(f"sites/default/site-{one}") for one in range(number)))
        self.best = array("Q", bytes(8 * number))
        self.owners: list[str] = [""] * number
        self.seeds: dict[str, int] = {}

    def join(self, member: str) -> int:
        """Adds a member; returns how many keys it takes."""
        from levelset.runtime.manager.sharding.rendezvous import _score, member_seed

        seed = self.seeds[member] = member_seed(member)
        best, owners, moved = self.best, self.owners, 0
        for index, hashed in enumerate(self.hashes):
            score = _score(hashed, seed)
            if score >= best[index]:
                best[index], owners[index] = score, member
                moved += 1
        return moved

    def leave(self, member: str) -> int:
        """Removes a member; returns how many keys it had."""
        from levelset.runtime.manager.sharding.rendezvous import _score

        del self.seeds[member]
        best, owners, moved = self.best, self.owners, 0
        for index, owner in enumerate(owners):
            if owner == member:
                hashed = self.hashes[index]
                best[index], owners[index] = max((_score(hashed, seed), one) for one, seed in self.seeds.items())
                moved += 1
        return moved


def simulate(members: int, keys: int, seconds: float) -> dict[str, Any]:
    from tests.runtime.manager.sharding.protocol_model import ModelMember, ModelServer, Simulation

    simulation = Simulation(1)
    random = simulation.random
    server = ModelServer(simulation, lambda: random.uniform(0.002, 0.02))
    known = Keys(keys)
    living: list[ModelMember] = []
    numbers = iter(range(10**6))
    gaps: list[dict[str, Any]] = []

    def start() -> ModelMember:
        member = ModelMember(f"m{next(numbers):05}", server)
        drained_at: dict[int, float] = {}

        def is_drained(one: ModelMember) -> bool:
            # A reconcile of an object that moves takes up to a second.
            until = drained_at.setdefault(len(one.respected_at), simulation.now + random.uniform(0.0, 1.0))
            return simulation.now >= until

        member.is_drained = is_drained
        living.append(member)
        return member

    for _ in range(members):
        start()
    simulation.run(60.0)
    assert all(one.may_act() for one in living), "all have joined"
    spread = Counter[str]()
    for one in living:
        known.join(one.me)
    spread.update(known.owners)
    joined_at, messages = simulation.now, Counter(server.messages)
    timeline: list[tuple[float, int]] = []
    end = simulation.now + seconds
    while simulation.now < end:
        before = Counter(server.messages)
        what, at = random.choice(("kill", "replace", "join", "leave")), simulation.now
        if what == "join" and len(living) >= members + 5:
            what = "leave"
        if what == "leave" and len(living) <= members - 5:
            what = "join"
        gone = None if what == "join" else living.pop(random.randrange(len(living)))
        if gone is not None and what == "kill":
            gone.kill()
        elif gone is not None:
            gone.leave()
        made = start() if what in {"join", "replace", "kill"} else None
        simulation.run(simulation.now + 25.0)
        gap = 0.0
        moved = 0
        if gone is not None:
            gap = max(one.forgot_at.get(gone.me, at) - at for one in living if one is not made)
            moved += known.leave(gone.me)
        if made is not None:
            assert made.admitted_at is not None, "it has joined"
            first = min(one.respected_at[made.me] for one in living if one is not made and made.me in one.respected_at)
            gap = max(gap, made.admitted_at - first)
            moved += known.join(made.me)
        sent = Counter(server.messages)
        sent.subtract(before)
        gaps.append({"at": at - joined_at, "what": what, "gap": gap, "moved": moved, "members": len(living)})
        timeline.append((simulation.now - joined_at, sum(sent.values())))
    spent = Counter(server.messages)
    spent.subtract(messages)
    duration = simulation.now - joined_at
    return {
        "members": members,
        "keys": keys,
        "seconds": duration,
        "changes": len(gaps),
        "longest_gap": {
            what: max((one["gap"] for one in gaps if one["what"] == what), default=0.0)
            for what in ("kill", "replace", "join", "leave")
        },
        "moved_per_change": sum(one["moved"] for one in gaps) / len(gaps),
        "keys_per_member": [min(spread.values()), max(spread.values())],
        "per_second": {name: count / duration for name, count in spent.items()},
        "gaps": gaps,
    }


def plot(found: dict[str, Any], path: Path) -> None:
    """Draws the time without an owner of each change, and the keys that moved, as SVG."""
    width, height, left, top = 760, 300, 60, 40
    longest, span = 18.0, found["seconds"]
    most = max(one["moved"] for one in found["gaps"]) * 1.2
    colors = {"kill": "#c0392b", "replace": "#8e44ad", "join": "#2471a3", "leave": "#1e8449"}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {2 * height + 40}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="20" font-size="14">Seconds without an owner, by change ({found["members"]} members, {found["keys"]:,} keys)</text>',
        f'<text x="{left}" y="{height + 30}" font-size="14">Keys that moved, by change</text>',
    ]
    for row, (limit, steps, name) in enumerate(
        ((longest, (0, 5, 10, 15, 17), "gap"), (most, tuple(int(most * one / 4) for one in range(5)), "moved"))
    ):
        base = top + row * height
        tall = height - 70
        for step in steps:
            y = base + tall - tall * step / limit
            parts.append(f'<line x1="{left}" x2="{width - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
            parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{step:,}</text>')
        for one in found["gaps"]:
            x = left + (width - left - 30) * one["at"] / span
            y = base + tall - tall * one[name] / limit
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colors[one["what"]]}"/>')
    for index, (name, color) in enumerate(colors.items()):
        x = left + 120 * index
        parts.append(
            f'<circle cx="{x}" cy="{2 * height + 22}" r="5" fill="{color}"/><text x="{x + 10}" y="{2 * height + 26}">{name}</text>'
        )
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", "utf-8")


# --- real members as processes ----------------------------------------------------------------------------------------


def member_process(kubeconfig: str, number: int, work: int, barrier: Any, results: Any) -> None:
    """One member: joins, waits for the others, and reconciles what it owns; reports its CPU time and memory."""
    asyncio.run(_member(kubeconfig, number, work, barrier, results))
    os._exit(0)  # without handing over what it owns


async def _member(kubeconfig: str, number: int, work: int, barrier: Any, results: Any) -> None:
    from levelset import Client, Context, Controller, Manager, Sharding
    from levelset.kinds.core_v1 import ConfigMap

    done, began = 0, (0.0, 0.0)

    async def reconcile(_: ConfigMap, __: Context) -> None:
        nonlocal done
        done += 1
        total = 0
        for index in range(work):
            total += index * index

    async def wait_for_all() -> None:
        nonlocal began
        await asyncio.to_thread(barrier.wait)
        began = time.process_time(), time.perf_counter()

    shards = Sharding(name="bench", namespace="default", lease=600, renew=500.0)
    async with (
        await Client.connect(kubeconfig) as client,
        Manager(client, shards=shards, health=None, sync_within=None) as manager,
    ):
        manager.on_elected(wait_for_all)
        manager.add(Controller(ConfigMap, reconcile, namespace="bench", name="bench"))
        await manager.wait_elected()
        memory = _rss()
        await manager.wait_idle()
        cpu, wall = time.process_time() - began[0], time.perf_counter() - began[1]
        counts = {"number": number, "done": done, "owned": manager.shard_counts()["bench"][0]}
        results.put({**counts, "start_cpu": began[0], "rss": memory, "cpu": cpu, "wall": wall})
        await asyncio.to_thread(barrier.wait)
        os._exit(0)  # without handing over what it owns


def _rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def processes(objects: int, sizes: list[int], work: int, turns: int) -> list[dict[str, Any]]:
    """Runs one, two and four members by turns on a server in this process."""
    from levelset import Client, ObjectMeta
    from levelset.apiserver import ApiServer, ConnectionInfo, write_kubeconfig
    from levelset.kinds.core_v1 import ConfigMap, Namespace
    from levelset.runtime.manager import Lease

    found: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        path = Path(folder, "kubeconfig")
        async with ApiServer() as server, await Client.connect(server) as client:
            write_kubeconfig(path, ConnectionInfo(server.url, server.token, server.ca))
            await client.create(Namespace(metadata=ObjectMeta(name="bench")))
            for number in range(objects):
                metadata = ObjectMeta(name=f"site-{number}", namespace="bench")
                await client.create(ConfigMap(metadata=metadata, data={"title": f"Site {number}", "text": "x" * 200}))
            for turn in range(turns):
                for size in sizes:
                    made = await asyncio.to_thread(_run_members, str(path), size, work)
                    found.append({"turn": turn, "members": size, "processes": made})
                    print(json.dumps(found[-1]), flush=True)
                    for lease in await client.list(Lease, namespace="default"):
                        await client.delete(lease.ref)
    return found


def _run_members(kubeconfig: str, size: int, work: int) -> list[dict[str, Any]]:
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(size), context.Queue()
    members = [
        context.Process(target=member_process, args=(kubeconfig, number, work, barrier, results))
        for number in range(size)
    ]
    for one in members:
        one.start()
    made = [results.get() for _ in members]
    for one in members:
        one.join()
    return sorted(made, key=lambda one: int(one["number"]))


def show(found: list[dict[str, Any]]) -> None:
    print(f"{'members':>8} {'CPU s each, reconciling':>26} {'sum':>8} {'CPU s each, to start':>22} {'MB each':>8}")
    for one in found:
        cpu = [it["cpu"] for it in one["processes"]]
        start = [it["start_cpu"] for it in one["processes"]]
        memory = max(it["rss"] for it in one["processes"]) / 1e6
        each = f"{min(cpu):.1f} to {max(cpu):.1f}"
        print(f"{one['members']:>8} {each:>26} {sum(cpu):>8.1f} {max(start):>22.1f} {memory:>8.0f}")
    one = [max(it["cpu"] for it in run["processes"]) for run in found if run["members"] == 1]
    for size in sorted({run["members"] for run in found} - {1}):
        several = [max(it["cpu"] for it in run["processes"]) for run in found if run["members"] == size]
        if one:
            print(
                f"{size} members: {min(several) / min(one):.3f} of one member's CPU time; 1/N x 1.2 is {1.2 / size:.3f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("simulate", "processes"))
    parser.add_argument("--members", type=int, nargs="+", default=None)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--objects", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--work", type=int, default=4000, help="steps of a reconcile; 4,000 are about 0.2 ms")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--plot", type=Path, default=ROOT / "build/sharding.svg")
    given = parser.parse_args()
    if given.what == "simulate":
        found = simulate((given.members or [100])[0], given.keys, given.seconds)
        given.plot.parent.mkdir(parents=True, exist_ok=True)
        plot(found, given.plot)
        print(json.dumps({name: value for name, value in found.items() if name != "gaps"}, indent=1))
        return
    show(asyncio.run(processes(given.objects, given.members or [1, 2, 4], given.work, given.turns)))


if __name__ == "__main__":
    main()
