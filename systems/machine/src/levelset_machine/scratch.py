"""A folder for the files of one manager: gone with it, or, if it was killed, removed by the next one."""

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
    """A new folder that only this user can read, for the length of a block.

    Folders with the same prefix whose managers were killed are removed first: what Pods and programs were told, secrets
    among it, does not stay on the disk.
    """
    folder, held = await asyncio.to_thread(_make, prefix, Path(tempfile.gettempdir()) if within is None else within)
    try:
        yield folder
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        os.close(held)


def _make(prefix: str, place: Path) -> tuple[Path, int]:
    _sweep(place, prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    return folder, _hold(folder)


def _hold(folder: Path) -> int:
    """Locks a folder for as long as this process lives; nobody ever sees it with a lock that is free."""
    new = folder / f"{_LOCK}.new"
    held = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    new.rename(folder / _LOCK)
    return held


def _sweep(place: Path, prefix: str) -> None:
    for folder in place.glob(f"{prefix}*"):
        with suppress(OSError):  # it is held, is going already, or is none of ours
            _remove_unheld(folder)


def _remove_unheld(folder: Path) -> None:
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        return
    held = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(held)
