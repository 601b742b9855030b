"""The command of a process, and the error for one that cannot be started."""

import errno
import os
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from levelset.errors import LevelsetError

__all__ = ["CannotStart", "Command", "cannot_start"]


class Command(Struct, frozen=True, kw_only=True):
    """A program with its arguments, its environment, and its working directory."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    """The whole environment: nothing is inherited."""
    cwd: str | None = None

    @property
    def program(self) -> str:
        """The first word of `argv`; empty if there is none."""
        return self.argv[0] if self.argv else ""


class CannotStart(LevelsetError):
    """A program could not be started; no process runs. The message names the program, the reason and the remedy."""


def cannot_start(command: Command, error: OSError | ValueError) -> CannotStart:
    """The CannotStart for an error of the operating system."""
    return CannotStart(f"cannot start {command.program!r}: {_why(command, error)}")


def _why(command: Command, error: OSError | ValueError) -> str:
    if not command.argv:
        return "the command is empty; its first word must name a program"
    if not isinstance(error, OSError):
        return f"{error}; check its arguments and variables for a zero byte or a lone surrogate"
    folder = command.cwd
    if folder is not None and error.filename == folder:
        return f"its working directory {folder!r} {_FOLDER.get(error.errno or 0, _os_message(error))}"
    return _missing(command) if error.errno == errno.ENOENT else _PROGRAM.get(error.errno or 0, _os_message(error))


def _missing(command: Command) -> str:
    """Why the system reported ENOENT: the program is missing, or the interpreter of a script."""
    program = command.program
    if "/" not in program:
        path = command.env.get("PATH", os.defpath)
        return f"there is no such program on PATH ({path}); install it, or give its whole path"
    if os.access(os.path.join(command.cwd or "", program), os.F_OK):  # noqa: PTH118  (text in, text out)
        return "the file exists, but the interpreter that its first line names does not; correct that line"
    return "there is no such file; correct the path, or install the program"


def _os_message(error: OSError) -> str:
    return f"the operating system reports: {error.strerror or error}"


_FOLDER: Final = {
    errno.ENOENT: "does not exist; create it first",
    errno.ENOTDIR: "is a file; name a directory",
    errno.EACCES: "cannot be entered; check its permissions",
}
_TOO_MANY_FILES: Final = "too many open files; raise the limit (`ulimit -n`), or run fewer processes at a time"
_PROGRAM: Final = {
    errno.EACCES: "it is not executable; `chmod +x` it, or name the interpreter as the first word",
    errno.ENOEXEC: "it is not a program for this machine; a script needs a first line such as `#!/bin/sh`",
    errno.ENOTDIR: "a part of its path is a file; correct the path",
    errno.E2BIG: "its arguments and variables are larger than the operating system allows; pass a file instead",
    errno.EMFILE: _TOO_MANY_FILES,
    errno.ENFILE: _TOO_MANY_FILES,
    errno.EAGAIN: "the process limit is reached (`ulimit -u`); try again when some processes have ended",
    errno.ENOMEM: "there is not enough memory; try again when some processes have ended",
}
