"""What an engine is asked for and what it answers, as values: containers, networks, volumes, images and events."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

__all__ = [
    "Attachment",
    "ContainerInfo",
    "ContainerStatusName",
    "EngineEvent",
    "EngineHealth",
    "EngineStatus",
    "EventKind",
    "HealthName",
    "ImageBuild",
    "ImageBuildSecret",
    "ImageInfo",
    "LogOrigin",
    "Mount",
    "NetworkInfo",
    "NewContainer",
    "NewExec",
    "NewNetwork",
    "PortBinding",
    "PullPolicy",
    "RestartPolicy",
    "VolumeInfo",
]

ContainerStatusName = Literal["created", "running", "restarting", "paused", "removing", "exited", "dead", "unknown"]
EventKind = Literal["container", "network", "engine"]
HealthName = Literal["starting", "healthy", "unhealthy"]
LogOrigin = Literal["all", "stdout", "stderr"]
PullPolicy = Literal["", "always", "missing", "never"]
RestartPolicy = Literal["", "no", "on-failure", "unless-stopped", "always"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatus:
    """How the engine is."""

    is_installed: bool
    is_running: bool
    version: str = ""
    message: str = ""
    """Why it is not healthy, and what to do."""

    @property
    def is_healthy(self) -> bool:
        """Whether it can be asked for something."""
        return self.is_installed and self.is_running


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder of this machine or a volume, and where it is inside."""

    source: str
    target: str
    type: Literal["bind", "volume"] = "bind"
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PortBinding:
    """A port of a container, and where this machine has it; in a request 0 leaves the choice to the engine."""

    container_port: int
    host_port: int = 0
    protocol: Literal["tcp", "udp"] = "tcp"
    host_ip: str = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewContainer:
    """A container to be created."""

    image: str
    name: str = ""
    """Made up by the engine unless given."""
    command: str = ""
    """Replaces the entry point of the image."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    mounts: tuple[Mount, ...] = ()
    ports: tuple[PortBinding, ...] = ()
    network: str = ""
    """The network that it is in from the start; the engine's own unless given."""
    aliases: tuple[str, ...] = ()
    """What it is called in that network besides its name."""
    restart_policy: RestartPolicy = ""
    pull_policy: PullPolicy = ""
    tty: bool = False
    run_args: tuple[str, ...] = ()
    """Words for the engine's command line, as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """That a container is in a network."""

    network: str
    """The name of the network."""
    network_id: str = ""
    aliases: tuple[str, ...] = ()
    address: str = ""
    gateway: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineHealth:
    """What the health check of the image itself has found."""

    status: HealthName
    output: str = ""
    """What the last check has printed."""
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerInfo:
    """A container as the engine knows it."""

    id: str
    name: str
    image: str
    status: ContainerStatusName
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    """When it ended last, also if it runs again."""
    exit_code: int | None = None
    """None unless it has ended."""
    error: str = ""
    command: tuple[str, ...] = ()
    """The entry point and its arguments."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    mounts: tuple[Mount, ...] = ()
    ports: tuple[PortBinding, ...] = ()
    """Where this machine has them: none unless it runs."""
    networks: tuple[Attachment, ...] = ()
    health: EngineHealth | None = None

    @property
    def is_running(self) -> bool:
        """Whether its program runs, or is about to run again."""
        return self.status in ("running", "restarting")

    @property
    def is_over(self) -> bool:
        """Whether its program has ended."""
        return self.status in ("exited", "dead")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewExec:
    """A command to be run inside of a container."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    working_directory: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBuildSecret:
    """A secret that a build may read: a file, or a variable (`value`, or that of this process called `source`)."""

    id: str
    type: Literal["file", "env"] = "file"
    source: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageBuild:
    """An image to be built from a folder."""

    context: str
    tags: tuple[str, ...]
    dockerfile: str = ""
    args: Mapping[str, str] = field(default_factory=dict[str, str])
    secrets: tuple[ImageBuildSecret, ...] = ()
    stage: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    platform: str = ""
    pull: bool = False
    """Whether newer versions of the images that it is based on are fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageInfo:
    """An image that the engine has."""

    id: str
    tags: tuple[str, ...] = ()
    digest: str = ""
    created_at: datetime | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    user: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNetwork:
    """A network to be created."""

    name: str
    ipv6: bool = False
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkInfo:
    """A network as the engine knows it."""

    id: str
    name: str
    driver: str = ""
    ipv6: bool = False
    subnets: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()
    container_ids: tuple[str, ...] = ()
    """Who is in it, whether it runs or not."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeInfo:
    """A volume that the engine keeps."""

    name: str
    driver: str = "local"
    mount_point: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineEvent:
    """Something has happened in the engine.

    Actions of containers are create, start, restart, die, stop, kill, oom, pause, unpause, destroy, exec_die and
    health_status; those of networks create, connect, disconnect and destroy: one set of words for all engines.
    The kind `engine` with the action `connected` says that events are heard from now on, and that some may have been
    missed before: whoever watches looks at everything then.
    """

    kind: EventKind
    action: str
    id: str = ""
    """Of the container or network."""
    name: str = ""
    container: str = ""
    """The ID of the container that it is about; also that of one that is connected to a network."""
    exit_code: int | None = None
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    at: datetime | None = None
