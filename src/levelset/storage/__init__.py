"""The storage of the API server: keys, bytes and revisions, in memory, in one SQLite file or in etcd.

`MemoryStorage`, `SqliteStorage` and `EtcdStorage` implement the `Storage` protocol;
`levelset.testing.contracts.storage` checks them and any other backend. `copy_storage` copies from one to another. This
package is independent of Kubernetes kinds.
"""

from levelset.storage.etcd import EtcdStorage
from levelset.storage.group_commit import CancelledWrite, PendingWrite
from levelset.storage.interface import (
    Change,
    Conditions,
    DamagedValue,
    FutureRevision,
    Item,
    Mismatch,
    NowaitReader,
    NowaitWatch,
    Page,
    SharedStorage,
    Storage,
    StorageUnavailable,
    TransactionalStorage,
    UnknownOutcome,
    Watch,
)
from levelset.storage.memory import MemoryStorage
from levelset.storage.sqlite import Durability, SqliteStorage
from levelset.storage.sqlite_repair import FileReport, check_file, repair_file
from levelset.storage.storage_copy import CopyReport, DataFile, DumpFile, EtcdKeys, Place, copy_storage

__all__ = [
    "CancelledWrite",
    "Change",
    "Conditions",
    "CopyReport",
    "DamagedValue",
    "DataFile",
    "DumpFile",
    "Durability",
    "EtcdKeys",
    "EtcdStorage",
    "FileReport",
    "FutureRevision",
    "Item",
    "MemoryStorage",
    "Mismatch",
    "NowaitReader",
    "NowaitWatch",
    "Page",
    "PendingWrite",
    "Place",
    "SharedStorage",
    "SqliteStorage",
    "Storage",
    "StorageUnavailable",
    "TransactionalStorage",
    "UnknownOutcome",
    "Watch",
    "check_file",
    "copy_storage",
    "repair_file",
]
