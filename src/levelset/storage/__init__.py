"""The storage of the API server: keys, bytes and revisions, in memory, in one SQLite file or in etcd.

`MemoryStorage`, `SqliteStorage` and `EtcdStorage` implement the `Storage` protocol;
`levelset.testing.contracts.storage` checks them and any other backend. `copy_storage` copies from one to another. This
package is independent of Kubernetes kinds.
"""

from typing import TYPE_CHECKING

from levelset.late_exports import late_exports

if TYPE_CHECKING:
    from levelset.storage.etcd import EtcdStorage
    from levelset.storage.file_permissions import warn_if_exposed
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
    "warn_if_exposed",
]

__getattr__, __dir__ = late_exports(
    __name__,
    {
        "levelset.storage.etcd": "EtcdStorage",
        "levelset.storage.file_permissions": "warn_if_exposed",
        "levelset.storage.group_commit": "CancelledWrite PendingWrite",
        "levelset.storage.interface": (
            "Change Conditions DamagedValue FutureRevision Item Mismatch NowaitReader NowaitWatch Page "
            "SharedStorage Storage StorageUnavailable TransactionalStorage UnknownOutcome Watch"
        ),
        "levelset.storage.memory": "MemoryStorage",
        "levelset.storage.sqlite": "Durability SqliteStorage",
        "levelset.storage.sqlite_repair": "FileReport check_file repair_file",
        "levelset.storage.storage_copy": "CopyReport DataFile DumpFile EtcdKeys Place copy_storage",
    },
)
