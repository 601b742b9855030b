"""The source files that a program was loaded from, and whether one has been saved since."""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

__all__ = ["Stamp", "code_below", "forget_modules", "modules_below", "stamps", "touched"]

Stamp = tuple[int, int]
"""When a file was written, in nanoseconds, and its size."""

_FOREIGN: Final = frozenset({"site-packages", "dist-packages"})


def modules_below(folder: Path, modules: Mapping[str, ModuleType] | None = None) -> dict[str, Path]:
    """The loaded modules whose files are in a folder or below it, by name; what was installed there is not meant."""
    found: dict[str, Path] = {}
    for name, module in dict(sys.modules if modules is None else modules).items():
        file = getattr(module, "__file__", None)
        if name == "__main__" or not file or not file.endswith(".py"):
            continue
        path = Path(file).resolve()
        if path.is_relative_to(folder) and not _FOREIGN.intersection(path.parts):
            found[name] = path
    return found


def code_below(folder: Path) -> list[Path]:
    """All Python files in a folder and below it, loaded or not; what is hidden, installed or cached is not meant."""
    found: list[Path] = []
    for place, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if not one.startswith((".", "_")) and one not in _FOREIGN]
        found += [Path(place, one) for one in files if one.endswith(".py")]
    return found


def stamps(paths: Iterable[Path]) -> dict[Path, Stamp]:
    """When each file was written, and its size; a file that is not there just now has none."""
    found: dict[Path, Stamp] = {}
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        found[path] = (status.st_mtime_ns, status.st_size)
    return found


def touched(before: Mapping[Path, Stamp], after: Mapping[Path, Stamp]) -> list[Path]:
    """The files that were written or made between two looks; one that vanished may be in the middle of being saved."""
    return sorted(path for path, stamp in after.items() if before.get(path) != stamp)


def forget_modules(folder: Path) -> dict[str, ModuleType]:
    """Has all modules below a folder be imported anew the next time; gives those that were there, to put them back."""
    names = modules_below(folder)
    return {name: sys.modules.pop(name) for name in names}
