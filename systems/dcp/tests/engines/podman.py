"""Runs the conformance checks on a real Podman that is not installed: unpacked from the distribution's packages.

The packages are unpacked into `.podman` (or LEVELSET_PODMAN); containers and images live in a temporary folder; all of
it runs in namespaces of its own, so that neither the firewall nor the folders of this machine are touched. Where that
is not possible, the checks are skipped with a reason.
"""

import os
import sys
import tempfile
from pathlib import Path

from scripts.debian_packages import PackagesUnavailable, unpack_packages

from systems.dcp.tests.engines.podman_files import PARENT, Places, write_files
from systems.dcp.tests.engines.unpacked import ROOT, cgroups_removed, require_machine, run_suites

__all__ = ["main"]

WANTED = ("podman", "conmon", "runc", "netavark", "aardvark-dns", "iptables", "busybox-static")


def main(arguments: list[str]) -> int:
    """Prepares Podman if necessary, and runs the suites; the arguments are passed to pytest."""
    try:
        require_machine("test-podman")
        prefix = Path(os.environ.get("LEVELSET_PODMAN") or ROOT / ".podman")
        unpack_packages(prefix, WANTED)
    except PackagesUnavailable as why:
        print(f"test-podman: SKIPPED, nothing was checked: {why}")
        return 0
    with tempfile.TemporaryDirectory(prefix="levelset-podman-") as folder, cgroups_removed(PARENT):
        places = Places(prefix=prefix.resolve(), folder=Path(folder))
        write_files(places)
        env = {"LEVELSET_ENGINE": "podman", "LEVELSET_ENGINE_PROGRAM": str(places.tool)}
        return run_suites(places.inside, arguments, {**env, "LEVELSET_ENGINE_IMAGE": str(places.image)})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
