"""Makes the command of a container: its volumes on disk, its environment, and the program for its image."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from levelset import replace
from levelset.kinds.core_v1 import Container, Service
from levelset_local.node.config_sources import ConfigSources
from levelset_local.node.downward_api import PodInfo
from levelset_local.node.environment import BadEnvironment, container_environment, expand
from levelset_local.node.images import NoProgram
from levelset_local.node.mounts import (
    MOUNT_ROOT,
    is_within,
    mount,
    mount_paths,
    path_below,
    rewrite_mount_path,
    set_up_volume,
    termination_message_path,
)
from levelset_local.node.namespaces import in_namespaces
from levelset_local.node.node import Node
from levelset_local.node.pod_record import WaitingReason
from levelset_local.node.volumes import BadVolume, volume_contents
from levelset_machine import Command

__all__ = ["StartBlocked", "check_command", "container_command", "set_up_volumes", "termination_message_file"]


class StartBlocked(Exception):
    """A container cannot be started yet; `wait` has the reason for its status."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.wait = WaitingReason(reason=reason, message=message)


def set_up_volumes(node: Node, info: PodInfo, sources: ConfigSources) -> dict[str, Path]:
    """Creates or updates the volumes of a Pod and returns their paths; raises BadVolume. Call it in a thread."""
    node.pod_folder(info.pod.metadata.uid).mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = node.pod_folder(info.pod.metadata.uid) / "volumes"
    wanted = {one.name: volume_contents(one, info, sources) for one in info.pod.spec.volumes}
    return {name: set_up_volume(folder / name, contents) for name, contents in wanted.items()}


def container_command(
    node: Node,
    info: PodInfo,
    container: Container,
    sources: ConfigSources,
    *,
    services: Iterable[Service],
    volumes: Mapping[str, Path],
) -> Command:
    """The command of a container, with its volumes mounted; raises StartBlocked. Call it in a thread."""
    pod = info.pod
    root = node.mount_root(pod.metadata.uid, container.name)
    try:
        variables = container_environment(container, info, sources, services)
        words = node.images.command(pod, container)
        root.mkdir(parents=True, exist_ok=True)
        mount(container, volumes, root, variables, node.pod_folder(pod.metadata.uid))
        _clear_termination_message(root, container, node.pod_folder(pod.metadata.uid))
        command = _command(node, container, variables, words, str(root))
        if not node.namespaces:
            return command
        return replace(command, argv=in_namespaces(command.argv, pod, container, root))
    except BadEnvironment as error:
        raise StartBlocked("CreateContainerConfigError", str(error)) from error
    except NoProgram as error:
        raise StartBlocked("ErrImageNeverPull", str(error)) from error
    except (BadVolume, OSError) as error:
        raise StartBlocked("CreateContainerConfigError", str(error)) from error


def check_command(
    node: Node, info: PodInfo, container: Container, sources: ConfigSources, services: Iterable[Service]
) -> Command:
    """The command that exec probes and hooks of an adopted container derive from: its environment, no program."""
    root = str(node.mount_root(info.pod.metadata.uid, container.name))
    try:
        variables = container_environment(container, info, sources, services)
    except BadEnvironment:
        variables = {"POD_IP": info.address}  # a ConfigMap or Secret was deleted after the container had started
    mounts = mount_paths(container)
    env = {name: rewrite_mount_path(value, mounts, root) for name, value in variables.items()}
    return Command(argv=(), env={**node.environment, **env, MOUNT_ROOT: root})


def _command(
    node: Node, container: Container, variables: Mapping[str, str], words: Iterable[str], root: str
) -> Command:
    mounts = mount_paths(container)
    env = {name: rewrite_mount_path(value, mounts, root) for name, value in variables.items()}
    argv = tuple(rewrite_mount_path(expand(word, variables), mounts, root) for word in words)
    whole = {**node.environment, **({"TERM": "xterm"} if container.tty else {}), **env, MOUNT_ROOT: root}
    return Command(argv=argv, env=whole, cwd=_working_dir(container, mounts, root))


def _working_dir(container: Container, mounts: Iterable[str], root: str) -> str | None:
    """The working directory: below a mount, else one of this machine, else an empty one below the mount root."""
    if not container.working_dir:
        return None
    place = rewrite_mount_path(container.working_dir, mounts, root)
    if Path(place).is_dir():
        return place
    own = Path(path_below(root, container.working_dir))
    own.mkdir(parents=True, exist_ok=True)
    return str(own)


def termination_message_file(root: Path, container: Container) -> Path:
    """The file on this machine into which a container may write its termination message."""
    return Path(path_below(str(root), termination_message_path(container)))


def _clear_termination_message(root: Path, container: Container, own: Path) -> None:
    """Removes the termination message of an earlier run; a file outside of the Pod's own folder stays."""
    path = termination_message_file(root, container)
    if path.is_dir():
        raise BadVolume(f"terminationMessagePath {termination_message_path(container)} is a folder; name a file in it")
    if is_within(path, own):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
