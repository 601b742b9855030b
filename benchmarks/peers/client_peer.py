"""A client for Python on the work of `bench-runtimes`: `client_peer.py PACKAGE WORK`, with KUBECONFIG set.

These have no controllers, so this is what their users write: list in pages, watch from there, a dict as the cache, and for
the operator a task for each new object that creates the child and patches the status. Children are not watched, and there
is no queue: less than what a controller does.
"""

import asyncio
import sys
from typing import Any

from client_adapters import ADAPTERS, Adapter
from client_meter import collected, cpu, memory, next_command, say

CONCURRENCY = 32


async def synced(client: Adapter, kind: str) -> dict[Any, Any]:
    """Lists all objects of a kind into a dict, and prints what that took."""
    await client.warm_up()
    before, began = collected(), cpu()
    cached: dict[Any, Any] = {}
    async for obj in client.list(kind):
        cached[client.key(obj)] = obj
    spent = cpu() - began
    say("synced", len(cached), spent, collected() - before)
    return cached


async def websites(client: Adapter) -> None:
    cached = await synced(client, "Website")
    began = cpu()
    assert sum(len(client.image(cached[key])) for key in list(cached))
    say("read each", len(cached), cpu() - began)


async def pods(client: Adapter) -> None:
    cached = await synced(client, "Pod")
    for phase in ("read all", "read again"):
        began = cpu()
        running = sum(client.is_running(pod) for pod in list(cached.values()))
        say(phase, running, cpu() - began)


async def storm(client: Adapter, count: int) -> None:
    """Every event becomes an object in the dict, and a call of a function that reads a field of it."""
    cached: dict[Any, Any] = {}
    async for obj in client.list("Website"):
        cached[client.key(obj)] = obj
    seen, until, reached = 0, 0, asyncio.Event()

    async def follow() -> None:
        nonlocal seen
        async for obj in client.watch("Website"):
            cached[client.key(obj)] = obj
            assert client.image(obj)
            seen += 1
            if seen == until:
                reached.set()

    task = asyncio.create_task(follow())
    before = -1
    while before != seen:  # some watches begin with all objects
        before = seen
        await asyncio.sleep(1.0)
    seen = 0
    say("watching", count)
    while await next_command():
        until += count
        reached.clear()
        began = cpu()
        say("begun")
        await reached.wait()
        say("watched", count, cpu() - began)
    task.cancel()


async def operator(client: Adapter) -> None:
    limit, tasks = asyncio.Semaphore(CONCURRENCY), set[asyncio.Task[None]]()

    async def work(obj: Any) -> None:
        async with limit:
            try:
                await client.create_child(obj)
                await client.set_status(obj)
            except Exception as error:
                print(f"{client.key(obj)}: {error!r}", file=sys.stderr)
                raise

    async def follow() -> None:
        [one async for one in client.list("Website")]
        async for obj in client.watch("Website"):
            if not client.has_status(obj):
                task = asyncio.create_task(work(obj))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

    following = asyncio.create_task(follow())
    following.add_done_callback(lambda done: done.cancelled() or print(done.exception(), file=sys.stderr))
    await asyncio.sleep(1.0)
    say("started", 0, cpu(), memory())
    while await next_command():
        say("cpu", 0, cpu(), memory())
    following.cancel()


async def main(package: str, work: str, count: int) -> None:
    async with ADAPTERS[package]() as client:
        match work:
            case "websites":
                await websites(client)
            case "pods":
                await pods(client)
            case "storm":
                await storm(client, count)
            case "operator":
                await operator(client)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0))
