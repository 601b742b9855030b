"""Records in memory, for tests and for sessions without persistent workloads."""

from levelset import replace
from levelset_dcp.records.interface import ProcessRecord, ResourceKind, ResourceRecord, WorkloadRecords

__all__ = ["MemoryRecords"]


class MemoryRecords:
    """Records and leases of this process; leases in `taken` are held by another session."""

    def __init__(self, *, taken: frozenset[str] = frozenset(), workload: str = "") -> None:
        self.taken = taken
        self.workload = workload
        self.processes: dict[str, ProcessRecord] = {}
        self.resources: dict[tuple[ResourceKind, str], ResourceRecord] = {}
        self.leases: set[str] = set()

    async def find(self, name: str) -> ProcessRecord | None:
        """The record of an Executable; None if there is none."""
        return self.processes.get(name)

    async def write(self, record: ProcessRecord) -> None:
        """Writes the record of a process."""
        self.processes[record.name] = replace(record, workload=record.workload or self.workload)

    async def remove(self, name: str) -> None:
        """Removes the record of a process."""
        self.processes.pop(name, None)

    async def find_resource(self, kind: ResourceKind, name: str) -> ResourceRecord | None:
        """The record of a container or network; None if there is none."""
        return self.resources.get((kind, name))

    async def write_resource(self, record: ResourceRecord) -> None:
        """Writes the record of a container or network."""
        self.resources[record.kind, record.name] = replace(record, workload=record.workload or self.workload)

    async def remove_resource(self, kind: ResourceKind, name: str) -> None:
        """Removes the record of a container or network."""
        self.resources.pop((kind, name), None)

    async def workload_records(self, workload: str) -> WorkloadRecords:
        """All records of a workload."""
        processes = [one for one in self.processes.values() if one.workload == workload]
        return WorkloadRecords(processes, [one for one in self.resources.values() if one.workload == workload])

    async def lease(self, key: str) -> bool:
        """Acquires a lease; False if it is one of `taken`."""
        if key in self.taken:
            return False
        self.leases.add(key)
        return True

    async def release(self, key: str) -> None:
        """Releases a lease."""
        self.leases.discard(key)
