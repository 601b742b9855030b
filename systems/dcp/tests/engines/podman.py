"""Runs the conformance checks on a real Podman that is not installed: unpacked from the distribution's packages.

The packages are unpacked into `.podman` (or LEVELSET_PODMAN); containers and images live in a temporary folder; all of
it runs in namespaces of its own, so that neither the firewall nor the folders of this machine are touched. Where that
is not possible, the checks are skipped with a reason.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.debian_packages import PackagesUnavailable, require_debian, unpack_packages

from systems.dcp.tests.engines.podman_files import CGROUPS, PARENT, Places, write_files

__all__ = ["main"]

ROOT = Path(__file__).parents[4]
SUITES = ("systems/dcp/tests/engines/real_suite.py", "systems/dcp/tests/containers/real_suite.py")
WANTED = ("podman", "conmon", "runc", "netavark", "aardvark-dns", "iptables", "busybox-static")


def main(arguments: list[str]) -> int:
    """Prepares Podman if necessary, and runs the suites; the arguments are passed to pytest."""
    try:
        _require_machine()
        prefix = Path(os.environ.get("LEVELSET_PODMAN") or ROOT / ".podman")
        unpack_packages(prefix, WANTED)
    except PackagesUnavailable as why:
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
    require_debian()
    if os.geteuid() != 0:
        raise PackagesUnavailable("namespaces for networks need root here; try `sudo make test-podman`")
    for tool in ("unshare", "mount"):
        if shutil.which(tool) is None:
            raise PackagesUnavailable(f"there is no {tool!r}, which makes the namespaces for networks")


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
