"""Writes private files (0600), atomically."""

import os
from pathlib import Path

__all__ = ["write_private"]


def write_private(path: str | os.PathLike[str], data: bytes) -> None:
    """Replaces a file in one step, with mode 0600.

    A reader sees the old content or the new one, never a part of it, and other users see neither at any time. Raises
    OSError and then leaves the old file untouched.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.urandom(8).hex()}")
    # The mode is set on creation: with a later chmod other users could open the file in between.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
