"""Measures an operator on paced work: objects that are created one at a time, each of which gets a child and a status.

`python benchmarks/paced.py [--rate N ...] [--source TREE/src ...]` runs three processes over TLS: `levelset serve`, the
operator of `paced_operator.py` by `levelset.run`, and this one, which creates Websites at a pace and watches them. For
each rate: the CPU time of the operator's process per object, its wake-ups (voluntary context switches), and the time
from the create until this process sees the status. With several sources the operator runs from each of them by turns,
on the same server; `--syscalls` counts system calls with strace in a run of its own.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import payloads
from cache_server import DEFINITION
from levelset import Client
from levelset.runtime.watch import Apply, Watcher
from models_levelset import Website

HERE = Path(__file__).parent
PYTHON = sys.executable
SOURCE = HERE.parent / "src"
FLOOR = HERE / "paced_floor.py"
CORES = sorted(os.sched_getaffinity(0))
RATES = (200, 20)
SECONDS = 8.0
WARM = 30
SETTLE = 1.5
"""How long the operator may finish what it does, before and after; what it spends then counts, too."""


class Turn(NamedTuple):
    """What one turn took, per object."""

    cpu_us: float
    wakeups: float
    p50_ms: float
    p99_ms: float
    worst_ms: float


def website(name: str) -> dict[str, Any]:
    """A Website as its user writes it, of 1.2 kB."""
    tree: dict[str, Any] = json.loads(payloads.website(7))
    tree.pop("status")
    described = ("labels", "annotations")
    tree["metadata"] = {"name": name, "namespace": "default"} | {one: tree["metadata"][one] for one in described}
    return tree


def pin(process: int, cores: list[int]) -> None:
    if len(CORES) > 1:
        os.sched_setaffinity(process, cores)


@contextmanager
def serving(folder: str) -> Iterator[str]:
    """A server as a process of its own; its kubeconfig."""
    kubeconfig = str(Path(folder, "kubeconfig"))
    command = [str(Path(PYTHON).with_name("levelset")), "serve", "--kubeconfig", kubeconfig]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        pin(server.pid, CORES[:-1])
        try:
            while server.stdout is not None and not server.stdout.readline().startswith("ready"):
                pass
            yield kubeconfig
        finally:
            server.terminate()


@contextmanager
def operating(kubeconfig: str, source: Path) -> Iterator[int]:
    """The operator as a process of its own, on a core of its own; its process id."""
    env = os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{HERE}"}
    program = source if source == FLOOR else HERE / "paced_operator.py"
    command = [PYTHON, str(program), "--kubeconfig", kubeconfig]
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as operator:
        pin(operator.pid, CORES[-1:])
        try:
            yield operator.pid
        finally:
            operator.send_signal(signal.SIGTERM)


def spent(process: int) -> tuple[float, int]:
    """The CPU seconds of all threads of a process, and how often its main thread has gone to sleep."""
    tasks = Path(f"/proc/{process}/task")
    cpu = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return cpu, int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


class Author:
    """Creates Websites at a pace, and notes when each was created and when its status came."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._created: dict[str, float] = {}
        self._finished: dict[str, float] = {}

    async def follow(self) -> None:
        """Watches the Websites until it is cancelled."""
        async for batch in Watcher(self._client, Website, namespace="default"):
            now = time.monotonic()
            for event in batch:
                if isinstance(event, Apply) and b'"ready":' in event.item.cached.raw:
                    self._finished.setdefault(event.item.cached.name, now)

    async def create(self, name: str) -> None:
        self._created[name] = time.monotonic()
        await self._client.create(website(name))

    async def wait_finished(self, within: float) -> None:
        until = time.monotonic() + within
        while len(self.latencies()) < len(self._created):  # a poll twice a second disturbs least
            if time.monotonic() > until:
                raise SystemExit(f"{len(self.latencies())} of {len(self._created)} Websites got a status in {within} s")
            await asyncio.sleep(0.5)

    def latencies(self, prefix: str = "") -> list[float]:
        """Seconds from the create to the status of those that have one, sorted."""
        finished = [(name, at) for name, at in self._created.items() if name in self._finished]
        return sorted(self._finished[name] - at for name, at in finished if name.startswith(prefix))


