"""Records that are gone with this process: for tests, and for sessions that keep nothing."""

from dataclasses import replace

from levelset_dcp.records.records import Belongings, ProcessRecord, ResourceKind, ResourceRecord

__all__ = ["MemoryRecords"]


class MemoryRecords:
    """Records in memory; leases are those of this process alone, and `taken` ones belong to others."""

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
        """Remembers a program."""
        self.processes[record.name] = replace(record, workload=record.workload or self.workload)

    async def remove(self, name: str) -> None:
        """Forgets a program."""
        self.processes.pop(name, None)

    async def find_resource(self, kind: ResourceKind, name: str) -> ResourceRecord | None:
        """The record of a container or network; None if there is none."""
        return self.resources.get((kind, name))

    async def write_resource(self, record: ResourceRecord) -> None:
        """Remembers a container or network."""
        self.resources[record.kind, record.name] = replace(record, workload=record.workload or self.workload)

    async def remove_resource(self, kind: ResourceKind, name: str) -> None:
        """Forgets a container or network."""
        self.resources.pop((kind, name), None)

    async def belongings(self, workload: str) -> Belongings:
        """Everything that is remembered of a workload."""
        processes = [one for one in self.processes.values() if one.workload == workload]
        return Belongings(processes, [one for one in self.resources.values() if one.workload == workload])

    async def lease(self, key: str) -> bool:
        """Takes a lease; False if it is one of `taken`."""
        if key in self.taken:
            return False
        self.leases.add(key)
        return True

    async def release(self, key: str) -> None:
        """Gives a lease back."""
        self.leases.discard(key)
