"""The files by which running managers are found: one for each process, in a private folder of the user.

`levelset status`, `why`, `trigger` and `dashboard` read them. A file has the process id, the URL of the admin API, its
token, and the URL of the API server. It is removed when the manager stops; files of processes that died are removed by
the next reader. `call_admin` sends a request to the admin API of one of them.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from levelset.errors import ConfigError, Unreachable
from levelset.http.private_files import write_private

__all__ = [
    "FOLDER_VARIABLE",
    "ProcessRecord",
    "call_admin",
    "find_records",
    "private_folder",
    "records_folder",
    "remove_record",
    "write_record",
]

FOLDER_VARIABLE: Final = "LEVELSET_RUNTIME_DIR"


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one running manager."""

    pid: int
    url: str
    token: str
    program: str = ""
    server: str = ""
    """The URL of the API server that it talks to; empty if that is in its own process and listens nowhere."""

    def __repr__(self) -> str:
        return f"<Record of process {self.pid} at {self.url}>"


def records_folder() -> Path:
    """The folder: LEVELSET_RUNTIME_DIR, or a folder of the user in the runtime or the temporary directory."""
    given = os.environ.get(FOLDER_VARIABLE)
    if given:
        return Path(given)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Path(runtime, "levelset")
    # Not `tempfile`, which brings shutil and archives along. `_private_folder` refuses a folder of other users.
    return Path(os.environ.get("TMPDIR") or "/tmp", f"levelset-{os.getuid()}")  # noqa: S108


def private_folder() -> Path:
    """That folder, made if it is missing; ConfigError if other users could read or write it."""
    folder = records_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_private(folder):
        hint = f"remove it, or set {FOLDER_VARIABLE} to a folder of your own"
        raise ConfigError(f"{folder} is not a private folder of this user, so nothing is written there; {hint}")
    return folder


def write_record(record: ProcessRecord) -> Path:
    """Writes the file of a manager; ConfigError if other users could read or write the folder."""
    folder = private_folder()
    path = folder / f"{record.pid}-{record.url.rpartition(':')[2]}.json"
    write_private(path, msgspec.json.encode(record))
    return path


def remove_record(path: Path) -> None:
    """Removes the file of a manager that stops."""
    path.unlink(missing_ok=True)


def find_records() -> Sequence[ProcessRecord]:
    """The running managers of this user on this machine, by process id; a folder that is not private is ignored."""
    folder = records_folder()
    if not _is_private(folder):
        return ()
    found: list[ProcessRecord] = []
    for path in folder.glob("*.json"):
        record = _read(path)
        if record is None or not _is_alive(record.pid):
            remove_record(path)
        else:
            found.append(record)
    return sorted(found, key=lambda one: one.pid)


def call_admin(record: ProcessRecord, method: str, path: str, *, within: float = 10.0) -> tuple[int, Any]:
    """The status and the JSON with which the admin API of a manager responds; blocks for about `within` s at most.

    Unreachable if it does not respond.
    """
    import http.client  # noqa: PLC0415  # it brings the parser of e-mails along, which no manager needs

    parts = urlsplit(record.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=within)
    try:
        connection.request(method, path, headers={"Authorization": f"Bearer {record.token}"})
        response = connection.getresponse()
        return response.status, msgspec.json.decode(response.read())
    except (OSError, http.client.HTTPException, msgspec.DecodeError, ValueError) as error:
        raise Unreachable(f"the manager of process {record.pid} does not respond: {error}") from error
    finally:
        connection.close()


def _is_private(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    return folder.is_dir() and not folder.is_symlink() and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _read(path: Path) -> ProcessRecord | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ProcessRecord)  # a newer version may have written more
    except (OSError, msgspec.MsgspecError):
        return None  # written by another version, or incomplete


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # perhaps another user's process by now; it does not accept the token
    return True
