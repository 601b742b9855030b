"""levelset on the work of `bench-runtimes`: the first argument says which. KUBECONFIG says where the server is.

The event loop is that of `levelset.run`: uvloop if it is installed. `BENCH_LOOP=asyncio` is asyncio's own.
"""

import asyncio
import gc
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from levelset import Client, Context, Controller, Manager, ObjectMeta, Ref, owns
from levelset.aio import event_loop
from levelset.kinds.core_v1 import ConfigMap, Namespace, Pod
from levelset.runtime.cache import Cluster

sys.path.insert(0, str(Path(__file__).parents[1]))

from models_levelset import Website, WebsiteStatus


def cpu() -> float:
    """User and system time of all threads until now, in seconds."""
    return time.process_time()


def memory() -> int:
    """Resident memory in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def collected() -> int:
    gc.collect()
    return memory()


def say(phase: str, number: int = 0, spent: float = 0.0, used: float = 0.0) -> None:
    print(json.dumps({"phase": phase, "number": number, "cpu": spent, "memory": used}), flush=True)


async def next_command() -> str:
    return await asyncio.to_thread(sys.stdin.readline)


async def synced(client: Client, cluster: Cluster, kind: Any) -> Any:
    """Fills a cache of one kind, and prints what that took."""
    await client.list(Namespace)  # connected before it is measured
    before, began = collected(), cpu()
    handle = cluster.declare(kind)
    await handle.wait_ready(within=600)
    spent = cpu() - began
    say("synced", len(handle.store), spent, collected() - before)
    return handle


async def sync_websites() -> None:
    """Lists all Websites into a cache that a watch follows, and then reads each of them by its key."""
    async with await Client.connect() as client, Cluster(client) as cluster:
        handle = await synced(client, cluster, Website)
        numbers = range(len(handle.store))
        refs = [Ref(Website, f"website-{number:07d}", f"team-{number % 97}") for number in numbers]
        began = cpu()
        length = 0
        for ref in refs:
            length += len((await cluster.get(ref)).spec.image)
        assert length
        say("read each", len(refs), cpu() - began)


async def sync_pods() -> None:
    """Lists all Pods into a cache that a watch follows, and then reads all of them, twice."""
    async with await Client.connect() as client, Cluster(client) as cluster:
        await synced(client, cluster, Pod)
        for phase in ("read all", "read again"):
            began = cpu()
            running = 0
            for pod in await cluster.list(Pod):
                assert pod.spec is not None
                assert pod.status is not None
                running += bool(pod.spec.containers[0].image) and pod.status.phase == "Running"
            say(phase, running, cpu() - began)


class Counter:
    """Counts reconciles, and sets an event when as many as expected were seen."""

    def __init__(self, expected: int) -> None:
        self.seen, self.until = 0, expected
        self.reached = asyncio.Event()

    def expect(self, more: int) -> None:
        self.until += more
        self.reached.clear()

    async def reconcile(self, site: Website, _: Context) -> None:
        if site.spec.image:
            self.seen += 1
            if self.seen == self.until:
                self.reached.set()


async def storm(count: int, concurrency: int) -> None:
    """Reconciles each Website once, and again whenever the benchmark has changed all of them."""
    counter = Counter(count)
    async with await Client.connect() as client, Manager(client) as manager:
        manager.add(Controller(Website, counter.reconcile, concurrency=concurrency))
        await counter.reached.wait()
        say("watching", count)
        while await next_command():
            counter.expect(count)
            began = cpu()
            say("begun")
            await counter.reached.wait()
            say("watched", count, cpu() - began)


async def noop(count: int, rounds: int, concurrency: int) -> None:
    """Reconciles all keys again and again, without a change."""
    counter = Counter(count)
    async with await Client.connect() as client, Manager(client) as manager:
        controller = Controller(Website, counter.reconcile, concurrency=concurrency)
        manager.add(controller)
        await counter.reached.wait()
        running = manager.controllers[controller.name]
        await running.wait_idle()
        refs = [one.ref for one in await manager.cluster.list(Website)]
        began = cpu()
        for _ in range(rounds):
            counter.expect(len(refs))
            for ref in refs:
                running.enqueue(ref)
            await counter.reached.wait()
        say("reconciled", rounds * len(refs), cpu() - began)


async def reconcile(site: Website, ctx: Context) -> None:
    """Gives a Website its child and its status."""
    metadata = ObjectMeta(name=site.name, namespace=site.namespace)
    await ctx.apply(ConfigMap(metadata=metadata, data={"image": site.spec.image}), owner=site)
    await ctx.set_status(site, WebsiteStatus(ready=1))


async def operator(concurrency: int) -> None:
    """The child is watched, and is applied only if it is not as it should be."""
    async with await Client.connect() as client, Manager(client) as manager:
        manager.add(Controller(Website, reconcile, owns(ConfigMap), concurrency=concurrency))
        await manager.wait_idle()
        say("started", 0, cpu(), memory())
        while await next_command():
            say("cpu", 0, cpu(), memory())


WORK: dict[str, Any] = {
    "websites": sync_websites,
    "pods": sync_pods,
    "storm": storm,
    "noop": noop,
    "operator": operator,
}


if __name__ == "__main__":
    if os.environ.get("BENCH_LOOP") == "asyncio":
        sys.modules["uvloop"] = None  # type: ignore[assignment]  # as if it were not installed
    event_loop.run(WORK[sys.argv[1]](*(int(word) for word in sys.argv[2:])))
