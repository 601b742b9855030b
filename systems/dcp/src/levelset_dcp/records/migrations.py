"""The schema migrations of the state store. All functions block.

A version has a major and a minor number. A later minor version is compatible with this code; a later major version is
rejected before anything is changed. Migrations are idempotent: an interrupted one is run again.
"""

import sqlite3
from collections.abc import Callable
from typing import Final

from levelset.errors import ConfigError

__all__ = ["CURRENT", "Version", "migrate", "version_of"]

Version = tuple[int, int]


def migrate(connection: sqlite3.Connection, name: str) -> None:
    """Migrates the store to the current version; raises ConfigError, without changes, for a later major version."""
    found, is_dirty = version_of(connection)
    if found[0] > CURRENT[0]:
        raise ConfigError(
            f"{name} was written by a later levelset-dcp (version {found[0]}.{found[1]}, this one supports "
            f"{CURRENT[0]}.{CURRENT[1]}): install that one, or name another file with LEVELSET_DCP_STATE"
        )
    missing = [(version, step) for version, step in _STEPS if version > found or (is_dirty and version == found)]
    for version, step in missing:
        _write_version(connection, version, is_dirty=True)
        step(connection)
        _write_version(connection, version, is_dirty=False)


def version_of(connection: sqlite3.Connection) -> tuple[Version, bool]:
    """The version of a store, and whether its migration was interrupted; (0, 0) for an empty store."""
    if not _columns(connection, "schema_version"):
        return (0, 0), False
    row = connection.execute("SELECT major, minor, dirty FROM schema_version").fetchone()
    return ((0, 0), False) if row is None else ((row[0], row[1]), bool(row[2]))


def _write_version(connection: sqlite3.Connection, version: Version, *, is_dirty: bool) -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_version (one INTEGER PRIMARY KEY CHECK (one = 1), "
        "major INTEGER NOT NULL, minor INTEGER NOT NULL, dirty INTEGER NOT NULL)"
    )
    connection.execute("INSERT OR REPLACE INTO schema_version VALUES (1, ?, ?, ?)", (*version, is_dirty))


def _begin(connection: sqlite3.Connection) -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS resource_locks "
        "(key TEXT PRIMARY KEY, pid INTEGER NOT NULL, started INTEGER NOT NULL) WITHOUT ROWID"
    )
    connection.execute(
        "CREATE TABLE IF NOT EXISTS persistent_processes (name TEXT PRIMARY KEY, pid INTEGER NOT NULL, "
        "started INTEGER NOT NULL, key TEXT NOT NULL, started_at TEXT NOT NULL, log TEXT NOT NULL) WITHOUT ROWID"
    )
    for table in ("persistent_containers", "persistent_networks"):
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {table} "
            "(name TEXT PRIMARY KEY, id TEXT NOT NULL, key TEXT NOT NULL) WITHOUT ROWID"
        )


def _add_workloads(connection: sqlite3.Connection) -> None:
    for table in ("persistent_processes", "persistent_containers", "persistent_networks"):
        if "workload" not in _columns(connection, table):
            connection.execute(f"ALTER TABLE {table} ADD COLUMN workload TEXT NOT NULL DEFAULT ''")


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


_STEPS: Final[tuple[tuple[Version, Callable[[sqlite3.Connection], None]], ...]] = (
    ((1, 0), _begin),
    ((1, 1), _add_workloads),
)
CURRENT: Final = _STEPS[-1][0]
