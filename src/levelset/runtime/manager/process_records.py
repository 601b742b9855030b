"""Where running managers can be found: a private file for each, in a private folder of the user's.

`levelset status`, `why` and `trigger` look here. A file names the process, where its pages are and the token that opens
them; it is removed when the manager stops, and those of processes that died are swept away by whoever looks next.
"""

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from levelset.errors import ConfigError
from levelset.http.private_files import write_private

__all__ = ["FOLDER_VARIABLE", "Record", "find_records", "records_folder", "remove_record", "write_record"]

FOLDER_VARIABLE: Final = "LEVELSET_RUNTIME_DIR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One running manager."""

    pid: int
    url: str
    token: str
    program: str = ""

    def __repr__(self) -> str:
        return f"<Record of process {self.pid} at {self.url}>"


def records_folder() -> Path:
    """The folder: LEVELSET_RUNTIME_DIR, or one of the user's in the runtime or the temporary directory."""
    given = os.environ.get(FOLDER_VARIABLE)
    if given:
        return Path(given)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Path(runtime, "levelset")
    return Path(tempfile.gettempdir(), f"levelset-{os.getuid()}")


def write_record(record: Record) -> Path:
    """Writes the file of a manager; ConfigError if the folder belongs to somebody else."""
    folder = _private_folder()
    path = folder / f"{record.pid}-{record.url.rpartition(':')[2]}.json"
    write_private(path, json.dumps(asdict(record)).encode())
    return path


def remove_record(path: Path) -> None:
    """Removes the file of a manager that stops."""
    path.unlink(missing_ok=True)


def find_records() -> Sequence[Record]:
    """The managers of this user that run on this machine, the newest process last; nobody else's word is taken."""
    folder = records_folder()
    if not _is_private(folder):
        return ()
    found: list[Record] = []
    for path in folder.glob("*.json"):
        record = _read(path)
        if record is None or not _is_alive(record.pid):
            remove_record(path)
        else:
            found.append(record)
    return sorted(found, key=lambda one: one.pid)


def _private_folder() -> Path:
    folder = records_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_private(folder):
        hint = f"remove it, or set {FOLDER_VARIABLE} to a folder of your own"
        raise ConfigError(f"{folder} is not yours alone, and tokens are not written there; {hint}")
    return folder


def _is_private(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    return folder.is_dir() and not folder.is_symlink() and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _read(path: Path) -> Record | None:
    try:
        return Record(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None  # written by another version, or half of one


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's process by now, perhaps; it will not know the token
    return True
