"""Runs the conformance checks on a real Podman that is not installed: unpacked from the distribution's packages.

The packages are unpacked into `.podman` (or LEVELSET_PODMAN); containers and images live in a temporary folder; all of
it runs in namespaces of its own, so that neither the firewall nor the folders of this machine are touched. Where that
is not possible, the checks are skipped with a reason.
"""

import contextlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from systems.dcp.tests.engines.podman_files import CGROUPS, PARENT, Places, write_files

__all__ = ["main"]

ROOT = Path(__file__).parents[4]
SUITES = ("systems/dcp/tests/engines/real_suite.py", "systems/dcp/tests/containers/real_suite.py")
WANTED = ("podman", "conmon", "runc", "netavark", "aardvark-dns", "iptables", "busybox-static")


class Skipped(Exception):
    """The reason why the checks were skipped."""


def main(arguments: list[str]) -> int:
    """Prepares Podman if necessary, and runs the suites; the arguments are passed to pytest."""
    try:
        _require_machine()
        prefix = Path(os.environ.get("LEVELSET_PODMAN") or ROOT / ".podman")
        if not (prefix / "complete").exists():
            _unpack(prefix)
    except Skipped as why:
        print(f"test-podman: SKIPPED, nothing was checked: {why}")
        return 0
    already = set(CGROUPS.glob(f"*/{PARENT}"))
    with tempfile.TemporaryDirectory(prefix="levelset-podman-") as folder:
        places = Places(prefix=prefix.resolve(), folder=Path(folder))
        write_files(places)
        try:
            return _run(places, arguments)
        finally:
            _remove_cgroups(already)


def _require_machine() -> None:
    if platform.system() != "Linux":
        raise Skipped(f"containers need Linux, and this is {platform.system()}")
    if os.geteuid() != 0:
        raise Skipped("namespaces for networks need root here; try `sudo make test-podman`")
    for tool in ("apt-get", "dpkg-deb", "unshare", "mount"):
        if shutil.which(tool) is None:
            raise Skipped(f"there is no {tool!r}; only Debian 12 and similar distributions are supported")


def _unpack(prefix: Path) -> None:
    """Downloads the packages with their missing dependencies, and unpacks them."""
    shutil.rmtree(prefix, ignore_errors=True)
    prefix.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="levelset-packages-") as folder:
        lists: tuple[str, ...] = ()
        try:
            _download(Path(folder), lists)
        except Skipped:
            # The package lists of this machine may be missing or old, so a private copy is updated.
            for one in ("lists/partial", "cache/archives/partial"):
                (Path(folder) / one).mkdir(parents=True)
            lists = ("-o", f"Dir::State::lists={folder}/lists", "-o", f"Dir::Cache={folder}/cache")
            _apt(Path(folder), "update", *lists)
            _download(Path(folder), lists)
        for package in sorted(Path(folder).glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(package), str(prefix)], check=True)
    (prefix / "complete").touch()


def _download(folder: Path, options: tuple[str, ...]) -> None:
    plan = _apt(folder, "install", "--simulate", "--no-install-recommends", *options, *WANTED)
    names = {line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")}
    # Installed packages are unpacked as well, so that everything is in one place.
    _apt(folder, "download", *options, *sorted(names | set(WANTED)))


def _apt(folder: Path, *args: str) -> str:
    print("test-podman: apt-get", *args[:1], flush=True)
    done = subprocess.run(["apt-get", "-q", *args], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Skipped(f"`apt-get {args[0]}` says: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout


def _run(places: Places, arguments: list[str]) -> int:
    pytest = [sys.executable, "-m", "pytest", *SUITES, "-p", "no:cacheprovider", *arguments]
    namespaces = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    env = {**os.environ, "LEVELSET_PODMAN_PROGRAM": str(places.tool), "LEVELSET_PODMAN_IMAGE": str(places.image)}
    return subprocess.run([*namespaces, "sh", str(places.inside), *pytest], cwd=ROOT, env=env, check=False).returncode


def _remove_cgroups(already: set[Path]) -> None:
    """Removes the cgroups that the runtime has left; those of another Podman are not touched."""
    for parent in set(CGROUPS.glob(f"*/{PARENT}")) - already:
        for one in (*sorted((path for path in parent.rglob("*") if path.is_dir()), reverse=True), parent):
            with contextlib.suppress(OSError):  # used by a concurrent run
                one.rmdir()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
