"""Records of workloads that outlive a session, and the leases between sessions."""

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
