"""Keys, bytes and revisions: where the API server keeps its objects, in memory or in one SQLite file.

`MemoryStorage` and `SqliteStorage` implement the `Storage` protocol; `levelset.testing.contracts.storage` checks them
and any other backend. This package knows nothing of kinds.
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
from levelset.storage.sqlite import Durability, SqliteStorage

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
