"""The soak test: objects come and go for minutes, and resident memory must not follow.

`python soak.py [SECONDS]` runs each part in a process of its own, for so many seconds (default 120): a controller with a
server in another process, the server itself, and DCP with real programs. Each part first runs for a third of the time,
so that caches and pools reach their bounds. Then resident memory is sampled, and a line is fitted through the lower half of
the samples: garbage is collected now and then, leaks are not. At the end, tracemalloc names the lines whose memory grew in
one more round. A part fails, and the command with it, if it grows by more than 1 kB for each cycle and by 2 MB in
all; a cycle is an object that is created, reconciled and deleted.

What programs remember of objects that are gone is bounded, but by bounds that take hours to reach: the last 4,096 of a kind,
1,000 reconciles, the Events and the paths of 4,096 objects. They are 100 here (`shorten_bounds`), so that the first third reaches
them, and what grows after it is something else.
"""

import asyncio
import gc
import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from levelset import Client, Config, Context, Controller, Manager, ObjectMeta, open_local, owns
from levelset.apiserver import ApiServer, routes
from levelset.apiserver.controllers import garbage_collector
from levelset.client import Token
from levelset.kinds.core_v1 import ConfigMap, Secret
from levelset.runtime.cache.read_your_writes import UnseenWrites
from levelset.runtime.controller import event_recorder, running
from levelset.runtime.controller.hot_loops import HotLoopDetector
from levelset.storage import MemoryStorage

SECONDS = 120.0
TOGETHER = 20
MAX_PER_CYCLE, MAX_IN_ALL = 1024.0, 2 * 1024 * 1024
TOKEN = "soak"
PAGE = os.sysconf("SC_PAGE_SIZE")

Round = Callable[[int], Awaitable[int]]
"""Runs some cycles, numbered from here on; returns how many."""


def settings(name: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data={"a": "x" * 500})


async def reconcile(one: ConfigMap, ctx: Context) -> None:
    await ctx.apply(Secret(metadata=ObjectMeta(name=one.name, namespace="default")), owner=one)


def storage() -> MemoryStorage:
    # A short history, so that its bound is reached in the first third.
    return MemoryStorage(history_changes=2000)


async def come_and_go(client: Client, first: int, *, wait: bool) -> int:
    names = [f"c{first + number}" for number in range(TOGETHER)]
    await asyncio.gather(*(client.create(settings(name)) for name in names))
    if wait:
        await asyncio.gather(*(until_there(client, name) for name in names))
    await asyncio.gather(*(client.delete(ConfigMap, name, namespace="default") for name in names))
    return TOGETHER


async def until_there(client: Client, name: str) -> None:
    while True:
        if await client.find(Secret, name, namespace="default") is not None:
            return
        await asyncio.sleep(0.002)


async def soak_server(stack: AsyncExitStack) -> Round:
    """The server with its own controllers, a watch, and clients in this process."""
    server = await stack.enter_async_context(ApiServer(storage(), tls=False, token=TOKEN))
    client = await stack.enter_async_context(await Client.connect(server))
    await stack.enter_async_context(Watching(client))
    return lambda first: come_and_go(client, first, wait=False)


class Watching:
    """Reads a watch of all ConfigMaps."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._read())

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _read(self) -> None:
        while True:
            async with self._client.watch(ConfigMap) as events:
                async for _ in events:
                    pass


async def soak_controller(stack: AsyncExitStack) -> Round:
    """A manager with one controller and its caches; the server is another process."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, __file__, "serve", stdin=pipe, stdout=pipe)
    stack.push_async_callback(process.wait)
    stack.callback(process.terminate)
    assert process.stdout is not None
    config = Config(server=json.loads(await process.stdout.readline()), credentials=Token(TOKEN))
    client = await stack.enter_async_context(await Client.connect(config))
    manager = await stack.enter_async_context(Manager(client, health=None))
    manager.add(Controller(ConfigMap, reconcile, owns(Secret), namespace="default", concurrency=8))
    await manager.wait_idle()
    return lambda first: come_and_go(client, first, wait=True)