async def turn(kubeconfig: str, process: int, rate: float, count: int) -> Turn:
    """So many objects at this rate."""
    async with await Client.connect(kubeconfig) as client:
        prefix, author = time.time_ns(), Author(client)
        following = asyncio.create_task(author.follow())
        for number in range(WARM):
            await author.create(f"warm-{prefix}-{number}")
        await author.wait_finished(20)
        await asyncio.sleep(SETTLE)
        before = spent(process)
        began = time.monotonic()
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            await author.create(f"site-{prefix}-{number}")
        await author.wait_finished(20)
        await asyncio.sleep(SETTLE)
        cpu, wakeups = (after - was for after, was in zip(spent(process), before, strict=True))
        following.cancel()
        late = author.latencies("site")
    ms = [late[len(late) * part // 100] * 1e3 for part in (50, 99)]
    return Turn(cpu / count * 1e6, wakeups / count, *ms, late[-1] * 1e3)


def syscalls(kubeconfig: str, process: int, rate: float, count: int) -> None:
    """Prints the system calls of the operator per object, counted by strace."""
    with tempfile.NamedTemporaryFile("r") as found:
        tracer = subprocess.Popen(["strace", "-c", "-f", "-p", str(process), "-o", found.name])
        time.sleep(1)
        asyncio.run(turn(kubeconfig, process, rate, count))
        tracer.send_signal(signal.SIGINT)
        tracer.wait(20)
        lines = [line.split() for line in found.read().splitlines()[2:]]
    print(f"system calls per object at {rate}/s, of {count} (and {WARM} to warm up):")
    for words in lines:
        if len(words) >= 5 and words[3].isdigit() and int(words[3]) >= count // 20:
            print(f"  {words[-1]} {int(words[3]) / (count + WARM):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, action="append")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--source", type=Path, action="append")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--floor", action="store_true", help="also the messages alone, without a runtime")
    parser.add_argument("--syscalls", action="store_true")
    options = parser.parse_args()
    pin(0, CORES[:-1])
    rates, sources = options.rate or RATES, (options.source or [SOURCE]) + ([FLOOR] if options.floor else [])
    print(
        "| operator | objects/s | CPU us/object | wake-ups/object | p50 ms | p99 ms | worst ms |\n|---|---|---|---|---|---|---|"
    )
    found: dict[tuple[Path, float], list[Turn]] = {}
    with tempfile.TemporaryDirectory() as folder, serving(folder) as kubeconfig:
        asyncio.run(define(kubeconfig))
        for _ in range(1 if options.syscalls else options.turns):
            for source in sources:
                with operating(kubeconfig, source) as process:
                    time.sleep(SETTLE)
                    for rate in rates:
                        count = max(30, int(rate * options.seconds))
                        if options.syscalls:
                            syscalls(kubeconfig, process, rate, count)
                            continue
                        one = asyncio.run(turn(kubeconfig, process, rate, count))
                        found.setdefault((source, rate), []).append(one)
                        show(source, rate, one)
                asyncio.run(clear(kubeconfig))
    for (source, rate), turns in found.items():
        show(source, rate, Turn(*(statistics.median(values) for values in zip(*turns, strict=True))), "median, ")


def show(source: Path, rate: float, one: Turn, what: str = "") -> None:
    print(
        f"| {what}{'the messages alone' if source == FLOOR else source.parent.name} | {rate:.0f} | {one.cpu_us:.0f} | {one.wakeups:.1f} "
        f"| {one.p50_ms:.1f} | {one.p99_ms:.1f} | {one.worst_ms:.1f} |",
        flush=True,
    )


async def define(kubeconfig: str) -> None:
    DEFINITION["spec"]["versions"][0]["subresources"] = {"status": {}}  # type: ignore[index]  # a tree
    async with await Client.connect(kubeconfig) as client:
        await client.apply(DEFINITION)
        await asyncio.sleep(1)


async def clear(kubeconfig: str) -> None:
    """Deletes the Websites of a turn; the server deletes their children."""
    async with await Client.connect(kubeconfig) as client:
        await client.delete_collection(Website, namespace="default")


if __name__ == "__main__":
    main()
