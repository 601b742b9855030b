"""What is to be run, as a value; and the words for why it could not be."""

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from levelset.errors import LevelsetError

__all__ = ["CannotStart", "Command", "cannot_start"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program with its words, its whole environment, and the folder it starts in."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    """The whole environment: nothing else is inherited."""
    cwd: str | None = None

    @property
    def program(self) -> str:
        """The first word; empty if there is none."""
        return self.argv[0] if self.argv else ""


class CannotStart(LevelsetError):
    """A program could not be started; nothing runs. The words say which, why, and what to do."""


def cannot_start(command: Command, error: OSError | ValueError) -> CannotStart:
    """The words for what the operating system said."""
    return CannotStart(f"cannot start {command.program!r}: {_why(command, error)}")


def _why(command: Command, error: OSError | ValueError) -> str:
    if not command.argv:
        return "the command is empty; its first word must name a program"
    if not isinstance(error, OSError):
        return f"{error}; look for a zero byte or a lone surrogate in its words and variables"
    folder = command.cwd
    if folder is not None and error.filename == folder:
        return f"its folder {folder!r} {_FOLDER.get(error.errno or 0, _said(error))}"
    return _missing(command) if error.errno == errno.ENOENT else _PROGRAM.get(error.errno or 0, _said(error))


def _missing(command: Command) -> str:
    """A text that is not there; or a script whose interpreter is not."""
    program = command.program
    if "/" not in program:
        path = command.env.get("PATH", os.defpath)
        return f"there is no such program on PATH ({path}); install it, or give its whole path"
    if os.access(os.path.join(command.cwd or "", program), os.F_OK):  # noqa: PTH118  (text in, text out)
        return "the file is there, but the interpreter that its first line names is not; correct that line"
    return "there is no such file; correct the path, or install the program"


def _said(error: OSError) -> str:
    return f"the operating system says: {error.strerror or error}"


_FOLDER: Final = {
    errno.ENOENT: "does not exist; make it first",
    errno.ENOTDIR: "is a file; name a folder",
    errno.EACCES: "may not be entered; check its permissions",
}
_TOO_MANY_FILES: Final = "too many files are open here; raise the limit (`ulimit -n`), or run fewer processes at a time"
_PROGRAM: Final = {
    errno.EACCES: "it is not executable; `chmod +x` it, or name the interpreter as the first word",
    errno.ENOEXEC: "it is no program for this machine; a script needs a first line such as `#!/bin/sh`",
    errno.ENOTDIR: "a part of its path is a file; correct the path",
    errno.E2BIG: "its words and variables are larger than the operating system takes; pass a file instead",
    errno.EMFILE: _TOO_MANY_FILES,
    errno.ENFILE: _TOO_MANY_FILES,
    errno.EAGAIN: "the limit of processes is reached (`ulimit -u`); it may be tried again when some have ended",
    errno.ENOMEM: "there is no memory left for it; it may be tried again when something has ended",
}
