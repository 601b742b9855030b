"""Where the command line tools of the engines differ."""

from dataclasses import dataclass
from typing import Final

__all__ = ["DOCKER", "PODMAN", "Dialect"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What is particular to one engine and its tool."""

    name: str
    default_network: str
    host_name: str
    """By which containers reach this machine."""
    oldest: tuple[int, ...]
    """The first version that will do."""
    build_words: tuple[str, ...] = ()
    event_words: tuple[str, ...] = ()


DOCKER: Final = Dialect(
    name="docker",
    default_network="bridge",
    host_name="host.docker.internal",
    oldest=(25, 0, 0),
    build_words=("--progress", "plain"),
    event_words=("--filter", "type=container", "--filter", "type=network", "--format", "{{json .}}"),
)

PODMAN: Final = Dialect(
    name="podman",
    default_network="podman",
    host_name="host.containers.internal",
    oldest=(4, 0, 0),
    # Several filters of one kind all have to fit in some versions, so that other events are dropped when they are read.
    event_words=("--format", "json"),
)
