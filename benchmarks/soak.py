"""The soak test: objects come and go, and memory must not follow.

`python soak.py [FACTOR]` runs each part in a process of its own: a controller with a server in another process, the server
itself, and DCP with real programs. Each runs for a number of cycles (`CYCLES`, times FACTOR), not for a time: how much a
part remembers of objects that are gone depends on their number, and a busy machine must not shorten the test. A cycle is
an object that is created, reconciled and deleted.

The first third of the cycles is not measured, so that caches and pools reach their bounds. Then memory is judged twice:

- Resident memory is sampled, and a line is fitted through the lower half of the samples: garbage is collected now and
  then, leaks are not. This sees everything, also what C code holds, but only what exceeds the noise of the allocator.
- At the end, tracemalloc counts the memory of Python objects at two points at which nothing is left of any object, with
  many cycles in between. This has no noise, and the lines that grew are named.

A part fails, and the command with it, if resident memory grows by more than 1 kB for each cycle and 1 MB in all, or traced
memory by more than 256 bytes for each cycle. `python soak.py FACTOR --leak BYTES` loses so many bytes in each cycle, to show
that it is found.

What programs remember of objects that are gone is bounded, but by bounds that take hours to reach: the last 4,096 of a kind,
1,000 reconciles, the Events and the paths of 4,096 objects. They are 100 here (`shorten_bounds`), so that the first third reaches
them, and what grows after it is something else.
"""

import argparse
import asyncio
import gc
import json
import os
import re
import subprocess
import sys
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

CYCLES = {"controller": 6_000, "server": 20_000, "systems": 900}
TRACED = {"controller": 1_000, "server": 2_000, "systems": 300}
"""Cycles between the two points at which traced memory is compared; whatever the factor."""
TURNOVER = 600
"""Cycles after which most of what is remembered of objects that are gone was replaced: small caches have up to 1,024."""
TOGETHER = 20
MAX_PER_CYCLE, MAX_IN_ALL = 1024.0, 1024 * 1024
MAX_TRACED = 256.0
TOKEN = "soak"
PAGE = os.sysconf("SC_PAGE_SIZE")


class Part:
    """What one part does: `run` some cycles, numbered from here on, and `settle` until nothing is left of any of them."""

    def __init__(self, run: Callable[[int], Awaitable[None]], settle: Callable[[], Awaitable[None]]) -> None:
        self._run = run
        self.settle = settle
        self.cycles = 0
        self.leak = 0
        self._leaked: list[bytes] = []

    async def run(self, cycles: int) -> None:
        """Runs at least so many cycles more."""
        end = self.cycles + cycles
        while self.cycles < end:
            await self._run(self.cycles)
            self.cycles += TOGETHER
            if self.leak:
                self._leaked += [os.urandom(self.leak) for _ in range(TOGETHER)]


def settings(name: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data={"a": "x" * 500})


async def reconcile(one: ConfigMap, ctx: Context) -> None:
    await ctx.apply(Secret(metadata=ObjectMeta(name=one.name, namespace="default")), owner=one)


def storage() -> MemoryStorage:
    # A short history, so that its bound is reached soon.
    return MemoryStorage(history_changes=200)


async def come_and_go(client: Client, first: int, *, wait: bool) -> None:
    names = [f"c{first + number}" for number in range(TOGETHER)]
    await asyncio.gather(*(client.create(settings(name)) for name in names))
    if wait:
        await asyncio.gather(*(until_there(client, name) for name in names))
    await asyncio.gather(*(client.delete(ConfigMap, name, namespace="default") for name in names))


async def until_none(client: Client, kind: type[Any]) -> None:
    """Returns when there is no object of this kind that the test has made."""
    while any(re.fullmatch(r"[cn]\d+", one.name) for one in await client.list(kind)):  # noqa: ASYNC110  (no event)
        await asyncio.sleep(0.05)


async def until_there(client: Client, name: str) -> None:
    while True:
        if await client.find(Secret, name, namespace="default") is not None:
            return
        await asyncio.sleep(0.002)


async def soak_server(stack: AsyncExitStack) -> Part:
    """The server with its own controllers, a watch, and clients in this process."""
    server = await stack.enter_async_context(ApiServer(storage(), tls=False, token=TOKEN))
    client = await stack.enter_async_context(await Client.connect(server))
    watching = Watching(client)
    await stack.enter_async_context(watching)

    async def settle() -> None:
        await until_none(client, ConfigMap)
        await watching.wait_quiet()

    return Part(lambda first: come_and_go(client, first, wait=False), settle)


