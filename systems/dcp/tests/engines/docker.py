"""Runs the conformance checks on a real Docker daemon that is not installed: unpacked from the distribution's packages.

The packages are unpacked into `.docker` (or LEVELSET_DOCKER). The daemon runs in namespaces of its own, with its state
in a temporary folder, and ends with the checks. Where that is not possible, the checks are skipped with a reason.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.debian_packages import PackagesUnavailable, unpack_packages

from systems.dcp.tests.engines.unpacked import (
    NAMESPACE,
    ROOT,
    cgroups_removed,
    find_busybox,
    require_machine,
    run_suites,
    write_image,
)

__all__ = ["main"]

WANTED = ("docker.io", "containerd", "runc", "iptables", "busybox-static")
PARENT = "levelset_docker"
NO_DAEMON = 97
"""The exit code of the script if the daemon does not start."""

TOOL = """\
#!/bin/sh
export HOME='{folder}/home' DOCKER_HOST='unix://{folder}/docker.sock' PATH='{path}' LD_LIBRARY_PATH='{libraries}' \\
    DOCKER_BUILDKIT=0
exec '{prefix}/usr/bin/docker' "$@"
"""

# The daemon ends with this script, since it is the first process of its namespace.
INSIDE = (
    NAMESPACE
    + """\
PATH='{path}' LD_LIBRARY_PATH='{libraries}' XTABLES_LIBDIR='{xtables}' '{prefix}/usr/sbin/dockerd' \\
    --data-root '{folder}/data' --exec-root '{folder}/exec' --pidfile '{folder}/pid' --storage-driver vfs \\
    --cgroup-parent /{parent} --host 'unix://{folder}/docker.sock' > '{folder}/dockerd.log' 2>&1 &
daemon=$!
for _ in $(seq 1 150); do
    '{folder}/bin/docker' info > '{folder}/info' 2>&1 && break
    kill -0 $daemon 2> /dev/null || break
    sleep 0.2
done
if ! '{folder}/bin/docker' info > '{folder}/info' 2>&1; then
    exit {no_daemon}
fi
code=0
"$@" || code=$?
kill $daemon
wait $daemon || true
exit $code
"""
)


def main(arguments: list[str]) -> int:
    """Prepares Docker if necessary, and runs the suites; the arguments are passed to pytest."""
    try:
        require_machine("test-docker")
        prefix = Path(os.environ.get("LEVELSET_DOCKER") or ROOT / ".docker")
        unpack_packages(prefix, WANTED)
    except PackagesUnavailable as why:
        print(f"test-docker: SKIPPED, nothing was checked: {why}")
        return 0
    with tempfile.TemporaryDirectory(prefix="levelset-docker-") as name, cgroups_removed(PARENT):
        folder = Path(name)
        _write_files(prefix.resolve(), folder)
        version = subprocess.run([folder / "bin/docker", "--version"], capture_output=True, text=True, check=True)
        print(f"test-docker: {version.stdout.strip()}")
        env = {"LEVELSET_ENGINE": "docker", "LEVELSET_ENGINE_PROGRAM": str(folder / "bin/docker")}
        code = run_suites(folder / "inside", arguments, {**env, "LEVELSET_ENGINE_IMAGE": str(folder / "image.tar")})
        if code != NO_DAEMON:
            return code
        said = (folder / "dockerd.log").read_text(errors="replace").splitlines()
        print(
            "test-docker: SKIPPED, nothing was checked: no Docker daemon starts here. Its last lines:",
            *said[-5:],
            sep="\n",
        )
        return 0


def _write_files(prefix: Path, folder: Path) -> None:
    """The tool, the script that starts the daemon, and an image with a shell."""
    libraries = [path for top in ("usr/lib", "lib") for path in (prefix / top).glob("*-linux-gnu*")]
    values = {
        "prefix": prefix,
        "folder": folder,
        "busybox": find_busybox(prefix),
        "path": f"{folder}/bin:{prefix}/usr/sbin:{prefix}/usr/bin:{prefix}/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
        "libraries": ":".join(str(path) for path in libraries),
        "xtables": next(prefix.glob("usr/lib/*/xtables"), ""),
        "parent": PARENT,
        "no_daemon": NO_DAEMON,
    }
    for name, text in (("bin/docker", TOOL), ("inside", INSIDE)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(**values))
        path.chmod(0o755)
    (folder / "home").mkdir()
    for tool in ("iptables", "ip6tables"):  # created by the package's installation otherwise
        for suffix in ("", "-save", "-restore"):
            (folder / "bin" / f"{tool}{suffix}").symlink_to(prefix / "usr/sbin/xtables-legacy-multi")
    write_image(find_busybox(prefix), folder / "image.tar")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
