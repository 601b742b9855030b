"""Runs the suites of real engines on an engine that is unpacked from the distribution's packages, and not installed.

Everything runs in namespaces of its own, so that neither the firewall nor the folders of this machine are touched.
"""

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

from scripts.debian_packages import PackagesUnavailable, require_debian

__all__ = [
    "CGROUPS",
    "NAMESPACE",
    "ROOT",
    "cgroups_removed",
    "find_busybox",
    "require_machine",
    "run_suites",
    "write_image",
]

ROOT = Path(__file__).parents[4]
SUITES = (
    "systems/dcp/tests/engines/real_suite.py",
    "systems/dcp/tests/containers/real_suite.py",
    "systems/dcp/tests/containers/real_command_suite.py",
    "systems/dcp/tests/tunnels/real_suite.py",
    "systems/dcp/tests/containers/browser_suite.py",
)
CGROUPS = Path("/sys/fs/cgroup")
APPLETS = ("sh", "cat", "echo", "sleep", "true", "ls", "id", "stat")

# In its own mount namespace, so that files in these directories vanish with it.
NAMESPACE = """\
set -e
for folder in /run /var/lib /var/cache; do
    mount -t tmpfs tmpfs "$folder"
done
mkdir -p /run/lock
'{busybox}' ip link set lo up
"""


def require_machine(target: str) -> None:
    """Returns where the suites can run; PackagesUnavailable, with the reason, elsewhere."""
    require_debian()
    if os.geteuid() != 0:
        raise PackagesUnavailable(f"namespaces for networks need root here; try `sudo make {target}`")
    for tool in ("unshare", "mount"):
        if shutil.which(tool) is None:
            raise PackagesUnavailable(f"there is no {tool!r}, which makes the namespaces for networks")


def run_suites(inside: Path, arguments: list[str], env: Mapping[str, str]) -> int:
    """Runs the suites by the script `inside`, in namespaces; returns the exit code."""
    pytest = [sys.executable, "-m", "pytest", *SUITES, "-p", "no:cacheprovider", *arguments]
    namespaces = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command = [*namespaces, "sh", str(inside), *pytest]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, check=False).returncode


def find_busybox(prefix: Path) -> Path:
    """The busybox among unpacked packages."""
    return next(path for path in (prefix / "bin/busybox", prefix / "usr/bin/busybox") if path.exists())


def write_image(busybox: Path, path: Path) -> None:
    """Writes a file system with a shell."""
    with tarfile.open(path, "w") as tar:
        tar.add(busybox, "bin/busybox")
        for name in APPLETS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        for name in ("tmp", "etc"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o777
            tar.addfile(folder, io.BytesIO())


@contextlib.contextmanager
def cgroups_removed(parent: str):
    """Removes the cgroups below a parent that a block has left; those of another engine are not touched."""
    already = set(CGROUPS.glob(f"*/{parent}"))
    try:
        yield
    finally:
        for made in set(CGROUPS.glob(f"*/{parent}")) - already:
            for one in (*sorted((path for path in made.rglob("*") if path.is_dir()), reverse=True), made):
                with contextlib.suppress(OSError):  # used by a concurrent run
                    one.rmdir()
