"""Container: a container of an engine on this machine; ContainerExec: a command that runs inside one."""

from typing import Annotated, Any, Final, Literal

from levelset import Column, ListMap, Meta, Resource, Spec, Status, field
from levelset.objects import MicroTime, Model, PreserveUnknown
from levelset_dcp.kinds.common import (
    Certificates,
    Conditions,
    Env,
    HealthProbe,
    HealthStatus,
    ProbeResults,
    Terminal,
    fill_empty,
)
from levelset_dcp.names import API

__all__ = [
    "Build",
    "BuildSecret",
    "Container",
    "ContainerCertificates",
    "ContainerExec",
    "ContainerExecSpec",
    "ContainerExecStatus",
    "ContainerMode",
    "ContainerPort",
    "ContainerSpec",
    "ContainerState",
    "ContainerStatus",
    "FileEntry",
    "FileSet",
    "ImageLayer",
    "Label",
    "NetworkRef",
    "VolumeMount",
]

ContainerMode = Literal["", "session", "persistent", "existing", "cleanup"]
ContainerState = Literal[
    "",
    "Pending",
    "RuntimeUnhealthy",
    "Building",
    "Starting",
    "NotFound",
    "FailedToStart",
    "Running",
    "Paused",
    "Exited",
    "Unknown",
    "Stopping",
]
_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")


class FileEntry(Model):
    """A file, a directory with entries, or a certificate with its OpenSSL hash link."""

    name: Annotated[str, Meta(min_length=1)]
    """One component of a path."""
    type: Literal["", "file", "directory", "openssl"] = ""
    owner: Annotated[int, Meta(ge=0)] | None = None
    group: Annotated[int, Meta(ge=0)] | None = None
    mode: Annotated[int, Meta(ge=0)] | None = None
    """Its permissions; by default, and with 0, those that the umask leaves."""
    source: str = ""
    contents: str = ""
    raw_contents: str = ""
    """The bytes of the file, in base64."""
    target: str = ""
    continue_on_error: bool = False
    entries: Annotated[tuple[dict[str, Any], ...], PreserveUnknown()] = ()
    """The entries of a directory, recursively."""


class FileSet(Model):
    """Entries below one directory of the container."""

    entries: Annotated[tuple[FileEntry, ...], Meta(min_length=1)]
    destination: str = ""
    """An absolute path; `/` by default."""
    default_owner: Annotated[int, Meta(ge=0)] = 0
    default_group: Annotated[int, Meta(ge=0)] = 0
    umask: Annotated[int, Meta(ge=0)] | None = None
    """022 by default."""


class Label(Model):
    """A label of an engine object."""

    key: Annotated[str, Meta(min_length=1)]
    value: Annotated[str, Meta(min_length=1)]


class BuildSecret(Model):
    """A secret that a build may read."""

    id: Annotated[str, Meta(min_length=1)]
    type: Literal["", "file", "env"] = "file"
    source: str = ""
    value: str = ""

    def __post_init__(self) -> None:
        fill_empty(self)


class Build(Model):
    """The build of an image."""

    context: Annotated[str, Meta(min_length=1)]
    dockerfile: str = ""
    tags: tuple[str, ...] = ()
    args: Env = ()
    secrets: tuple[BuildSecret, ...] = ()
    stage: str = ""
    labels: tuple[Label, ...] = ()
    platform: str = ""


class VolumeMount(Model):
    """A directory of this machine or a volume, and its path inside the container."""

    source: Annotated[str, Meta(min_length=1)]
    target: Annotated[str, Meta(min_length=1)]
    type: Literal["", "bind", "volume"] = "bind"
    read_only: bool = False

    def __post_init__(self) -> None:
        fill_empty(self)


class ContainerPort(Model):
    """A port that is published on this machine, on loopback by default."""

    container_port: Annotated[int, Meta(ge=1, le=65535)]
    host_port: Annotated[int, Meta(ge=0, le=65535)] = 0
    protocol: Literal["", "TCP", "UDP"] = "TCP"
    host_ip: str = field(name="hostIP", default="")

    def __post_init__(self) -> None:
        fill_empty(self)


class NetworkRef(Model):
    """A ContainerNetwork to connect to, and the aliases of the container there."""

    name: Annotated[str, Meta(min_length=1)]
    aliases: tuple[str, ...] = ()


