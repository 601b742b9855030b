"""Measures single events: one change at a time over TLS, as a running operator gets them, and writes of one status.

`python single_events.py` starts the server as a second process, on one core, and runs the operator here, on another:

- `events`: 1,000 objects, one change every 10 ms; CPU per event in the operator, and the time from the write to the call
  of the reconciler;
- `status`: one object whose spec another client changes every 10 ms and whose status the reconciler writes each time; CPU
  per reconcile, and the requests that each takes;
- `frames`: the Python functions and files that one event passes through, counted by `sys.setprofile`.

It uses public names only, so that it also measures other versions: `PYTHONPATH=<tree>/src python single_events.py`.
"""

import argparse
import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from levelset import Client, Config, Context, Controller, Manager, Resource, Spec, Status
from levelset.apiserver import ApiServer
from levelset.client import Token

TOKEN = "0123456789abcdef"  # of a server that lives for seconds, on loopback
OBJECTS, EVENTS, PACE = 1_000, 500, 0.01
CORES = sorted(os.sched_getaffinity(0))


class SiteSpec(Spec):
    image: str
    certificate: str = ""
    changed_at: float = 0.0


class SiteStatus(Status):
    seen: float = 0.0


class Site(Resource[SiteSpec, SiteStatus], api="bench.dev/v1"):
    """An object of about 1.5 KB."""


DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "sites.bench.dev"},
    "spec": {
        "group": "bench.dev",
        "scope": "Namespaced",
        "names": {"plural": "sites", "kind": "Site"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def site(number: int, at: float = 0.0) -> dict[str, Any]:
    return {
        "apiVersion": "bench.dev/v1",
        "kind": "Site",
        "metadata": {"name": f"site-{number}", "namespace": "default"},
        "spec": {"image": f"blog:{number}", "certificate": "x" * 1200, "changedAt": at},
    }


async def serve(count: int) -> None:
    """A server with so many objects; `go N` on its input changes N of them, one at a time."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    requests: Counter[str] = Counter()
    server = ApiServer(token=TOKEN)
    handler: Any = server._handler  # of requests over sockets, which the operator alone sends

    def handle(request: Any) -> Any:
        requests[request.method] += 1
        return handler(request)

    server._handler = handle
    async with server, await Client.connect(server) as client:
        await client.apply(DEFINITION)
        for number in range(count):
            await client.apply(site(number))
        print(json.dumps({"url": server.url, "ca": (server.ca or b"").decode()}), flush=True)
        while words := (await reader.readline()).decode().split():
            requests.clear()
            began = time.perf_counter()
            for number in range(int(words[1])):
                await asyncio.sleep(max(0.0, began + number * PACE - time.perf_counter()))
                await client.apply(site(number % count, time.monotonic()))
            await asyncio.sleep(0.2)
            print(json.dumps({"requests": dict(requests)}), flush=True)


class Operator:
    """Reconciles the objects: notes how late each change is seen, and writes the status if told to."""

    def __init__(self, *, writes: bool) -> None:
        self.late: list[float] = []
        self.writes = writes

    async def reconcile(self, site: Site, ctx: Context) -> None:
        if site.spec.changed_at:
            self.late.append(time.monotonic() - site.spec.changed_at)
            if self.writes:
                await ctx.set_status(site, SiteStatus(seen=site.spec.changed_at))


async def measure(server: "subprocess.Popen[str]", *, writes: bool) -> dict[str, Any]:
    assert server.stdin is not None
    assert server.stdout is not None
    answer = json.loads(server.stdout.readline())
    config = Config(server=answer["url"], ca=answer["ca"].encode(), credentials=Token(TOKEN))
    operator = Operator(writes=writes)
    async with await Client.connect(config) as client, Manager(client, health=None) as manager:
        manager.add(Controller(Site, operator.reconcile, concurrency=4))
        await manager.wait_elected()
        running = (
            manager.controllers["site"] if "site" in manager.controllers else next(iter(manager.controllers.values()))
        )
        await running.wait_idle()
        await asyncio.sleep(0.3)
        gc.collect()
        gc.freeze()
        cpu = 0.0
        for warm in (50, EVENTS):
            operator.late.clear()
            server.stdin.write(f"go {warm}\n")
            server.stdin.flush()
            before = time.process_time()
            report = json.loads(await asyncio.get_running_loop().run_in_executor(None, server.stdout.readline))
            cpu = time.process_time() - before
        late = sorted(operator.late)
        return {
            "cpu_us": cpu / max(1, len(late)) * 1e6,
            "p50_ms": statistics.median(late) * 1e3,
            "p99_ms": late[len(late) * 99 // 100] * 1e3,
            "reconciles": len(late),
            "requests": report["requests"],
        }


async def frames(server: "subprocess.Popen[str]") -> dict[str, Any]:
    """What one event passes through, from the readable socket to the call of the reconciler."""
    assert server.stdin is not None
    assert server.stdout is not None
    answer = json.loads(server.stdout.readline())
    config = Config(server=answer["url"], ca=answer["ca"].encode(), credentials=Token(TOKEN))
    calls: list[tuple[str, str]] = []
    seen = asyncio.Event()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            calls.append((frame.f_code.co_filename, frame.f_code.co_qualname))

    async def reconcile(site: Site, _: Context) -> None:
        if site.spec.changed_at:
            sys.setprofile(None)
            seen.set()

    found: list[list[tuple[str, str]]] = []
    async with await Client.connect(config) as client, Manager(client, health=None) as manager:
        manager.add(Controller(Site, reconcile, concurrency=4))
        await manager.wait_elected()
        await asyncio.sleep(0.5)
        for _ in range(7):
            seen.clear()
            server.stdin.write("go 1\n")
            server.stdin.flush()
            calls.clear()
            sys.setprofile(profile)
            await seen.wait()
            found.append(list(calls))
            await asyncio.get_running_loop().run_in_executor(None, server.stdout.readline)
            await asyncio.sleep(0.1)
    return {"calls": statistics.median_low([len(one) for one in found]), "all": min(found, key=len)}


def run(what: str, count: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--serve", str(count)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if len(CORES) > 1:
        os.sched_setaffinity(server.pid, CORES[:-1])
        os.sched_setaffinity(0, CORES[-1:])
    try:
        return asyncio.run(frames(server) if what == "frames" else measure(server, writes=what == "status"))
    finally:
        assert server.stdin is not None
        server.stdin.close()
        server.wait(20)


def show_frames(calls: list[tuple[str, str]]) -> None:
    """Prints the functions in the order of their calls."""
    files = {name for name, _ in calls}
    print(f"{len(calls)} frames, {len(set(calls))} functions, {len(files)} files")
    for name, function in calls:
        print(f"  {Path(name).parent.name}/{Path(name).name}: {function}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["events", "status", "frames"])
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.serve))
        return
    for what in [options.what] if options.what else ["events", "status", "frames"]:
        result = run(what, 1 if what == "status" else OBJECTS)
        if options.json:
            print(json.dumps(result), flush=True)
        elif what == "frames":
            show_frames(result["all"])
        else:
            print(
                what, {name: round(value, 2) if isinstance(value, float) else value for name, value in result.items()}
            )


if __name__ == "__main__":
    main()
