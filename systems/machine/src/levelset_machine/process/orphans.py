"""The register of this user's machines: what a manager left running that was killed together with its guard.

A machine has a file in a folder of the user, which it locks while it lives. An unlocked file belongs to a machine that
was killed: the next machine ends the processes that carry its token, and removes the file.
"""

import contextlib
import fcntl
import logging
import os
import tempfile
from pathlib import Path
from typing import Final

from levelset_machine.process.guard_main import end_all, names_text

__all__ = ["MachineFile", "end_orphans"]

_log: Final = logging.getLogger(__name__)


class MachineFile:
    """The locked file of one machine, named by its token; where it cannot be made, there is none."""

    def __init__(self, token: str, folder: Path | None = None) -> None:
        self._path = (folder or _folder()) / token
        self._lock: int | None = None

    def open(self) -> None:
        """Creates and locks the file."""
        try:
            _make_folder(self._path.parent)
            self._lock = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            _log.warning(
                "this machine is not registered: if it is killed with its guard, its processes stay",
                extra={"path": str(self._path), "error": str(error)},
            )

    def close(self) -> None:
        """Removes the file, when nothing of the machine is left."""
        if self._lock is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None


def end_orphans(folder: Path | None = None) -> int:
    """Ends what killed machines of this user have left running; returns how many processes. Blocks."""
    folder = folder or _folder()
    if not _is_ours(folder):
        return 0
    return sum(_end_orphans_of(path) for path in sorted(folder.iterdir()))


def _end_orphans_of(path: Path) -> int:
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:  # it is locked, or was removed meanwhile
        lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        stack.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ended = end_all({}, path.name, rounds=1)
        path.unlink()
        if ended:
            _log.warning(
                "ended processes of a session that was killed with its guard",
                extra={"count": len(ended), "processes": names_text(ended)},
            )
        return len(ended)
    return 0


def _folder() -> Path:
    return Path(tempfile.gettempdir()) / f"levelset-machines-{os.getuid()}"


def _make_folder(folder: Path) -> None:
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if not _is_ours(folder):
        raise PermissionError(f"{folder} is not a folder of this user alone; remove it")


def _is_ours(folder: Path) -> bool:
    """Whether only this user can have made its files: another user of /tmp could have made the folder first."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return found.st_uid == os.getuid() and found.st_mode & 0o170077 == 0o040000
