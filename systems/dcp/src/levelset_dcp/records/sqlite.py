"""Records in a file of the user's, shared by all sessions of the machine, with the leases between them.

The calls to SQLite wait for a disk, or for another session, so they are made in a thread of their own.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from levelset.errors import LevelsetError
from levelset_dcp.records.opening import open_store
from levelset_dcp.records.records import Belongings, ProcessRecord, ResourceKind, ResourceRecord
from levelset_machine import Identity, identity_of, is_alive

__all__ = ["RecordsFailed", "SqliteRecords"]

T = TypeVar("T")
Row = tuple[str, int, int, str, str, str, str]

_TABLES: Final = {"container": "persistent_containers", "network": "persistent_networks"}
_PROCESS: Final = "name, pid, started, key, started_at, log, workload"
_RESOURCE: Final = "name, id, key, workload"


class RecordsFailed(LevelsetError):
    """The state store cannot be read or written; the words say which, and why."""


class SqliteRecords:
    """Records in a file; `async with SqliteRecords(path) as records:`. ConfigError if the file may not be used.

    Whoever it acts for is this process, unless `owner` says otherwise.
    """

    def __init__(self, path: Path, *, workload: str = "", owner: Identity | None = None) -> None:
        self.path = path
        self.workload = workload
        self._owner = owner or _myself()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="levelset-dcp-state")
        self._connection: sqlite3.Connection | None = None

    async def __aenter__(self) -> Self:
        try:
            loop = asyncio.get_running_loop()
            self._connection = await loop.run_in_executor(self._thread, open_store, self.path)
        except BaseException:
            await asyncio.to_thread(self._thread.shutdown)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._run(_give_all_back(self._owner))
            await self._run(sqlite3.Connection.close)
        finally:
            self._connection = None
            await asyncio.to_thread(self._thread.shutdown)

    async def find(self, name: str) -> ProcessRecord | None:
        """The record of an Executable; None if there is none."""
        asked = f"SELECT {_PROCESS} FROM persistent_processes WHERE name = ?"  # noqa: S608  (names of our own)
        row: Row | None = await self._run(lambda store: store.execute(asked, (name,)).fetchone())
        return None if row is None else _process(row)

    async def write(self, record: ProcessRecord) -> None:
        """Remembers a program."""
        values = (
            record.name,
            record.identity.pid,
            record.identity.started,
            record.key,
            record.started_at.isoformat(),
            record.log,
            record.workload or self.workload,
        )
        told = f"INSERT OR REPLACE INTO persistent_processes ({_PROCESS}) VALUES (?,?,?,?,?,?,?)"  # noqa: S608  (as above)
        await self._execute(told, *values)

    async def remove(self, name: str) -> None:
        """Forgets a program; it is no error if there is none."""
        await self._execute("DELETE FROM persistent_processes WHERE name = ?", name)

    async def find_resource(self, kind: ResourceKind, name: str) -> ResourceRecord | None:
        """The record of a container or network; None if there is none."""
        asked = f"SELECT {_RESOURCE} FROM {_TABLES[kind]} WHERE name = ?"  # noqa: S608  (names of our own)
        row: tuple[str, str, str, str] | None = await self._run(lambda store: store.execute(asked, (name,)).fetchone())
        return None if row is None else _resource(kind, row)

    async def write_resource(self, record: ResourceRecord) -> None:
        """Remembers a container or network."""
        told = f"INSERT OR REPLACE INTO {_TABLES[record.kind]} ({_RESOURCE}) VALUES (?,?,?,?)"  # noqa: S608  (names of our own)
        await self._execute(told, record.name, record.id, record.key, record.workload or self.workload)

    async def remove_resource(self, kind: ResourceKind, name: str) -> None:
        """Forgets a container or network; it is no error if there is none."""
        await self._execute(f"DELETE FROM {_TABLES[kind]} WHERE name = ?", name)  # noqa: S608  (names of our own)

    async def belongings(self, workload: str) -> Belongings:
        """Everything that is remembered of a workload."""

        def read(store: sqlite3.Connection) -> Belongings:
            def rows(columns: str, table: str) -> list[tuple[str, ...]]:
                asked = f"SELECT {columns} FROM {table} WHERE workload = ? ORDER BY name"  # noqa: S608  (names of our own)
                return store.execute(asked, (workload,)).fetchall()

            return Belongings(
                [_process(row) for row in rows(_PROCESS, "persistent_processes")],
                [_resource(kind, row) for kind, table in _TABLES.items() for row in rows(_RESOURCE, table)],
            )

        return await self._run(read)

    async def lease(self, key: str) -> bool:
        """Takes a lease, or makes sure that it is still held; False if another living process has it."""
        owner = self._owner

        def take(store: sqlite3.Connection) -> bool:
            store.execute("BEGIN IMMEDIATE")  # nobody else looks and takes meanwhile
            try:
                row = store.execute("SELECT pid, started FROM resource_locks WHERE key = ?", (key,)).fetchone()
                holder = None if row is None else Identity(row[0], row[1])
                may_have_it = holder is None or holder == owner or not is_alive(holder)
                if may_have_it and holder != owner:
                    told = "INSERT OR REPLACE INTO resource_locks VALUES (?, ?, ?)"
                    store.execute(told, (key, owner.pid, owner.started))
            finally:
                store.execute("COMMIT")
            return may_have_it

        return await self._run(take)

    async def release(self, key: str) -> None:
        """Gives a lease back; that of somebody else stays."""
        told = "DELETE FROM resource_locks WHERE key = ? AND pid = ? AND started = ?"
        await self._execute(told, key, self._owner.pid, self._owner.started)

    async def _execute(self, told: str, *values: object) -> None:
        await self._run(lambda store: store.execute(told, values).close())

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        store = self._connection
        if store is None:
            raise RecordsFailed(f"the state store {self.path} is not open; use it inside of its `async with` block")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, store)
        except sqlite3.Error as error:
            raise RecordsFailed(f"the state store {self.path} cannot be used now: {error}") from error


def _give_all_back(owner: Identity) -> Callable[[sqlite3.Connection], object]:
    told = "DELETE FROM resource_locks WHERE pid = ? AND started = ?"
    return lambda store: store.execute(told, (owner.pid, owner.started)).close()


def _process(row: tuple[object, ...]) -> ProcessRecord:
    name, pid, started, key, started_at, log, workload = row
    return ProcessRecord(
        name=str(name),
        identity=Identity(int(str(pid)), int(str(started))),
        key=str(key),
        started_at=datetime.fromisoformat(str(started_at)),
        log=str(log),
        workload=str(workload),
    )


def _resource(kind: str, row: tuple[str, ...]) -> ResourceRecord:
    name, identifier, key, workload = row
    is_container = kind == "container"
    return ResourceRecord(
        kind="container" if is_container else "network", name=name, id=identifier, key=key, workload=workload
    )


def _myself() -> Identity:
    found = identity_of(os.getpid())
    assert found is not None, "this process is there"
    return found
