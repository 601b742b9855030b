"""The names of the time zones of this machine, which CronJobs may have."""

import re
import zoneinfo
from functools import cache
from pathlib import Path

__all__ = ["preload", "zone_names"]


@cache
def preload() -> bytes:
    """Reads the names, so that no request waits for files; they are parsed on demand."""
    return b"".join(_listed(folder) for folder in map(Path, zoneinfo.TZPATH))


@cache
def zone_names() -> frozenset[str]:
    """The names; none on a machine without time zones."""
    found = re.findall(rb"^(?:Z|L \S+) (\S+)", preload(), re.MULTILINE)
    return frozenset(one.decode(errors="replace") for one in found)


def _listed(folder: Path) -> bytes:
    """The zones of a folder, in lines as those of `tzdata.zi`."""
    listed = folder / "tzdata.zi"
    if listed.is_file():
        return listed.read_bytes() + b"\n"
    names = [one.relative_to(folder) for one in folder.rglob("*") if one.is_file()] if folder.is_dir() else []
    return b"".join(b"Z %b\n" % bytes(one) for one in names)
