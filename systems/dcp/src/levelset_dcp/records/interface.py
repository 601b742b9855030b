"""The interface of records: persistent workloads, and the leases between sessions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct

from levelset_machine import Identity

__all__ = ["ProcessRecord", "Records", "ResourceKind", "ResourceRecord", "WorkloadRecords"]

ResourceKind = Literal["container", "network"]


class ProcessRecord(Struct, frozen=True, kw_only=True):
    """One persistent process that runs, or ran when the record was written."""

    name: str
    """The name of the Executable."""
    identity: Identity
    key: str
    """Its lifecycle key."""
    started_at: datetime
    log: str
    """The name of its logs."""
    workload: str = ""
    """The workload that it belongs to, for `levelset-dcp cleanup`; that of the session unless given."""


class ResourceRecord(Struct, frozen=True, kw_only=True):
    """One persistent container or network of an engine."""

    kind: ResourceKind
    name: str
    """Its name in the engine."""
    id: str
    """Its ID in the engine."""
    key: str = ""
    """Its lifecycle key."""
    workload: str = ""
    """As of a ProcessRecord."""


class WorkloadRecords(Struct, frozen=True):
    """All records of one workload."""

    processes: Sequence[ProcessRecord] = ()
    resources: Sequence[ResourceRecord] = ()


class Records(Protocol):
    """A store of records and leases. A lease belongs to one process, and no other can take it while that process lives.

    All methods raise LevelsetError if the store cannot be read or written.
    """

    @property
    def workload(self) -> str:
        """The workload of this session's persistent resources; empty if there is none."""
        ...

    async def find(self, name: str) -> ProcessRecord | None:
        """The record of an Executable; None if there is none."""
        ...

    async def write(self, record: ProcessRecord) -> None:
        """Writes the record of a process."""
        ...

    async def remove(self, name: str) -> None:
        """Removes the record of a process; does nothing if there is none."""
        ...

    async def find_resource(self, kind: ResourceKind, name: str) -> ResourceRecord | None:
        """The record of a container or network; None if there is none."""
        ...

    async def write_resource(self, record: ResourceRecord) -> None:
        """Writes the record of a container or network."""
        ...

    async def remove_resource(self, kind: ResourceKind, name: str) -> None:
        """Removes the record of a container or network; does nothing if there is none."""
        ...

    async def workload_records(self, workload: str) -> WorkloadRecords:
        """All records of a workload."""
        ...

    async def lease(self, key: str) -> bool:
        """Acquires or confirms a lease; False if another living process holds it."""
        ...

    async def release(self, key: str) -> None:
        """Releases a lease; does nothing if another process holds it."""
        ...
