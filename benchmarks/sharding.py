"""Measures members that share objects as processes: CPU time and memory of each, by turns.

    python benchmarks/sharding.py [--objects 100000 --members 1 2 4 --turns 3]

One, two and four processes reconcile the objects of one API server with a CPU-bound function. What is compared is the
CPU time of the busiest process, the median of all turns: on as many cores as processes it is how long all of them
take. Members run as under `levelset.run`: on uvloop if it is installed. Many members, and what happens when they come
and go, are in `sharding_simulation.py`.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any


def member_process(kubeconfig: str, number: int, work: int, barrier: Any, results: Any) -> None:
    """One member: joins, waits for the others, and reconciles what it owns; reports its CPU time and memory."""
    from levelset.aio import event_loop

    event_loop.run(_member(kubeconfig, number, work, barrier, results))
    os._exit(0)  # without handing over what it owns


async def _member(kubeconfig: str, number: int, work: int, barrier: Any, results: Any) -> None:
    from levelset import Client, Context, Controller, Manager, Sharding
    from levelset.kinds.core_v1 import ConfigMap

    done, began = 0, (0.0, 0.0)

    async def reconcile(_: ConfigMap, __: Context) -> None:
        nonlocal done, began
        if not done:  # none starts before all objects are cached
            began = time.process_time(), time.perf_counter()
        done += 1
        total = 0
        for index in range(work):
            total += index * index

    shards = Sharding(name="bench", namespace="default", lease=600, renew=500.0)
    async with (
        await Client.connect(kubeconfig) as client,
        Manager(client, shards=shards, health=None, sync_within=None) as manager,
    ):
        manager.on_elected(lambda: asyncio.to_thread(barrier.wait))
        manager.add(Controller(ConfigMap, reconcile, namespace="bench", name="bench"))
        await manager.wait_elected()
        await manager.wait_idle()
        cpu, wall = time.process_time() - began[0], time.perf_counter() - began[1]
        counts = {"number": number, "done": done, "owned": manager.shard_counts()["bench"][0]}
        results.put({**counts, "start_cpu": began[0], "rss": _rss(), "cpu": cpu, "wall": wall})
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
    # Not a Queue: its thread may not have written yet when the process exits.
    barrier, results = context.Barrier(size), context.SimpleQueue()
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
    for size in sorted({run["members"] for run in found} - {1}):
        for what, fields in (("reconciling", ("cpu",)), ("with the start", ("start_cpu", "cpu"))):
            one, several = (_busiest(found, number, fields) for number in (1, size))
            if one:
                ratio = median(several) / median(one)
                print(f"{size} members, {what}: {ratio:.3f} of one member's CPU time; 1/N x 1.2 is {1.2 / size:.3f}")


def _busiest(found: list[dict[str, Any]], size: int, fields: tuple[str, ...]) -> list[float]:
    """The CPU time of the busiest member in each turn with so many members."""
    runs = [run["processes"] for run in found if run["members"] == size]
    return [max(sum(it[field] for field in fields) for it in run) for run in runs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--objects", type=int, default=100_000)
    parser.add_argument("--work", type=int, default=4000, help="steps of a reconcile; 4,000 are about 0.2 ms")
    parser.add_argument("--turns", type=int, default=1)
    given = parser.parse_args()
    show(asyncio.run(processes(given.objects, given.members, given.work, given.turns)))


if __name__ == "__main__":
    main()
