"""The server of `bench-runtimes`: the API server of `levelset serve`, in memory and over TLS, with commands on its input.

`python server.py KUBECONFIG` writes the kubeconfig and prints a line when it is ready. Then it answers each line of its
input with a line of JSON:

- `fill websites|pods N` stores N objects as they are, so that they have the documented size; `clear` removes all;
- `storm` changes the generation of each Website once, as fast as watchers take the events;
- `burst N` and `pace N RATE` store N Websites without a status, at once or at that many in a second, and wait until each
  has a child and a status: by how much the status was later than the Website, and what was written and requested.

The end of its input ends it. Objects are put straight into the storage, so that all peers get the same, and the server's
core is left to their requests.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

import payloads
from cache_server import DEFINITION, define, is_ahead, write
from levelset.aio import event_loop
from levelset.apiserver import ApiServer
from levelset.apiserver.kubeconfig_file import ConnectionInfo, write_kubeconfig
from levelset.storage import Change, MemoryStorage

TOGETHER: Final = 100
SETTLED: Final = 0.5
"""So many seconds are waited after the last status: what follows it is counted, too."""
PATIENCE: Final = 240.0
KINDS: Final = {"websites": ("example.dev", "Website"), "pods": ("", "Pod"), "children": ("", "ConfigMap")}


class Bench:
    """The server with its storage, and the commands."""

    def __init__(self) -> None:
        self.storage = MemoryStorage()
        self.server = ApiServer(self.storage, token="bench")
        self.requests: Counter[str] = Counter()
        self._count_requests()
        self.websites: list[tuple[str, bytes]] = []
        self._number = 0

    def _count_requests(self) -> None:
        handler: Any = self.server._handler

        def handle(request: Any) -> Any:
            self.requests[request.method] += 1
            return handler(request)

        self.server._handler = handle

    async def answer(self, words: list[str]) -> dict[str, Any]:
        match words:
            case ["fill", kind, count]:
                return self.fill(kind, int(count))
            case ["clear"]:
                return await self.clear()
            case ["storm"]:
                return await self.storm()
            case ["burst", count]:
                return await self.work(int(count), None)
            case ["pace", count, rate]:
                return await self.work(int(count), float(rate))
        raise ValueError(f"unknown command: {words}")

    def prefix(self, kind: str) -> str:
        group, name = KINDS[kind]
        served: Any = self.server.state.catalog.by_gvk(group, "v1", name)
        key: str = served.key("x", "y")
        return key.removesuffix("x/y")

    def fill(self, kind: str, count: int) -> dict[str, Any]:
        prefix = self.prefix(kind)
        for number in range(count):
            tree = json.loads(payloads.pod(number) if kind == "pods" else payloads.website(number))
            # Owners that do not exist would make the garbage collector delete the objects; the version is the storage's.
            self._put(prefix, tree, without=("ownerReferences", "resourceVersion"))
        return {"filled": count}

    def _put(self, prefix: str, tree: Any, *, without: tuple[str, ...]) -> str:
        for name in without:
            tree["metadata"].pop(name, None)
        key = f"{prefix}{tree['metadata']['namespace']}/{tree['metadata']['name']}"
        value = json.dumps(tree, separators=(",", ":")).encode()
        self.storage.put_nowait(key, value, expected=0)
        if tree["kind"] == "Website":
            self.websites.append((key, value))
        return key

    async def clear(self) -> dict[str, Any]:
        for kind in KINDS:
            prefix = self.prefix(kind)
            for key in [key for key in self.storage._mvcc.items if key.startswith(prefix)]:
                self.storage.delete_nowait(key, expected=None)
        self.websites.clear()
        before = None
        while before != self.storage.revision:  # what the garbage collector still deletes
            before = self.storage.revision
            await asyncio.sleep(0.2)
        return {"cleared": before}

    async def storm(self) -> dict[str, Any]:
        self._number += 1
        for at in range(0, len(self.websites), TOGETHER):
            while is_ahead(self.server):  # noqa: ASYNC110  # there is no notification
                await asyncio.sleep(0.0005)
            for key, value in self.websites[at : at + TOGETHER]:
                write(self.storage, key, value, self._number)
            await asyncio.sleep(0)
        return {"events": len(self.websites)}

    async def work(self, count: int, rate: float | None) -> dict[str, Any]:
        """Adds Websites, and waits until each has a child and a status."""
        before, started = self.storage.revision, len(self.websites)
        self.requests.clear()
        watch = _Statuses(self.prefix("websites"), self.prefix("children"), count)
        unlisten = self.storage.listen(watch.see)
        began = time.perf_counter()
        prefix = self.prefix("websites")
        for number, tree in enumerate(_bare(started, count)):
            if rate is not None:
                await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            elif number % TOGETHER == 0:
                await asyncio.sleep(0)
            watch.begin(prefix, tree)
            self._put(prefix, tree, without=())
        await asyncio.wait_for(watch.all_seen.wait(), PATIENCE)
        seconds = time.perf_counter() - began
        await asyncio.sleep(SETTLED)
        unlisten()
        requests = {name: number / count for name, number in self.requests.items()}
        writes = (self.storage.revision - before - count) / count
        return {"seconds": seconds, "writes": writes, "requests": requests, **watch.quantiles()}


class _Statuses:
    """When each Website was stored, and when its status was."""

    def __init__(self, websites: str, children: str, count: int) -> None:
        self._websites, self._children = websites, children
        self._began: dict[str, float] = {}
        self._late: list[float] = []
        self._missing = 2 * count
        self.all_seen = asyncio.Event()

    def begin(self, prefix: str, tree: Any) -> None:
        self._began[f"{prefix}{tree['metadata']['namespace']}/{tree['metadata']['name']}"] = time.perf_counter()

    def see(self, change: Change) -> None:
        if change.after is None:
            return
        if change.key.startswith(self._children):
            self._missing -= change.before is None
        elif change.key.startswith(self._websites) and b'"ready":1' in change.after.value:
            began = self._began.pop(change.key, None)
            if began is None:
                return
            self._late.append(time.perf_counter() - began)
            self._missing -= 1
        if not self._missing:
            self.all_seen.set()

    def quantiles(self) -> dict[str, float]:
        late = sorted(self._late)
        return {"p50": late[len(late) // 2] * 1e3, "p99": late[len(late) * 99 // 100] * 1e3, "worst": late[-1] * 1e3}


def _bare(start: int, count: int) -> Iterator[Any]:
    """Websites as their users write them: without a status, and without owners."""
    for number in range(start, start + count):
        tree = json.loads(payloads.website(number))
        del tree["status"]
        tree["metadata"]["generation"] = 1
        for name in ("ownerReferences", "resourceVersion", "finalizers"):
            tree["metadata"].pop(name, None)
        yield tree


async def main(kubeconfig: str) -> None:
    versions: Any = DEFINITION["spec"]
    versions["versions"][0]["subresources"] = {"status": {}}
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    bench = Bench()
    async with bench.server as server:
        await define(server)
        write_kubeconfig(kubeconfig, ConnectionInfo(server.url, "bench", server.ca))
        print(json.dumps({"url": server.url}), flush=True)
        while words := (await reader.readline()).decode().split():
            print(json.dumps(await bench.answer(words)), flush=True)


if __name__ == "__main__":
    event_loop.run(main(sys.argv[1]))