async def serve() -> None:
    async with ApiServer(storage(), tls=False, token=TOKEN) as server:
        print(json.dumps(server.url), flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def soak_systems(stack: AsyncExitStack) -> Round:
    """DCP: programs that run and end, each a real process."""
    from levelset.kinds.core_v1_events import Event
    from levelset_dcp.kinds import Executable, ExecutableSpec
    from levelset_dcp.system import dcp_system

    local = await stack.enter_async_context(open_local(dcp_system()))
    client = local.client

    async def cycle(name: str) -> None:
        made = Executable(metadata=ObjectMeta(name=name), spec=ExecutableSpec(executable_path="/bin/true"))
        ref = (await client.create(made)).ref
        await client.wait(ref, lambda one: one.status is not None and one.status.state == "Finished", within=120)
        await client.delete(ref)

    async def round_of(first: int) -> int:
        await asyncio.gather(*(cycle(f"n{first + number}") for number in range(TOGETHER)))
        # Events stay for an hour and the history has 100,000 changes: both bounds are beyond a few minutes.
        await client.delete_collection(Event, namespace="default")
        state = local.server.state
        await state.storage.compact(state.storage.revision)
        return TOGETHER

    return round_of


PARTS: dict[str, Callable[[AsyncExitStack], Awaitable[Round]]] = {
    "controller": soak_controller,
    "server": soak_server,
    "systems": soak_systems,
}


def shorten_bounds(most: int = 100) -> None:
    """Lets what is remembered of objects that are gone reach its bounds within a minute."""
    for function in (UnseenWrites.__init__, HotLoopDetector.__init__, running):
        options: dict[str, Any] = getattr(function, "__wrapped__", function).__kwdefaults__
        options.update({name: most for name in ("limit", "most", "history") if name in options})
    vars(event_recorder)["_MAX_SERIES"] = most
    vars(garbage_collector)["_MAX_REMOVED_OWNERS"] = most
    vars(routes)["_MAX_ROUTES"] = most


async def soak(part: str, seconds: float) -> dict[str, Any]:
    """Runs one part; what it measured."""
    shorten_bounds()
    async with AsyncExitStack() as stack:
        run = await PARTS[part](stack)
        cycles, samples, began = 0, list[tuple[int, int]](), time.monotonic()
        while (elapsed := time.monotonic() - began) < seconds:
            cycles += await run(cycles)
            if elapsed > seconds / 3:
                samples.append((cycles, resident()))
        grown = await grown_lines(run, cycles)
    per_cycle = slope(lower_half(samples))
    in_all = per_cycle * (samples[-1][0] - samples[0][0])
    return {
        "part": part,
        "cycles": cycles,
        "resident MB": round(samples[-1][1] / 2**20, 1),
        "bytes per cycle": round(per_cycle),
        "is_bounded": per_cycle < MAX_PER_CYCLE or in_all < MAX_IN_ALL,
        "grown": grown,
    }


async def grown_lines(run: Round, first: int) -> list[str]:
    """The lines whose memory grew most in some more rounds, with the bytes for each cycle."""
    tracemalloc.start()
    snapshots, cycles = list[tracemalloc.Snapshot](), 0
    for _ in range(3):
        for _ in range(10):
            cycles += await run(first + cycles)
        await asyncio.sleep(0.5)
        gc.collect()
        snapshots.append(tracemalloc.take_snapshot())
    tracemalloc.stop()
    found = snapshots[2].compare_to(snapshots[1], "lineno")[:3]
    each = cycles / 3
    return [
        f"{Path(one.traceback[0].filename).name}:{one.traceback[0].lineno} {one.size_diff / each:.0f}" for one in found
    ]


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def lower_half(samples: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Of each stretch of samples the smaller half: what garbage collection leaves."""
    size = max(1, len(samples) // 12)
    stretches = [samples[start : start + size] for start in range(0, len(samples), size)]
    return [one for each in stretches for one in sorted(each, key=lambda sample: sample[1])[: (len(each) + 1) // 2]]


def slope(samples: list[tuple[int, int]]) -> float:
    """Bytes per cycle, by least squares."""
    count = len(samples)
    mean_x, mean_y = sum(x for x, _ in samples) / count, sum(y for _, y in samples) / count
    below = sum((x - mean_x) ** 2 for x, _ in samples)
    return sum((x - mean_x) * (y - mean_y) for x, y in samples) / below if below else 0.0


def main(seconds: float) -> int:
    print("| part | cycles | resident MB | bytes per cycle | grown most: bytes per cycle |\n|---|---|---|---|---|")
    is_bounded = True
    for part in PARTS:
        command = [sys.executable, __file__, part, str(seconds)]
        found = json.loads(
            subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
        )
        is_bounded = is_bounded and found["is_bounded"]
        shown = [found[name] for name in ("part", "cycles", "resident MB", "bytes per cycle")]
        print("|", " | ".join(map(str, shown)), "|", ", ".join(found["grown"]), "|", flush=True)
        if not found["is_bounded"]:
            print(f"{part}: resident memory grows", file=sys.stderr)
    return 0 if is_bounded else 1


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["serve"]:
        asyncio.run(serve())
    elif words[:1] and words[0] in PARTS:
        print(json.dumps(asyncio.run(soak(words[0], float(words[1])))))
    else:
        raise SystemExit(main(float(words[0]) if words else SECONDS))
