"""The entry point of the `levelset` command; explains what to install if its optional libraries are missing."""

import sys
import time
from typing import Final

from levelset.garbage_collection import raise_threshold

__all__ = ["STARTED", "main"]

STARTED: Final = time.perf_counter()
"""When this process began to import the command; the ready lines count from here."""
OPTIONAL: Final = frozenset({"click", "rich"})


def main() -> None:
    """Runs the command with the arguments of this process, and exits.

    Exit codes: 0 done, 1 failed or standard output has no reader, 2 usage error or missing library.
    """
    raise_threshold()
    try:
        # Imported late: click is an optional extra, and this message must work without it.
        from levelset.cli.commands import levelset  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        if missing.name not in OPTIONAL:
            raise
        sys.stderr.write(f"The levelset command needs {missing.name}. Install it: pip install 'levelset[cli]'\n")
        raise SystemExit(2) from None
    levelset()
