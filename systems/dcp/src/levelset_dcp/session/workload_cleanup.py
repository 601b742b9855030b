"""Removes all persistent resources of a workload: processes and containers first, then networks."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import Struct

from levelset.aio import timing
from levelset.errors import LevelsetError
from levelset_dcp.engines.errors import EngineNotFound
from levelset_dcp.engines.interface import Engine
from levelset_dcp.records import ProcessRecord, Records, ResourceRecord
from levelset_machine import Runner

__all__ = ["WorkloadReport", "clean_workload"]

_AT_ONCE: Final = 8
_POLL: Final = 0.5


@dataclass(slots=True)
class WorkloadReport:
    """The removed resources, and the failures."""

    workload: str
    containers: list[str] = field(default_factory=list[str])
    executables: list[str] = field(default_factory=list[str])
    networks: list[str] = field(default_factory=list[str])
    failures: list[str] = field(default_factory=list[str])

    @property
    def tree(self) -> dict[str, Any]:
        """The report as a JSON tree."""
        stopped = {name: sorted(getattr(self, name)) for name in ("containers", "executables", "networks")}
        return {"workloadId": self.workload, "stopped": stopped, "failures": sorted(self.failures)}


async def clean_workload(
    records: Records, workload: str, *, runner: Runner, engine: Engine | None = None, patience: float = 30.0
) -> WorkloadReport:
    """Removes all recorded resources of a workload; waits up to `patience` seconds for leases of other sessions.

    Missing resources count as removed, a failure does not stop the others, and logs are kept.
    """
    report = WorkloadReport(workload)
    work = _Work(records, report, runner, engine, patience)
    found = await records.workload_records(workload)
    first = [work.end_process(one) for one in found.processes]
    first += [work.remove(one) for one in found.resources if one.kind == "container"]
    await _run_concurrently(first)
    await _run_concurrently([work.remove(one) for one in found.resources if one.kind == "network"])
    return report


async def _run_concurrently(work: Sequence[Awaitable[None]]) -> None:
    limit = asyncio.Semaphore(_AT_ONCE)

    async def one(piece: Awaitable[None]) -> None:
        async with limit:
            await piece

    async with asyncio.TaskGroup() as group:
        for piece in work:
            group.create_task(one(piece))


class _Work(Struct, frozen=True):
    records: Records
    report: WorkloadReport
    runner: Runner
    engine: Engine | None
    patience: float

    async def end_process(self, record: ProcessRecord) -> None:
        """Stops a process and removes its record."""

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
        """Removes a container or a network and its record."""
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
            raise LevelsetError("no container engine; name one with --container-runtime")
        try:
            if record.kind == "container":
                await self.engine.remove_container(record.id, force=True)
            else:
                await self.engine.remove_network(record.id)
        except EngineNotFound:
            return  # removed already

    async def _guarded(self, key: str, what: str, done: list[str], end: Callable[[], Awaitable[bool]]) -> None:
        """Runs `end` under a lease, and reports errors."""
        try:
            if not await self._lease(key):
                self.report.failures.append(f"{what}: another session holds the lease")
                return
            try:
                if await end():
                    done.append(what.partition(" ")[2])
            finally:
                await self.records.release(key)
        except LevelsetError as error:
            self.report.failures.append(f"{what}: {error}")

    async def _lease(self, key: str) -> bool:
        deadline = timing.now() + self.patience
        while not await self.records.lease(key):
            if timing.now() >= deadline:
                return False
            await timing.sleep(_POLL)
        return True
