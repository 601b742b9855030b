"""The configuration files of an unpacked Podman."""

from dataclasses import dataclass
from pathlib import Path

from systems.dcp.tests.engines.unpacked import NAMESPACE, find_busybox, write_image

__all__ = ["PARENT", "Places", "write_files"]

PARENT = "libpod_parent"

CONTAINERS = """\
[containers]
log_driver = "k8s-file"
default_ulimits = []
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
conmon_path = ["{prefix}/usr/bin/conmon"]
helper_binaries_dir = ["{prefix}/usr/lib/podman"]
conmon_env_vars = ["PATH={path}", "LD_LIBRARY_PATH={libraries}", "XTABLES_LIBDIR={xtables}", "HOME={folder}/home"]
[engine.runtimes]
runc = ["{folder}/bin/runc"]
[network]
network_backend = "netavark"
network_config_dir = "{folder}/networks"
"""

STORAGE = """\
[storage]
driver = "vfs"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
"""

PODMAN = """\
#!/bin/sh
export HOME='{folder}/home' TMPDIR='{folder}/home' XDG_RUNTIME_DIR= XDG_CONFIG_HOME= \\
    PATH='{path}' LD_LIBRARY_PATH='{libraries}' XTABLES_LIBDIR='{xtables}' \\
    CONTAINERS_CONF='{folder}/containers.conf' CONTAINERS_STORAGE_CONF='{folder}/storage.conf'
exec '{prefix}/usr/bin/podman' --root '{folder}/graph' --runroot '{folder}/run' --tmpdir '{folder}/tmp' "$@"
"""

# Where limits cannot be raised, the runtime would reject the limits that Podman requests.
RUNC = """\
#!/usr/bin/env python3
import json, os, sys

def without_limits(path, is_process):
    with open(path) as file:
        tree = json.load(file)
    (tree if is_process else tree.get("process", {{}})).pop("rlimits", None)
    with open(path, "w") as file:
        json.dump(tree, file)

words = sys.argv[1:]
for number, word in enumerate(words):
    if word in ("--bundle", "-b") and "create" in words:
        without_limits(words[number + 1] + "/config.json", False)
    if word in ("--process", "-p") and "exec" in words:
        without_limits(words[number + 1], True)
os.execv("{prefix}/usr/sbin/runc", ["runc", *words])
"""


@dataclass(frozen=True)
class Places:
    """The directory of the packages, and the directory of everything else."""

    prefix: Path
    folder: Path

    @property
    def tool(self) -> Path:
        return self.folder / "bin/podman"

    @property
    def inside(self) -> Path:
        return self.folder / "inside"

    @property
    def image(self) -> Path:
        return self.folder / "image.tar"

    @property
    def busybox(self) -> Path:
        return find_busybox(self.prefix)


def write_files(places: Places) -> None:
    """Settings, wrappers around the tools, and an image with a shell."""
    prefix, folder = places.prefix, places.folder
    libraries = [path for top in ("usr/lib", "lib") for path in (prefix / top).glob("*-linux-gnu*")]
    values = {
        "prefix": prefix,
        "folder": folder,
        "busybox": places.busybox,
        "path": f"{folder}/bin:{prefix}/usr/sbin:{prefix}/usr/bin:{prefix}/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
        "libraries": ":".join(str(path) for path in libraries),
        "xtables": next(prefix.glob("usr/lib/*/xtables"), ""),
    }
    for name, text in (
        ("containers.conf", CONTAINERS),
        ("storage.conf", STORAGE),
        ("bin/podman", PODMAN),
        ("bin/runc", RUNC),
        ("inside", NAMESPACE + 'exec "$@"\n'),
        ("home/.config/containers/policy.json", '{{"default": [{{"type": "insecureAcceptAnything"}}]}}\n'),
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(**values))
        path.chmod(0o755)
    for tool in ("iptables", "ip6tables"):  # created by the package's installation otherwise
        for suffix in ("", "-save", "-restore"):
            (folder / "bin" / f"{tool}{suffix}").symlink_to(prefix / "usr/sbin/xtables-legacy-multi")
    (folder / "networks").mkdir()
    write_image(places.busybox, places.image)
