"""What is remembered of workloads that outlive a session, and who may touch them."""

from levelset_dcp.records.memory import MemoryRecords
from levelset_dcp.records.opening import HOME, VARIABLE, state_path
from levelset_dcp.records.records import Belongings, ProcessRecord, Records, ResourceKind, ResourceRecord
from levelset_dcp.records.sqlite import RecordsFailed, SqliteRecords

__all__ = [
    "HOME",
    "VARIABLE",
    "Belongings",
    "MemoryRecords",
    "ProcessRecord",
    "Records",
    "RecordsFailed",
    "ResourceKind",
    "ResourceRecord",
    "SqliteRecords",
    "state_path",
]
