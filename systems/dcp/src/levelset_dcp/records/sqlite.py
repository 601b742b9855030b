"""Records and leases in a SQLite file, which all sessions of a user share.

SQLite calls may wait for the disk or for another session, so they run in a thread of their own.
"""

import asyncio
import os
import sqlite3
import stat
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from levelset.errors import ConfigError, LevelsetError
from levelset_dcp.records.interface import ProcessRecord, ResourceKind, ResourceRecord, WorkloadRecords
from levelset_dcp.records.migrations import migrate
from levelset_machine import Identity, identity_of, is_alive

__all__ = ["HOME", "VARIABLE", "RecordsFailed", "SqliteRecords", "open_store", "state_path"]

VARIABLE: Final = "LEVELSET_DCP_STATE"
HOME: Final = ".levelset-dcp"
_PATIENCE: Final = 5.0
Row = tuple[str, int, int, str, str, str, str]
_TABLES: Final = {"container": "persistent_containers", "network": "persistent_networks"}
_PROCESS: Final = "name, pid, started, key, started_at, log, workload"
_RESOURCE: Final = "name, id, key, workload"


def state_path(env: Mapping[str, str] = os.environ) -> Path:
    """The path of the state store: LEVELSET_DCP_STATE, or a file in the user's home directory."""
    named = env.get(VARIABLE)
    return Path(named) if named else Path.home() / HOME / "state.sqlite3"


def open_store(path: Path) -> sqlite3.Connection:
    """Opens and migrates the store; raises ConfigError if others can write to it, or if it is no store. Blocks."""
    _prepare(path.parent)
    try:
        # The connection is used by one thread, but not by the one that opens it.
        store = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            _set_up(store, str(path))
        except BaseException:
            store.close()
            raise
    except sqlite3.OperationalError as error:
        raise ConfigError(f"cannot open the state store {path}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise ConfigError(f"{path} is not a state store ({error}): move it away, or set {VARIABLE}") from error
    path.chmod(0o600)
    return store


def _set_up(store: sqlite3.Connection, name: str) -> None:
    store.execute("BEGIN IMMEDIATE")
    try:
        migrate(store, name)
    except BaseException:
        store.execute("ROLLBACK")
        raise
    store.execute("COMMIT")
    store.execute("PRAGMA journal_mode = WAL")
    store.execute("PRAGMA synchronous = NORMAL")


def _prepare(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise ConfigError(
            f"cannot create the directory {folder} of the state store: {error}; set {VARIABLE}"
        ) from error
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigError(
            f"the directory {folder} of the state store is accessible to other users, who could stop programs: "
            f"`chmod 700 {folder}`, or name another file with {VARIABLE}"
        )


T = TypeVar("T")


class RecordsFailed(LevelsetError):
    """The state store cannot be read or written; the message names it and the reason."""


class SqliteRecords:
    """Records in a file; `async with SqliteRecords(path) as records:`. Raises ConfigError if the file is unusable.

    Leases belong to this process, unless `owner` names another one.
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
            await self._run(_release_all(self._owner))
            await self._run(sqlite3.Connection.close)
        finally:
            self._connection = None
            await asyncio.to_thread(self._thread.shutdown)

    async def find(self, name: str) -> ProcessRecord | None:
        """The record of an Executable; None if there is none."""
        query = f"SELECT {_PROCESS} FROM persistent_processes WHERE name = ?"  # noqa: S608  (names of our own)
        row: Row | None = await self._run(lambda store: store.execute(query, (name,)).fetchone())
        return None if row is None else _process(row)

    async def write(self, record: ProcessRecord) -> None:
        """Writes the record of a process."""
        values = (
            record.name,
            record.identity.pid,
            record.identity.started,
            record.key,
            record.started_at.isoformat(),
            record.log,
            record.workload or self.workload,
        )
        statement = f"INSERT OR REPLACE INTO persistent_processes ({_PROCESS}) VALUES (?,?,?,?,?,?,?)"  # noqa: S608  (as above)
        await self._execute(statement, *values)

    async def remove(self, name: str) -> None:
        """Removes the record of a process; does nothing if there is none."""
        await self._execute("DELETE FROM persistent_processes WHERE name = ?", name)

    async def find_resource(self, kind: ResourceKind, name: str) -> ResourceRecord | None:
        """The record of a container or network; None if there is none."""
        query = f"SELECT {_RESOURCE} FROM {_TABLES[kind]} WHERE name = ?"  # noqa: S608  (names of our own)
        row: tuple[str, str, str, str] | None = await self._run(lambda store: store.execute(query, (name,)).fetchone())
        return None if row is None else _resource(kind, row)

    async def write_resource(self, record: ResourceRecord) -> None:
        """Writes the record of a container or network."""
        statement = f"INSERT OR REPLACE INTO {_TABLES[record.kind]} ({_RESOURCE}) VALUES (?,?,?,?)"  # noqa: S608  (names of our own)
        await self._execute(statement, record.name, record.id, record.key, record.workload or self.workload)

    async def remove_resource(self, kind: ResourceKind, name: str) -> None:
        """Removes the record of a container or network; does nothing if there is none."""
        await self._execute(f"DELETE FROM {_TABLES[kind]} WHERE name = ?", name)  # noqa: S608  (names of our own)

    async def workload_records(self, workload: str) -> WorkloadRecords:
        """All records of a workload."""

        def read(store: sqlite3.Connection) -> WorkloadRecords:
            def rows(columns: str, table: str) -> list[tuple[str, ...]]:
                query = f"SELECT {columns} FROM {table} WHERE workload = ? ORDER BY name"  # noqa: S608  (names of our own)
                return store.execute(query, (workload,)).fetchall()

            return WorkloadRecords(
                [_process(row) for row in rows(_PROCESS, "persistent_processes")],
                [_resource(kind, row) for kind, table in _TABLES.items() for row in rows(_RESOURCE, table)],
            )

        return await self._run(read)

    async def lease(self, key: str) -> bool:
        """Acquires or confirms a lease; False if another living process holds it."""
        owner = self._owner

        def take(store: sqlite3.Connection) -> bool:
            store.execute("BEGIN IMMEDIATE")  # takes the write lock, so that check and insert are atomic
            try:
                row = store.execute("SELECT pid, started FROM resource_locks WHERE key = ?", (key,)).fetchone()
                holder = None if row is None else Identity(row[0], row[1])
                may_have_it = holder is None or holder == owner or not is_alive(holder)
                if may_have_it and holder != owner:
                    statement = "INSERT OR REPLACE INTO resource_locks VALUES (?, ?, ?)"
                    store.execute(statement, (key, owner.pid, owner.started))
            finally:
                store.execute("COMMIT")
            return may_have_it

        return await self._run(take)

    async def release(self, key: str) -> None:
        """Releases a lease; does nothing if another process holds it."""
        statement = "DELETE FROM resource_locks WHERE key = ? AND pid = ? AND started = ?"
        await self._execute(statement, key, self._owner.pid, self._owner.started)

    async def _execute(self, statement: str, *values: object) -> None:
        await self._run(lambda store: store.execute(statement, values).close())

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        store = self._connection
        if store is None:
            raise RecordsFailed(f"the state store {self.path} is not open; use it inside its `async with` block")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, store)
        except sqlite3.Error as error:
            raise RecordsFailed(f"the state store {self.path} failed: {error}") from error


def _release_all(owner: Identity) -> Callable[[sqlite3.Connection], object]:
    statement = "DELETE FROM resource_locks WHERE pid = ? AND started = ?"
    return lambda store: store.execute(statement, (owner.pid, owner.started)).close()


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
    assert found is not None, "this process exists"
    return found
