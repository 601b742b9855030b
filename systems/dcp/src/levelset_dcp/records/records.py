"""What has to be remembered of workloads that outlive a session, and the leases that keep others from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from levelset_machine import Identity

__all__ = ["Belongings", "ProcessRecord", "Records", "ResourceKind", "ResourceRecord"]

ResourceKind = Literal["container", "network"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """One persistent program that runs, or ran when it was written down."""

    name: str
    """The name of the Executable."""
    identity: Identity
    key: str
    """Its lifecycle key."""
    started_at: datetime
    log: str
    """What its logs are found by."""
    workload: str = ""
    """Which workload it belongs to, for `levelset-dcp cleanup`; the one of the session unless given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRecord:
    """One persistent container or network of an engine."""

    kind: ResourceKind
    name: str
    """Its name at the engine."""
    id: str
    """Its id at the engine."""
    key: str = ""
    """Its lifecycle key."""
    workload: str = ""
    """As of a ProcessRecord."""


@dataclass(frozen=True, slots=True)
class Belongings:
    """Everything that is remembered of one workload."""

    processes: Sequence[ProcessRecord] = ()
    resources: Sequence[ResourceRecord] = ()


class Records(Protocol):
    """Keeps records over sessions. A lease is held by a living process, and nobody else has it as long as it lives.

    All raise LevelsetError if the store cannot be read or written.
    """

    @property
    def workload(self) -> str:
        """The workload that this session's persistent resources belong to; empty if to none."""
        ...

    async def find(self, name: str) -> ProcessRecord | None:
        """The record of an Executable; None if there is none."""
        ...

    async def write(self, record: ProcessRecord) -> None:
        """Remembers a program."""
        ...

    async def remove(self, name: str) -> None:
        """Forgets a program; it is no error if there is none."""
        ...

    async def find_resource(self, kind: ResourceKind, name: str) -> ResourceRecord | None:
        """The record of a container or network; None if there is none."""
        ...

    async def write_resource(self, record: ResourceRecord) -> None:
        """Remembers a container or network."""
        ...

    async def remove_resource(self, kind: ResourceKind, name: str) -> None:
        """Forgets a container or network; it is no error if there is none."""
        ...

    async def belongings(self, workload: str) -> Belongings:
        """Everything that is remembered of a workload."""
        ...

    async def lease(self, key: str) -> bool:
        """Takes a lease, or makes sure that it is still held; False if another living process has it."""
        ...

    async def release(self, key: str) -> None:
        """Gives a lease back; that of somebody else stays."""
        ...
