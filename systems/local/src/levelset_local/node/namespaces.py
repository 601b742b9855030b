"""Linux namespaces for containers: volumes at their mount paths, and the Pod's name as the host name; without root.

A container is started through a script in mount and UTS namespaces of its own, and for all but root in a user
namespace, as a rootless container engine does it. Its root has all of this machine, and its mounts in front of that;
nothing of the machine itself is changed.
The processes of a Pod stay processes of this machine: addresses, signals and process ids are the same.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from levelset.errors import ConfigError
from levelset.kinds.core_v1 import Container, Pod
from levelset_local.node.mounts import mount_paths, path_below, termination_message_path

__all__ = ["check_namespaces", "entering", "in_namespaces"]

_UNSHARE: Final = ("unshare", "--mount", "--uts")
_NSENTER: Final = ("nsenter", "--mount", "--uts", "--root", "--wd")
# Root needs no user namespace, in which it would lose rights such as that to listen at port 80.
_UNSHARE_USER: Final = ("--user", "--map-root-user")
_NSENTER_USER: Final = ("--user", "--preserve-credentials")
_SECONDS: Final = 20.0
# Arguments: the folder with the mounts, the new root, the host name, mount paths, `--`, and the command. A path below
# which something is mounted, and in which it does not exist yet, becomes a folder of its own in the new root, with all
# entries of the machine's folder bound into it.
_SCRIPT: Final = """
set -eu
mounts=$1 new=$2 name=$3 here=$PWD
shift 3
hostname "$name"
mount -t tmpfs -o mode=755 levelset "$new"

bind_entries() {
    for entry in "$1"/* "$1"/.[!.]*; do
        place=$2/${entry##*/}
        if [ -L "$entry" ]; then
            ln -s "$(readlink "$entry")" "$place"
        elif [ -d "$entry" ]; then
            mkdir "$place" && mount --rbind "$entry" "$place"
        elif [ -e "$entry" ]; then
            : > "$place" && mount --bind "$entry" "$place"
        fi
    done
}

bind_entries "" "$new"
while [ "$1" != -- ]; do
    source=$(realpath "$mounts$1") path=$(realpath -m "$1")
    shift
    if [ ! -e "$new$path" ]; then
        above=$path
        while [ ! -e "$new$above" ]; do above=${above%/*}; done
        if [ -n "$above" ] && [ -e "$above" ] && [ "$(stat -c %d "$above")" = "$(stat -c %d "$new$above")" ]; then
            mount -t tmpfs -o mode=755 levelset "$new$above"
            bind_entries "$above" "$new$above"
        fi
        if [ -d "$source" ]; then mkdir -p "$new$path"; else mkdir -p "$new${path%/*}" && : > "$new$path"; fi
    fi
    mount --rbind "$source" "$new$path"
done
shift
exec chroot "$new" /bin/sh -c 'cd "$0" && exec "$@"' "$here" "$@"
"""


def check_namespaces() -> None:
    """Raises ConfigError if containers cannot have namespaces on this machine. Call it in a thread."""
    for program in (_UNSHARE[0], _NSENTER[0]):
        if shutil.which(program) is None:
            raise ConfigError(f"Options(namespaces=True) needs `{program}` of util-linux: install it, or leave it out")
    tried = [*_unshare(), "sh", "-c", "mount -t tmpfs levelset /tmp && hostname levelset"]
    try:
        done = subprocess.run(  # noqa: S603  # a command of our own
            tried, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"Options(namespaces=True): unshare does not work on this machine: {error}") from error
    if done.returncode:
        reason = done.stderr.strip() or f"exit code {done.returncode}"
        raise ConfigError(
            f"Options(namespaces=True): this machine does not let this user have namespaces ({reason}): allow them "
            "(sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, or the profile of an outer one), "
            "or leave it out"
        )


def in_namespaces(argv: Sequence[str], pod: Pod, container: Container, root: Path) -> tuple[str, ...]:
    """The command that runs a program with its mounts and its host name. Call it in a thread: it writes files."""
    place = root.with_name(f"{root.name}.root")
    place.mkdir(parents=True, exist_ok=True)
    message = Path(path_below(str(root), termination_message_path(container)))
    message.parent.mkdir(parents=True, exist_ok=True)
    message.touch(exist_ok=True)
    name = pod.spec.hostname or pod.name
    paths = sorted(set(mount_paths(container)))
    return (*_unshare(), "/bin/sh", "-c", _SCRIPT, "sh", str(root), str(place), name, *paths, "--", *argv)


def entering(pid: int) -> tuple[str, ...]:
    """What comes before a command, so that it runs in the namespaces of a process."""
    return (*_NSENTER, *(() if os.geteuid() == 0 else _NSENTER_USER), f"--target={pid}")


def _unshare() -> tuple[str, ...]:
    return _UNSHARE if os.geteuid() == 0 else (*_UNSHARE, *_UNSHARE_USER)
