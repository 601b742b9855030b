"""A file of lines that only its owner may read, and that gives way to a new one before it grows too large."""

import os
import stat
from pathlib import Path

__all__ = ["LineFile"]


class LineFile:
    """Appends to a file with mode 0600; at `max_bytes` it becomes `file.1`, the one before `file.2`, and so on.

    All methods block, and raise OSError.
    """

    def __init__(self, path: str | os.PathLike[str], *, max_bytes: int, backups: int) -> None:
        self._path = Path(path)
        self._max_bytes = max_bytes
        self._backups = backups
        self._descriptor = -1
        self._size = 0

    def open(self) -> None:
        """Opens the file, or makes it; one that others could read, or that is no ordinary file, is not used as it is.

        Nothing is written through a symbolic link: in a folder that others may write to, it could lead anywhere.
        """
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | os.O_NONBLOCK
        descriptor = os.open(self._path, flags, 0o600)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(descriptor)
            raise OSError(0, "it is no ordinary file", str(self._path))
        if stat.S_IMODE(found.st_mode) & 0o077:
            os.fchmod(descriptor, 0o600)
        self.close()
        self._descriptor, self._size = descriptor, found.st_size

    def write(self, data: bytes) -> None:
        """Adds whole lines, in a new file if they would make this one too large."""
        if self._max_bytes and self._size and self._size + len(data) > self._max_bytes:
            self._rotate()
        if self._descriptor < 0:
            self.open()
        view = memoryview(data)
        while view:
            done = os.write(self._descriptor, view)
            self._size += done
            view = view[done:]

    def close(self) -> None:
        """Closes the file."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _rotate(self) -> None:
        self.close()
        for number in range(self._backups, 0, -1):
            older = self._path if number == 1 else self._numbered(number - 1)
            if older.exists():
                older.replace(self._numbered(number))
        if not self._backups:
            self._path.unlink(missing_ok=True)
        self.open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
