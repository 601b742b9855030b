"""kopf on the work of `bench-runtimes`: `kopf_peer.py kopf WORK`, with KUBECONFIG set.

It is embedded in a program, without logging and without posting Events, which is its cheapest form. The cache is a dict that
a handler of all events fills: that is its whole pipeline. For the operator the child is created by one request on an
aiohttp session, since kopf has no client, and kopf itself patches the status.
"""

import asyncio
import base64
import contextlib
import logging
import os
import ssl
import sys
from pathlib import Path
from typing import Any

import aiohttp
import kopf
import yaml
from client_adapters import child_of
from client_meter import collected, cpu, memory, next_command, say

TREE = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
CLUSTER, USER = TREE["clusters"][0]["cluster"], TREE["users"][0]["user"]
AUTHORITY = CLUSTER["certificate-authority-data"]


def new_registry(batch: int) -> Any:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> Any:
        return kopf.ConnectionInfo(server=CLUSTER["server"], token=USER["token"], ca_data=AUTHORITY)

    @kopf.on.startup(registry=registry)
    def start(settings: Any, **_: Any) -> None:
        settings.posting.enabled = False
        settings.watching.chunk_size = batch

    return registry


@contextlib.asynccontextmanager
async def running(registry: Any) -> Any:
    task = asyncio.create_task(kopf.operator(registry=registry, clusterwide=True, standalone=True))
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


class Events:
    """A dict that a handler of all events fills."""

    def __init__(self, registry: Any, group: str, plural: str) -> None:
        self.cached: dict[Any, Any] = {}
        self.seen, self.until, self.reached = 0, 0, asyncio.Event()

        @kopf.on.event(group, "v1", plural, registry=registry)
        async def event(body: Any, namespace: str, name: str, **_: Any) -> None:
            self.cached[namespace, name] = dict(body)
            self.seen += 1
            if self.seen == self.until:
                self.reached.set()

    async def wait(self, more: int) -> None:
        self.until = self.seen + more
        self.reached.clear()
        await self.reached.wait()

    async def settle(self) -> None:
        """Waits until no more events come: kopf does not say when its list has ended."""
        while True:
            before = self.seen
            await asyncio.sleep(0.5)
            if before == self.seen and before:
                return


async def sync(group: str, plural: str) -> None:
    registry = new_registry(500)
    events = Events(registry, group, plural)
    before, began = collected(), cpu()
    async with running(registry):
        await events.settle()
        say("synced", len(events.cached), cpu() - began, collected() - before)
        for phase in ("read each",) if plural == "websites" else ("read all", "read again"):
            began = cpu()
            found = sum(bool(one["spec"]) and bool(one["status"]) for one in list(events.cached.values()))
            say(phase, found, cpu() - began)


async def storm(count: int) -> None:
    registry = new_registry(500)
    events = Events(registry, "example.dev", "websites")
    async with running(registry):
        await events.settle()
        say("watching", count)
        while await next_command():
            began = cpu()
            say("begun")
            await events.wait(count)
            say("watched", count, cpu() - began)


async def operator() -> None:
    registry = new_registry(500)
    trust = ssl.create_default_context(cadata=base64.b64decode(AUTHORITY).decode())
    connector = aiohttp.TCPConnector(ssl=trust)
    headers = {"authorization": f"Bearer {USER['token']}"}
    async with aiohttp.ClientSession(CLUSTER["server"], connector=connector, headers=headers) as session:

        @kopf.on.create("example.dev", "v1", "websites", registry=registry)
        async def create(meta: Any, spec: Any, namespace: str, name: str, patch: Any, **_: Any) -> None:
            child = child_of(name, namespace, meta["uid"], spec["image"])
            async with session.post(f"/api/v1/namespaces/{namespace}/configmaps", json=child) as answer:
                answer.raise_for_status()
            patch.status["ready"] = 1

        async with running(registry):
            await asyncio.sleep(1.5)
            say("started", 0, cpu(), memory())
            while await next_command():
                say("cpu", 0, cpu(), memory())


async def main(work: str, count: int) -> None:
    match work:
        case "websites":
            await sync("example.dev", "websites")
        case "pods":
            await sync("", "pods")
        case "storm":
            await storm(count)
        case "operator":
            await operator()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0))
