"""Measures typed reads from a cache: all Pods the first time and again, a few of their fields, and no-op reconciles.

`python benchmarks/typed_reads.py` prints each figure with the number of objects. Pods are those of `levelset.kinds`, with
every field that Kubernetes has; `msgspec alone` is its decoder for that class on the same bytes. The garbage
collector is set as by `levelset.run`. Each row is a process of its own, best of several rounds, in CPU time.
`PYTHONPATH=<tree>/src` measures another version.
"""

import argparse
import asyncio
import inspect
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import payloads
from levelset import Client, Context, Controller, Manager, Object, Ref, Status
from levelset.apiserver import ApiServer
from levelset.garbage_collection import exempt, raise_threshold
from levelset.kinds.core_v1 import Pod
from levelset.objects import codec, decode_cached
from levelset.runtime.cache import Cluster
from levelset.storage import MemoryStorage

from cache_server import define, fill  # isort: skip  # beside this file
from models_levelset import Website  # isort: skip

GIB = 2**30


class Phase(Status):
    phase: str = ""


class PodPhase(Object, api="v1", kind="Pod"):
    """A Pod of which only the metadata and the phase are read; the rest of its JSON is skipped."""

    status: Phase = Phase()


def timed(call: Callable[[], Any]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def read_all(objects: Iterable[Any]) -> None:
    for one in objects:
        one.metadata  # noqa: B018  # an attribute of the typed object


def floor(kind: str, count: int) -> dict[str, float]:
    """msgspec alone: each of the objects decoded once, and held."""
    class_ = {"Pod": Pod, "Website": Website}[kind]
    make = {"Pod": payloads.pod, "Website": payloads.website}[kind]
    raws = [decode_cached(make(number), managed_fields=False).raw for number in range(count)]
    read = codec.plain_reader(class_)
    read(raws[0])
    return {"first": min(timed(lambda: [read(raw) for raw in raws]) for _ in range(5)) / count * 1e6}


async def lists(kind: str, count: int, budget: int) -> dict[str, float]:
    """A list of all objects of a filled cache, and a typed read of each: the first time, and again."""
    class_ = {"Pod": Pod, "Website": Website, "PodPhase": PodPhase}[kind]
    storage = MemoryStorage()
    server = ApiServer(storage)
    await server.start(listen=False)
    await define(server)
    for number in range(count):
        fill(server, storage, "Website" if kind == "Website" else "Pod", number)
    options: dict[str, Any] = (
        {"decoded_bytes": budget} if "decoded_bytes" in inspect.signature(Cluster).parameters else {}
    )
    try:
        async with await Client.connect(server) as client, Cluster(client, **options) as cluster:
            cluster.declare(class_)
            await cluster.wait_ready()
            await cluster.list(class_)
            times = []
            for _ in range(6):
                began = time.process_time()
                listed = await cluster.list(class_)
                middle = time.process_time()
                read_all(listed)
                times.append((middle - began, time.process_time() - middle))
            return {
                "list": min(one for one, _ in times) / count * 1e6,
                "first": times[0][1] / count * 1e6,
                "again": min(read for _, read in times[2:]) / count * 1e6,
            }
    finally:
        await server.stop()


async def no_ops(count: int, budget: int) -> dict[str, float]:
    """Reconciles that do nothing, of each key again and again."""

    async def nothing(_: Website, __: Context) -> None:
        pass

    storage = MemoryStorage()
    server = ApiServer(storage)
    await server.start(listen=False)
    await define(server)
    keys = [fill(server, storage, "Website", number)[0] for number in range(count)]
    options: dict[str, Any] = (
        {"decoded_bytes": budget} if "decoded_bytes" in inspect.signature(Manager).parameters else {}
    )
    try:
        async with await Client.connect(server) as client, Manager(client, health=None, **options) as manager:
            controller = Controller(Website, nothing)
            manager.add(controller)
            await manager.wait_elected()
            running = manager.controllers[controller.name]
            await running.wait_idle()
            refs = [Ref(Website, *reversed(key.rsplit("/", 2)[1:])) for key in keys]
            spent = []
            for _ in range(max(4, 200_000 // count)):
                began = time.process_time()
                for ref in refs:
                    running.enqueue(ref)
                await running.wait_idle()
                spent.append(time.process_time() - began)
            return {
                "per_second": count / min(spent[2:]),
                "median_per_second": count / sorted(spent[2:])[len(spent) // 2 - 1],
            }
    finally:
        await server.stop()


def child(*arguments: object) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--one", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{arguments} failed:\n{done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def one(what: str, *arguments: str) -> dict[str, float]:
    raise_threshold()
    exempt("imports")
    if what == "floor":
        return floor(arguments[0], int(arguments[1]))
    if what == "lists":
        return asyncio.run(lists(arguments[0], int(arguments[1]), int(arguments[2])))
    return asyncio.run(no_ops(int(arguments[0]), int(arguments[1])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=["reads", "no-ops"])
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(*options.one)))
        return
    if options.only != "no-ops":
        print("| kind | objects | memory | list us | first read us | read again us |\n|---|---|---|---|---|---|")
        for kind, count, budget in (
            ("Pod", 2_000, 64 * 2**20), ("Pod", 10_000, GIB), ("PodPhase", 10_000, GIB), ("Website", 10_000, 64 * 2**20),
            ("Website", 10_000, 0),
        ):  # fmt: skip
            found = child("lists", kind, count, budget)
            print(
                f"| {kind} | {count:,} | {budget // 2**20} MiB | {found['list']:.2f} | {found['first']:.2f} "
                f"| {found['again']:.2f} |",
                flush=True,
            )
        for kind, count in (("Pod", 10_000), ("Website", 10_000)):
            print(
                f"| {kind}, msgspec alone | {count:,} | | | {child('floor', kind, count)['first']:.2f} | |", flush=True
            )
    if options.only != "reads":
        print("\n| keys | memory | no-op reconciles/s and core | median |\n|---|---|---|---|")
        for count, budget in (
            (1_000, 64 * 2**20),
            (20_000, 0),
            (20_000, 64 * 2**20),
            (20_000, GIB),
            (100_000, 64 * 2**20),
            (100_000, GIB),
        ):
            found = child("no-ops", count, budget)
            print(
                f"| {count:,} | {budget // 2**20} MiB | {found['per_second']:,.0f} | {found['median_per_second']:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
