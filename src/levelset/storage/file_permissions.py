"""Warns about files with secrets that other users of the machine can read."""

import logging
import shlex
from pathlib import Path

__all__ = ["warn_if_exposed"]

log = logging.getLogger(__name__)

_OTHERS = 0o007


def warn_if_exposed(content: str, *paths: Path) -> None:
    """Logs a warning for those of the files that others can read or write, with the command that mends it.

    They are not refused: a server that ran yesterday must start. A group is a choice, as in the volumes of a cluster.
    """
    exposed = [path for path in paths if path.exists() and path.stat().st_mode & _OTHERS]
    if exposed:
        names = shlex.join(map(str, exposed))
        log.warning("%s can be opened by other users, and holds %s: run chmod 600 %s", exposed[0], content, names)
