"""Records of workloads that outlive a session, and the leases between sessions."""

from typing import TYPE_CHECKING

from levelset.late_exports import late_exports

if TYPE_CHECKING:
    from levelset_dcp.records.interface import ProcessRecord, Records, ResourceKind, ResourceRecord, WorkloadRecords
    from levelset_dcp.records.memory import MemoryRecords
    from levelset_dcp.records.sqlite import HOME, VARIABLE, RecordsFailed, SqliteRecords, state_path

__all__ = [
    "HOME",
    "VARIABLE",
    "MemoryRecords",
    "ProcessRecord",
    "Records",
    "RecordsFailed",
    "ResourceKind",
    "ResourceRecord",
    "SqliteRecords",
    "WorkloadRecords",
    "state_path",
]

__getattr__, __dir__ = late_exports(
    __name__,
    {
        "levelset_dcp.records.interface": "ProcessRecord Records ResourceKind ResourceRecord WorkloadRecords",
        "levelset_dcp.records.memory": "MemoryRecords",
        "levelset_dcp.records.sqlite": "HOME VARIABLE RecordsFailed SqliteRecords state_path",
    },
)
