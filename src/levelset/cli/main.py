"""Starts the `levelset` command, or says what to install when the command line's own libraries are missing."""

import sys

__all__ = ["main"]

OPTIONAL = frozenset({"click", "rich"})


def main() -> None:
    """Runs the command with the arguments of this process, and exits.

    Exit codes: 0 done, 1 it failed, 2 it was not understood or cannot start.
    """
    try:
        # Late, because click is an extra: without it this sentence is still possible.
        from levelset.cli.commands import levelset  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        if missing.name not in OPTIONAL:
            raise
        sys.stderr.write(f"The levelset command needs {missing.name}. Install it: pip install 'levelset[cli]'\n")
        raise SystemExit(2) from None
    levelset()