class Watching:
    """Reads a watch of all ConfigMaps."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._events = 0

    async def wait_quiet(self) -> None:
        """Returns when no event has arrived for a while."""
        before = -1
        while before != self._events:
            before = self._events
            await asyncio.sleep(0.2)

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._read())

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _read(self) -> None:
        while True:
            async with self._client.watch(ConfigMap) as events:
                async for _ in events:
                    self._events += 1


async def soak_controller(stack: AsyncExitStack) -> Part:
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

    async def settle() -> None:
        await until_none(client, Secret)  # the server deletes them after their owners
        await manager.wait_idle()

    return Part(lambda first: come_and_go(client, first, wait=True), settle)


async def serve() -> None:
    async with ApiServer(storage(), tls=False, token=TOKEN) as server:
        print(json.dumps(server.url), flush=True)
        await asyncio.to_thread(sys.stdin.read)


async def soak_systems(stack: AsyncExitStack) -> Part:
    """DCP: programs that run and end, each a real process."""
    from levelset.kinds.core_v1_events import Event
    from levelset_dcp.executables import host
    from levelset_dcp.kinds import Executable, ExecutableSpec
    from levelset_dcp.system import dcp_system

    vars(host)["_REMEMBERED"] = MOST_REMEMBERED
    local = await stack.enter_async_context(open_local(dcp_system()))
    client = local.client

    async def cycle(name: str) -> None:
        made = Executable(metadata=ObjectMeta(name=name), spec=ExecutableSpec(executable_path="/bin/true"))
        ref = (await client.create(made)).ref
        await client.wait(ref, lambda one: one.status is not None and one.status.state == "Finished", within=120)
        await client.delete(ref)

    async def round_of(first: int) -> None:
        await asyncio.gather(*(cycle(f"n{first + number}") for number in range(TOGETHER)))
        # Events stay for an hour and the history has 100,000 changes: both bounds are beyond a few minutes.
        await client.delete_collection(Event, namespace="default")
        state = local.server.state
        await state.storage.compact(state.storage.revision)

    async def settle() -> None:
        await until_none(client, Executable)
        await local.manager.wait_idle()

    return Part(round_of, settle)


PARTS: dict[str, Callable[[AsyncExitStack], Awaitable[Part]]] = {
    "controller": soak_controller,
    "server": soak_server,
    "systems": soak_systems,
}


MOST_REMEMBERED = 100


def shorten_bounds(most: int = MOST_REMEMBERED) -> None:
    """Lets what is remembered of objects that are gone reach its bounds within a minute."""
    for function in (UnseenWrites.__init__, HotLoopDetector.__init__, running):
        options: dict[str, Any] = getattr(function, "__wrapped__", function).__kwdefaults__
        options.update({name: most for name in ("limit", "most", "history") if name in options})
    vars(event_recorder)["_MAX_SERIES"] = most
    vars(garbage_collector)["_MAX_REMOVED_OWNERS"] = most
    vars(routes)["_MAX_ROUTES"] = most


async def soak(name: str, factor: float, leak: int) -> dict[str, Any]:
    """Runs one part; what it measured."""
    shorten_bounds()
    cycles = int(CYCLES[name] * factor)
    async with AsyncExitStack() as stack:
        part = await PARTS[name](stack)
        part.leak = leak
        await part.run(cycles // 3)
        samples = list[tuple[int, int]]()
        while part.cycles < cycles:
            await part.run(TOGETHER)
            samples.append((part.cycles, resident()))
        traced, lines = await traced_growth(part, TRACED[name])
    per_cycle = slope(lower_half(samples))
    in_all = per_cycle * (samples[-1][0] - samples[0][0])
    return {
        "part": name,
        "cycles": part.cycles,
        "resident MB": round(samples[-1][1] / 2**20, 1),
        "bytes per cycle": round(per_cycle),
        "traced": round(traced),
        "is_bounded": (per_cycle < MAX_PER_CYCLE or in_all < MAX_IN_ALL) and traced < MAX_TRACED,
        "grown": lines,
    }


async def traced_growth(part: Part, cycles: int) -> tuple[float, list[str]]:
    """The growth of traced memory for each cycle, and the lines that grew most, with theirs."""
    tracemalloc.start()
    snapshots = list[tracemalloc.Snapshot]()
    for count in (TURNOVER, cycles):  # the first ones replace what was remembered before it was traced
        await part.run(count)
        await part.settle()
        gc.collect()
        snapshots.append(tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(False, tracemalloc.__file__)]))
    tracemalloc.stop()
    found = snapshots[1].compare_to(snapshots[0], "lineno")
    lines = [
        f"{Path(one.traceback[0].filename).name}:{one.traceback[0].lineno} {one.size_diff / cycles:.0f}"
        for one in found[:3]
    ]
    return sum(one.size_diff for one in found) / cycles, lines


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


def main(factor: float, leak: int) -> int:
    names = ("part", "cycles", "resident MB", "bytes per cycle", "traced")
    print("| part | cycles | resident MB | bytes per cycle | traced | grown most |\n|---|---|---|---|---|---|")
    is_bounded = True
    for part in PARTS:
        command = [sys.executable, __file__, part, str(factor), str(leak)]
        found = json.loads(
            subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
        )
        is_bounded = is_bounded and found["is_bounded"]
        print("|", " | ".join(str(found[name]) for name in names), "|", ", ".join(found["grown"]), "|", flush=True)
        if not found["is_bounded"]:
            print(f"{part}: memory grows with the objects that are gone", file=sys.stderr)
    return 0 if is_bounded else 1


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["serve"]:
        asyncio.run(serve())
    elif words[:1] and words[0] in PARTS:
        print(json.dumps(asyncio.run(soak(words[0], float(words[1]), int(words[2])))))
    else:
        parser = argparse.ArgumentParser(description="objects come and go, and memory must not follow")
        parser.add_argument("factor", nargs="?", type=float, default=1.0, help="times the cycles of each part")
        parser.add_argument("--leak", type=int, default=0, metavar="BYTES", help="loses so many bytes in each cycle")
        given = parser.parse_args(words)
        raise SystemExit(main(given.factor, given.leak))
