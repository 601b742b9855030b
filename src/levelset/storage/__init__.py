"""Keys, bytes and revisions: where the API server keeps its objects, in memory or in one SQLite file.

`MemoryStorage` and `SqliteStorage` keep the promises of the `Storage` protocol; `levelset.testing.contracts` checks
them, and those of any other backend. This room knows no kinds.
"""

from levelset.storage.interface import (
    Change,
    FutureRevision,
    Item,
    Landing,
    LandingWriter,
    Mismatch,
    NowaitReader,
    NowaitWatch,
    NowaitWriter,
    Page,
    Storage,
    Watch,
)
from levelset.storage.memory import MemoryStorage
from levelset.storage.sqlite import SqliteStorage
from levelset.storage.sqlite_file import Durability

__all__ = [
    "Change",
    "Durability",
    "FutureRevision",
    "Item",
    "Landing",
    "LandingWriter",
    "MemoryStorage",
    "Mismatch",
    "NowaitReader",
    "NowaitWatch",
    "NowaitWriter",
    "Page",
    "SqliteStorage",
    "Storage",
    "Watch",
]
