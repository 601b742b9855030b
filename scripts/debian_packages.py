"""Unpacks packages of Debian, with the dependencies that are not installed, into a folder; installs nothing.

Tests use it for programs that they need for real, such as Podman or Redis.
"""

import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

__all__ = ["PackagesUnavailable", "require_debian", "unpack_packages"]


class PackagesUnavailable(Exception):
    """The reason why packages cannot be unpacked here."""


def require_debian() -> None:
    """Returns on a Linux with apt-get; PackagesUnavailable elsewhere."""
    if platform.system() != "Linux":
        raise PackagesUnavailable(f"Debian's packages need Linux, and this is {platform.system()}")
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise PackagesUnavailable(f"there is no {tool!r}; only Debian 12 and similar distributions are supported")


def unpack_packages(prefix: Path, wanted: Sequence[str]) -> None:
    """Downloads packages with their missing dependencies, and unpacks them once; PackagesUnavailable if not possible.

    Packages that are installed and wanted are unpacked as well, so that everything is in one place.
    """
    if (prefix / "complete").exists():
        return
    require_debian()
    shutil.rmtree(prefix, ignore_errors=True)
    prefix.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="levelset-packages-") as folder:
        lists: tuple[str, ...] = ()
        try:
            _download(Path(folder), wanted, lists)
        except PackagesUnavailable:
            # The package lists of this machine may be missing or old, so a private copy is updated.
            for one in ("lists/partial", "cache/archives/partial"):
                (Path(folder) / one).mkdir(parents=True)
            lists = ("-o", f"Dir::State::lists={folder}/lists", "-o", f"Dir::Cache={folder}/cache")
            _apt(Path(folder), "update", *lists)
            _download(Path(folder), wanted, lists)
        for package in sorted(Path(folder).glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(package), str(prefix)], check=True)
    (prefix / "complete").touch()


def _download(folder: Path, wanted: Sequence[str], options: tuple[str, ...]) -> None:
    plan = _apt(folder, "install", "--simulate", "--no-install-recommends", *options, *wanted)
    names = {line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")}
    _apt(folder, "download", *options, *sorted(names | set(wanted)))


def _apt(folder: Path, *args: str) -> str:
    print("apt-get", *args[:1], file=sys.stderr, flush=True)
    done = subprocess.run(["apt-get", "-q", *args], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PackagesUnavailable(f"`apt-get {args[0]}` says: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout
