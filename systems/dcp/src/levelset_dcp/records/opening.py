"""Where the state store is, and how it is opened: only where nobody else can write. All of this blocks."""

import os
import sqlite3
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from levelset.errors import ConfigError
from levelset_dcp.records.migrations import migrate

__all__ = ["HOME", "VARIABLE", "open_store", "state_path"]

VARIABLE: Final = "LEVELSET_DCP_STATE"
HOME: Final = ".levelset-dcp"
_PATIENCE: Final = 5.0


def state_path(env: Mapping[str, str] = os.environ) -> Path:
    """The file of the state store: what LEVELSET_DCP_STATE says, or one in the user's home folder."""
    named = env.get(VARIABLE)
    return Path(named) if named else Path.home() / HOME / "state.sqlite3"


def open_store(path: Path) -> sqlite3.Connection:
    """The store, brought up to date; ConfigError if others could write there, or if it is none that can be read."""
    _prepare(path.parent)
    try:
        # One thread has it, but not always the one that opens it.
        store = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            _set_up(store, str(path))
        except BaseException:
            store.close()
            raise
    except sqlite3.OperationalError as error:
        raise ConfigError(f"the state store {path} cannot be opened: {error}") from error
    except sqlite3.DatabaseError as error:
        raise ConfigError(f"{path} is no state store ({error}): move it away, or set {VARIABLE}") from error
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
        raise ConfigError(f"the folder {folder} of the state store cannot be made: {error}; set {VARIABLE}") from error
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigError(
            f"the folder {folder} of the state store is open to others, who could have programs stopped: "
            f"`chmod 700 {folder}`, or name another file with {VARIABLE}"
        )
