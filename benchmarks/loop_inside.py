"""The cost of the loop alone, measured inside one process; `python loop_inside.py WHAT` prints one line of JSON.

`dispatch` is enqueue, schedule, worker, context, metrics and history around a reconciler that does nothing; `latency`
is from the commit in the storage to the call of the reconciler, at a thousand changes a second;
`memory` is the size of a hundred thousand queued keys.
"""

import asyncio
import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from cache_server import define, fill, write
from levelset import Client, Context, Controller, Manager, Ref
from levelset.apiserver import ApiServer
from levelset.storage import MemoryStorage
from models_levelset import Website

OBJECTS, ROUNDS, KEYS, RATE = 1_000, 300, 100_000, 1_000


async def with_manager(controller: Controller[Any], objects: int, use: Any) -> dict[str, float]:
    """A server in this process with some objects, and a manager with its metrics on that runs the controller."""
    storage = MemoryStorage()
    server = ApiServer(storage)
    await server.start(listen=False)
    await define(server)
    keys = [fill(server, storage, "Website", number) for number in range(objects)]
    try:
        async with await Client.connect(server) as client, Manager(client, health=None) as manager:
            manager.add(controller)
            await manager.wait_elected()
            return await use(manager.controllers[controller.name], storage, keys)
    finally:
        await server.stop()


async def dispatch() -> dict[str, float]:
    async def nothing(_: Website, __: Context) -> None:
        pass

    async def use(running: Any, _: MemoryStorage, keys: Any) -> dict[str, float]:
        await running.wait_idle()
        refs = [Ref(Website, *reversed(key.rsplit("/", 2)[1:])) for key, _ in keys]
        gc.collect()
        gc.freeze()
        began = time.process_time()
        for _ in range(ROUNDS):
            for ref in refs:
                running.enqueue(ref)
            await running.wait_idle()
        spent = time.process_time() - began
        return {"per_second": ROUNDS * len(refs) / spent}

    return await with_manager(Controller(Website, nothing), OBJECTS, use)


async def latency() -> dict[str, float]:
    began: dict[str, float] = {}
    found: list[float] = []

    async def reconcile(site: Website, _: Context) -> None:
        if site.name in began:
            found.append(time.perf_counter() - began[site.name])

    async def use(running: Any, storage: MemoryStorage, keys: Any) -> dict[str, float]:
        await running.wait_idle()
        gc.collect()
        gc.freeze()
        start = time.perf_counter()
        for number in range(10 * RATE):
            while (ahead := start + number / RATE - time.perf_counter()) > 0:  # noqa: ASYNC110  # a pace
                await asyncio.sleep(ahead)
            key, value = keys[number % len(keys)]
            began[key.rpartition("/")[2]] = time.perf_counter()
            write(storage, key, value, number // len(keys))
        await asyncio.sleep(0.5)
        found.sort()
        return {
            "seen": len(found),
            "p50": found[len(found) // 2] * 1e3,
            "p99": found[len(found) * 99 // 100] * 1e3,
            "worst": found[-1] * 1e3,
        }

    return await with_manager(Controller(Website, reconcile), OBJECTS, use)


async def memory() -> dict[str, float]:
    stop = asyncio.Event()

    async def wait(_: Website, __: Context) -> None:
        await stop.wait()

    async def use(running: Any, *_: object) -> dict[str, float]:
        await asyncio.sleep(0.5)
        refs = [Ref(Website, f"site-{number}", f"team-{number % 97}") for number in range(KEYS)]
        gc.collect()
        before, began = resident(), time.process_time()
        for ref in refs:
            running.enqueue(ref)
        spent = time.process_time() - began
        gc.collect()
        took = resident() - before
        stop.set()
        return {"bytes_per_key": took / KEYS, "enqueue_us": spent / KEYS * 1e6}

    return await with_manager(Controller(Website, wait, concurrency=1), 1, use)


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    chosen = {"dispatch": dispatch, "latency": latency, "memory": memory}[sys.argv[1]]
    print(json.dumps(asyncio.run(chosen())), flush=True)
