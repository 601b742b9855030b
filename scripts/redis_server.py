"""Prints the path of a redis-server: the installed one, or that of Debian's packages, unpacked into `.cache/redis`."""

import shutil
import sys
from pathlib import Path

from scripts.debian_packages import PackagesUnavailable, unpack_packages

__all__ = ["main"]

_PREFIX = Path(__file__).parents[1] / ".cache" / "redis"


def main() -> int:
    """Prints the path; 1 with the reason if there is none."""
    installed = shutil.which("redis-server")
    if installed is not None:
        print(installed)
        return 0
    try:
        unpack_packages(_PREFIX, ["redis-server", "redis-tools"])
    except PackagesUnavailable as why:
        print(f"test-redis: SKIPPED, nothing was checked: {why}", file=sys.stderr)
        return 1
    print(_program(_PREFIX))
    return 0


def _program(prefix: Path) -> Path:
    """A script that runs the unpacked server with its libraries."""
    script = prefix / "redis-server"
    libraries = ":".join(str(one) for one in sorted((prefix / "usr/lib").glob("*-linux-gnu")))
    script.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}" exec "{prefix}/usr/bin/redis-server" "$@"\n')
    script.chmod(0o755)
    return script


if __name__ == "__main__":
    sys.exit(main())
