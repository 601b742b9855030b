"""Makes of a container a command to run: its volumes on disk, its environment, and the program for its image."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from levelset.kinds.core_v1 import Container, Service
from levelset_local.node.agent import Node
from levelset_local.node.environment import BadEnvironment, container_environment
from levelset_local.node.expanding import expand
from levelset_local.node.facts import Facts
from levelset_local.node.images import NoProgram
from levelset_local.node.known import Wait
from levelset_local.node.mounting import is_within, mount, put_volume
from levelset_local.node.needs import Found
from levelset_local.node.paths import MOUNT_ROOT, below, message_path, mount_paths, rewritten
from levelset_local.node.volumes import BadVolume, contents
from levelset_machine import Command

__all__ = ["NotYet", "check_command", "container_command", "message_file", "put_volumes"]


class NotYet(Exception):
    """A container cannot be started as things are; `wait` says why."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.wait = Wait(reason=reason, message=message)


def put_volumes(node: Node, facts: Facts, found: Found) -> dict[str, Path]:
    """Makes the volumes of a Pod, or brings them up to date; BadVolume if one cannot be made. For a thread."""
    node.pod_folder(facts.pod.metadata.uid).mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = node.pod_folder(facts.pod.metadata.uid) / "volumes"
    wanted = {one.name: contents(one, facts, found) for one in facts.pod.spec.volumes}
    return {name: put_volume(folder / name, what) for name, what in wanted.items()}


def container_command(
    node: Node,
    facts: Facts,
    container: Container,
    found: Found,
    *,
    services: Iterable[Service],
    volumes: Mapping[str, Path],
) -> Command:
    """What a container runs, with its mount paths in place; NotYet if something is missing. For a thread."""
    pod = facts.pod
    root = node.root(pod.metadata.uid, container.name)
    try:
        said = container_environment(container, facts, found, services)
        words = node.images.command(pod, container)
        root.mkdir(parents=True, exist_ok=True)
        mount(container, volumes, root, said, node.pod_folder(pod.metadata.uid))
        _clear_message(root, container, node.pod_folder(pod.metadata.uid))
        return _command(node, container, said, words, str(root))
    except BadEnvironment as error:
        raise NotYet("CreateContainerConfigError", str(error)) from error
    except NoProgram as error:
        raise NotYet("ErrImageNeverPull", str(error)) from error
    except (BadVolume, OSError) as error:
        raise NotYet("CreateContainerConfigError", str(error)) from error


def check_command(node: Node, facts: Facts, container: Container, found: Found, services: Iterable[Service]) -> Command:
    """What a container that runs already is checked with: its environment, as far as there is one; no program."""
    root = str(node.root(facts.pod.metadata.uid, container.name))
    try:
        said = container_environment(container, facts, found, services)
    except BadEnvironment:
        said = {"POD_IP": facts.address}  # what it was started with is gone meanwhile
    mounts = mount_paths(container)
    env = {name: rewritten(value, mounts, root) for name, value in said.items()}
    return Command(argv=(), env={**node.environment, **env, MOUNT_ROOT: root})


def _command(node: Node, container: Container, said: Mapping[str, str], words: Iterable[str], root: str) -> Command:
    mounts = mount_paths(container)
    env = {name: rewritten(value, mounts, root) for name, value in said.items()}
    argv = tuple(rewritten(expand(word, said), mounts, root) for word in words)
    whole = {**node.environment, **env, MOUNT_ROOT: root}
    return Command(argv=argv, env=whole, cwd=_working_dir(container, mounts, root))


def _working_dir(container: Container, mounts: Iterable[str], root: str) -> str | None:
    """The folder a container starts in: below its mounts, of this machine, or, of an image's own, its root."""
    if not container.working_dir:
        return None
    place = rewritten(container.working_dir, mounts, root)
    if Path(place).is_dir():
        return place
    own = Path(below(root, container.working_dir))
    own.mkdir(parents=True, exist_ok=True)
    return str(own)


def message_file(root: Path, container: Container) -> Path:
    """The file into which a container may write its last words."""
    return Path(below(str(root), message_path(container)))


def _clear_message(root: Path, container: Container, own: Path) -> None:
    """Removes the last words of an earlier run; what is in a folder of the machine itself stays."""
    path = message_file(root, container)
    if path.is_dir():
        raise BadVolume(f"terminationMessagePath {message_path(container)} is a folder; name a file in it")
    if is_within(path, own):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
