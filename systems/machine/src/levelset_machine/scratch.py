"""A temporary folder of one manager: removed when the manager exits, or, if it was killed, by the next one."""

import asyncio
import fcntl
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

__all__ = ["scratch_folder"]

_LOCK: Final = ".held"


@asynccontextmanager
async def scratch_folder(prefix: str, *, within: Path | None = None) -> AsyncGenerator[Path, None]:
    """A new folder that only this user can read, removed at the end of the block.

    Folders with the same prefix whose managers were killed are removed first, so that the files of their Pods and
    programs, secrets among them, do not stay on the disk.
    """
    folder, lock = await asyncio.to_thread(_make, prefix, Path(tempfile.gettempdir()) if within is None else within)
    try:
        yield folder
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        os.close(lock)


def _make(prefix: str, parent: Path) -> tuple[Path, int]:
    _sweep(parent, prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    return folder, _lock(folder)


def _lock(folder: Path) -> int:
    """Locks a folder while this process lives; the lock file only appears under its name when it is locked."""
    new = folder / f"{_LOCK}.new"
    lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    new.rename(folder / _LOCK)
    return lock


def _sweep(parent: Path, prefix: str) -> None:
    for folder in parent.glob(f"{prefix}*"):
        with suppress(OSError):  # it is locked, is being removed, or is not one of ours
            _remove_unlocked(folder)


def _remove_unlocked(folder: Path) -> None:
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        return
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
