"""Writes files that nobody else may read: whole or not at all, and private from their first instant."""

import os
import secrets
from pathlib import Path

__all__ = ["write_private"]


def write_private(path: str | os.PathLike[str], data: bytes) -> None:
    """Replaces a file in one step, with mode 0600.

    A reader sees the old content or the new one, never a part, and no other user ever sees either. Raises OSError; the
    old file is untouched then.
    """
    target = Path(path)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    # The mode is given when the file is made: a chmod afterwards would leave a moment in which others can open it.
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