class ContainerCertificates(Certificates):
    """Certificates that are copied into a container before it starts."""

    destination: str = ""
    overwrite_bundle_paths: tuple[str, ...] = ()


class ImageLayer(Model):
    """A layer that is added on top of the image: `source`, a file with its SHA-256, or `rawContents`."""

    digest: Annotated[str, Meta(min_length=1)]
    source: str = ""
    sha256: str = ""
    raw_contents: str = ""
    """The bytes of the layer, in base64."""


class ContainerSpec(Spec):
    """The desired state of a container."""

    image: str = ""
    build: Build | None = None
    container_name: Annotated[str, Meta(pattern=r"^([a-zA-Z0-9][a-zA-Z0-9_.-]+)?$", max_length=253)] = ""
    volume_mounts: tuple[VolumeMount, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    env: Env = ()
    env_files: tuple[str, ...] = ()
    restart_policy: Literal["", "no", "on-failure", "unless-stopped", "always"] = ""
    command: str = ""
    args: tuple[str, ...] = ()
    networks: Annotated[tuple[NetworkRef, ...], ListMap("name")] | None = None
    """The networks to connect to; the engine's default network if unset."""
    start: bool = True
    stop: bool = False
    mode: ContainerMode = "session"
    persistent: bool = False
    lifecycle_key: str = ""
    monitor_pid: Annotated[int, Meta(gt=0)] | None = field(name="monitorPid", default=None)
    monitor_timestamp: MicroTime | None = None
    run_args: tuple[str, ...] = ()
    labels: Annotated[tuple[Label, ...], ListMap("key")] = ()
    health_probes: tuple[HealthProbe, ...] = ()
    pull_policy: Literal["", "always", "missing", "never"] = ""
    create_files: tuple[FileSet, ...] = ()
    pem_certificates: ContainerCertificates | None = None
    image_layers: tuple[ImageLayer, ...] = ()
    terminal: Terminal | None = None

    def __post_init__(self) -> None:
        fill_empty(self)


class ContainerStatus(Status):
    """The observed state of a container."""

    state: ContainerState = ""
    container_id: str = field(name="containerId", default="")
    container_name: str = ""
    startup_timestamp: MicroTime | None = None
    finish_timestamp: MicroTime | None = None
    startup_std_out_file: str = ""
    startup_std_err_file: str = ""
    terminal_socket_path: str = ""
    exit_code: int | None = None
    message: str = ""
    effective_env: Env = ()
    effective_args: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    health_status: HealthStatus | None = None
    health_probe_results: ProbeResults = ()
    lifecycle_key: str = ""
    conditions: Conditions = ()
    observed_generation: int | None = None


class Container(
    Resource[ContainerSpec, ContainerStatus],
    api=API,
    scope="Cluster",
    short_names=["ctr"],
    categories=["dcp"],
    columns=[
        Column("State", ".status.state"),
        Column("Health", ".status.healthStatus"),
        Column("ID", ".status.containerId"),
        Column("Exit", ".status.exitCode", "integer"),
        _AGE,
        Column("Image", ".spec.image", priority=1),
        Column("Message", ".status.message", priority=1),
    ],
):
    """A container that an engine on this machine runs."""


class ContainerExecSpec(Spec):
    """The command to run inside a container; it cannot be changed."""

    container_name: Annotated[str, Meta(min_length=1)]
    """The name of the Container object."""
    command: Annotated[str, Meta(min_length=1)]
    args: tuple[str, ...] = ()
    env: Env = ()
    env_files: tuple[str, ...] = ()
    working_directory: str = ""


class ContainerExecStatus(Status):
    """The observed state of a command."""

    state: Literal["", "Starting", "Running", "FailedToStart", "Finished", "Unknown"] = ""
    startup_timestamp: MicroTime | None = None
    finish_timestamp: MicroTime | None = None
    exit_code: int | None = None
    std_out_file: str = ""
    std_err_file: str = ""
    effective_env: Env = ()
    effective_args: tuple[str, ...] = ()
    message: str = ""
    conditions: Conditions = ()
    observed_generation: int | None = None


class ContainerExec(
    Resource[ContainerExecSpec, ContainerExecStatus],
    api=API,
    scope="Cluster",
    short_names=["ctrexec"],
    categories=["dcp"],
    columns=[
        Column("Container", ".spec.containerName"),
        Column("State", ".status.state"),
        Column("Exit", ".status.exitCode", "integer"),
        _AGE,
    ],
):
    """A command that runs inside a container."""
