"""The storage of the API server: keys, bytes and revisions, in memory or in one SQLite file.

`MemoryStorage` and `SqliteStorage` implement the `Storage` protocol; `levelset.testing.contracts.storage` checks them
and any other backend. This package is independent of Kubernetes kinds.
"""

from levelset.storage.group_commit import CancelledWrite, PendingWrite
from levelset.storage.interface import (
    Change,
    DamagedValue,
    FutureRevision,
    Item,
    Mismatch,
    NowaitReader,
    NowaitWatch,
    Page,
    Storage,
    Watch,
)
from levelset.storage.memory import MemoryStorage
from levelset.storage.sqlite import Durability, SqliteStorage
from levelset.storage.sqlite_repair import FileReport, check_file, repair_file

__all__ = [
    "CancelledWrite",
    "Change",
    "DamagedValue",
    "Durability",
    "FileReport",
    "FutureRevision",
    "Item",
    "MemoryStorage",
    "Mismatch",
    "NowaitReader",
    "NowaitWatch",
    "Page",
    "PendingWrite",
    "SqliteStorage",
    "Storage",
    "Watch",
    "check_file",
    "repair_file",
]
