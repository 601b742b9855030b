"""Removes everything persistent that belongs to a workload: programs and containers first, and then networks."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from levelset.aio import timing
from levelset.errors import LevelsetError
from levelset_dcp.engines.errors import EngineNotFound
from levelset_dcp.engines.interface import Engine
from levelset_dcp.records import ProcessRecord, Records, ResourceRecord
from levelset_machine import Runner

__all__ = ["WorkloadReport", "clean_workload"]

_AT_ONCE: Final = 8
_LOOK: Final = 0.5


@dataclass(slots=True)
class WorkloadReport:
    """What was stopped and removed, and what could not be."""

    workload: str
    containers: list[str] = field(default_factory=list[str])
    executables: list[str] = field(default_factory=list[str])
    networks: list[str] = field(default_factory=list[str])
    failures: list[str] = field(default_factory=list[str])

    @property
    def tree(self) -> dict[str, Any]:
        """The report as JSON has it."""
        stopped = {name: sorted(getattr(self, name)) for name in ("containers", "executables", "networks")}
        return {"workloadId": self.workload, "stopped": stopped, "failures": sorted(self.failures)}


async def clean_workload(
    records: Records, workload: str, *, runner: Runner, engine: Engine | None = None, patience: float = 30.0
) -> WorkloadReport:
    """Stops and removes what is remembered of a workload; a lease of another session is waited for `patience` seconds.

    What is gone already counts as removed, one failure does not keep the others, and logs stay.
    """
    report = WorkloadReport(workload)
    work = _Work(records, report, runner, engine, patience)
    found = await records.belongings(workload)
    first = [work.end_process(one) for one in found.processes]
    first += [work.remove(one) for one in found.resources if one.kind == "container"]
    await _side_by_side(first)
    await _side_by_side([work.remove(one) for one in found.resources if one.kind == "network"])
    return report


async def _side_by_side(work: Sequence[Awaitable[None]]) -> None:
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(piece: Awaitable[None]) -> None:
        async with room:
            await piece

    async with asyncio.TaskGroup() as group:
        for piece in work:
            group.create_task(one(piece))


@dataclass(frozen=True, slots=True)
class _Work:
    records: Records
    report: WorkloadReport
    runner: Runner
    engine: Engine | None
    patience: float

    async def end_process(self, record: ProcessRecord) -> None:
        """Ends a program and forgets it."""

        async def end() -> bool:
            found = await self.records.find(record.name)
            if found is not None and found.workload != record.workload:
                return False
            run = None if found is None else self.runner.adopt(found.identity)
            if run is not None:
                await self.runner.stop(run)
            await self.records.remove(record.name)
            return True

        await self._guarded(record.name, f"executable {record.name}", self.report.executables, end)

    async def remove(self, record: ResourceRecord) -> None:
        """Removes a container or a network and forgets it."""
        is_container = record.kind == "container"

        async def end() -> bool:
            found = await self.records.find_resource(record.kind, record.name)
            if found is not None and found.workload != record.workload:
                return False
            if found is not None:
                await self._at_engine(found)
            await self.records.remove_resource(record.kind, record.name)
            return True

        lease = f"{'containers' if is_container else 'containernetworks'}/{record.name}"
        done = self.report.containers if is_container else self.report.networks
        await self._guarded(lease, f"{record.kind} {record.name}", done, end)

    async def _at_engine(self, record: ResourceRecord) -> None:
        if self.engine is None:
            raise LevelsetError("no container engine is there to ask; name one with --container-runtime")
        try:
            if record.kind == "container":
                await self.engine.remove_container(record.id, force=True)
            else:
                await self.engine.remove_network(record.id)
        except EngineNotFound:
            return  # somebody was faster

    async def _guarded(self, key: str, what: str, done: list[str], end: Callable[[], Awaitable[bool]]) -> None:
        """Does it under the lease; what goes wrong is reported."""
        try:
            if not await self._lease(key):
                self.report.failures.append(f"{what}: another session has it")
                return
            try:
                if await end():
                    done.append(what.partition(" ")[2])
            finally:
                await self.records.release(key)
        except LevelsetError as error:
            self.report.failures.append(f"{what}: {error}")

    async def _lease(self, key: str) -> bool:
        limit = timing.now() + self.patience
        while not await self.records.lease(key):
            if timing.now() >= limit:
                return False
            await timing.sleep(_LOOK)
        return True
