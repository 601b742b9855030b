"""Measures DCP: a thousand programs at once, each a real process, and containers; prints tables in Markdown.

`python dcp.py [NUMBER]`. The server, the controllers and the client are in this process. Writes are those to the store,
Events too. A reconcile is one call of the reconciler, including its writes and its waits for the event loop.
"""

import asyncio
import resource
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from levelset import Client, ObjectMeta, Ref, open_local
from levelset.runtime.controller import Outcome, RunningController
from levelset_dcp.engines import InMemoryEngine
from levelset_dcp.kinds import Container, ContainerSpec, Executable, ExecutableSpec
from levelset_dcp.system import Options, dcp_system

NUMBER = 1_000


@dataclass
class Reconciles:
    """The reconciles of a controller, collected while it runs: it retains only the last thousand."""

    controller: RunningController[Any]
    taken: int = 0
    outcomes: list[Outcome[Any]] = field(default_factory=list[Outcome[Any]])

    def collect(self) -> None:
        history = self.controller.history
        fresh = history.total - self.taken
        if fresh > len(history):
            raise SystemExit("reconciles were lost: collect more often")
        self.outcomes += list(history)[len(history) - fresh :]
        self.taken = history.total


async def measure(number: int) -> dict[str, str]:
    before = resident()
    async with open_local(dcp_system()) as local:
        reconciles = Reconciles(local.manager.controllers["dcp-executables"])
        reconciles.collect()
        began, used = time.perf_counter(), time.process_time()
        first = await create(local.client, number, reconciles)
        created = time.perf_counter() - began
        last = await until_finished(local.client, number, reconciles)
        finished = time.perf_counter() - began
        used = time.process_time() - used
        peak = resident()
        reconciles.collect()
        deleting = time.perf_counter()
        await delete(local.client, number)
        deleted = time.perf_counter() - deleting
    taken = [one.seconds for one in reconciles.outcomes]
    conflicts = sum(one.result == "conflict" for one in reconciles.outcomes)
    return {
        "all created": f"{created:.1f} s",
        "all Finished": f"{finished:.1f} s ({number / finished:.0f} programs/s, {used:.1f} s of processor time)",
        "all deleted": f"{deleted:.1f} s",
        "writes per object": f"{(last - first) / number:.1f} (Events included)",
        "reconciles per object": f"{len(taken) / number:.1f}, {conflicts} of them met a conflict",
        "one reconcile": f"p50 {percentile(taken, 50)}, p99 {percentile(taken, 99)}, longest {max(taken) * 1000:.1f} ms",
        "memory": f"{(peak - before) / 1024:.0f} MB more, {(peak - before) / number:.0f} kB for each",
    }


async def measure_containers(number: int) -> dict[str, str]:
    """The same with containers of the in-memory engine, so that only the controller is measured."""
    async with open_local(dcp_system(Options(engine=InMemoryEngine()))) as local:
        reconciles = Reconciles(local.manager.controllers["dcp-containers"])
        reconciles.collect()
        began = time.perf_counter()
        for each in range(number):
            await local.client.create(Container(metadata=ObjectMeta(name=f"n{each}"), spec=ContainerSpec(image="a:1")))
            reconciles.collect()
            await asyncio.sleep(0)
        for each in range(number):
            ref = Ref(Container, f"n{each}")
            await local.client.wait(
                ref, lambda one: one.status is not None and one.status.state == "Running", within=600
            )
            reconciles.collect()
            await asyncio.sleep(0)
        running = time.perf_counter() - began
    taken = [one.seconds for one in reconciles.outcomes]
    return {
        "all Running": f"{running:.1f} s",
        "reconciles per object": f"{len(taken) / number:.1f}",
        "one reconcile": f"p50 {percentile(taken, 50)}, p99 {percentile(taken, 99)}, longest {max(taken) * 1000:.1f} ms",
    }


async def create(client: Client, number: int, reconciles: Reconciles) -> int:
    first = 0
    for each in range(number):
        made = await client.create(
            Executable(metadata=ObjectMeta(name=f"n{each}"), spec=ExecutableSpec(executable_path="/bin/true"))
        )
        first = first or int(made.metadata.resource_version)
        reconciles.collect()
        await asyncio.sleep(0)  # a client of another process would not have the loop to itself either
    return first


async def until_finished(client: Client, number: int, reconciles: Reconciles) -> int:
    """Waits until all have finished; returns the version of the last one. It watches, because polling would cost more."""
    last = 0
    for each in range(number):
        ref = Ref(Executable, f"n{each}")
        done = await client.wait(ref, lambda one: one.status is not None and one.status.state == "Finished", within=600)
        last = max(last, int(done.metadata.resource_version))
        reconciles.collect()
        await asyncio.sleep(0)
    return last


async def delete(client: Client, number: int) -> None:
    for each in range(number):
        await client.delete(Executable, f"n{each}")
        await asyncio.sleep(0)
    for each in range(number):
        await client.wait_gone(Ref(Executable, f"n{each}"), within=600)


def percentile(values: list[float], percent: int) -> str:
    return f"{statistics.quantiles(values, n=100)[percent - 1] * 1000:.1f} ms"


def resident() -> int:
    """The peak resident memory of this process, in kB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else NUMBER
    show(f"{number:,} Executables `/bin/true` at once", asyncio.run(measure(number)))
    print()
    show(f"{number:,} Containers of an engine in memory at once", asyncio.run(measure_containers(number)))


def show(heading: str, found: dict[str, str]) -> None:
    print(f"| {heading} | |\n|---|---|")
    for name, value in found.items():
        print(f"| {name} | {value} |")


if __name__ == "__main__":
    main()
