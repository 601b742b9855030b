"""The interface between the controllers and a container engine: Docker, Podman, or the in-memory engine.

Containers, networks, volumes and images are identified by their names or IDs. Every call has a timeout: EngineTimedOut
after `CALL` seconds, or after `LONG_CALL` if it pulls or builds. Cancelling a call stops waiting, but the operation may
still take effect; inspect the object to find out. All errors are EngineErrors.
"""

from collections.abc import AsyncGenerator, Mapping
from typing import Final, Protocol

from levelset_dcp.engines.models import (
    ContainerInfo,
    EngineEvent,
    EngineStatus,
    ImageBuild,
    ImageInfo,
    LogOrigin,
    NetworkInfo,
    NewContainer,
    NewExec,
    NewNetwork,
    VolumeInfo,
)

__all__ = ["CALL", "LONG_CALL", "Engine", "Sink"]

CALL: Final = 30.0
"""The timeout of an ordinary call in seconds, in addition to a requested grace period."""
LONG_CALL: Final = 600.0
"""The timeout in seconds of calls that build or pull, including create."""


class Sink(Protocol):
    """Receives output, such as a LogSink; the caller closes it."""

    def write(self, data: bytes, /) -> None:
        """Writes bytes, which may be cut anywhere."""
        ...


class Engine(Protocol):
    """A container engine."""

    @property
    def name(self) -> str:
        """The name of the engine, such as `docker`."""
        ...

    @property
    def host_name(self) -> str:
        """The host name of this machine inside containers."""
        ...

    @property
    def default_network(self) -> str:
        """The network of containers that name none."""
        ...

    async def check_status(self, *, cached: bool = False) -> EngineStatus:
        """The status of the engine; `cached` allows one that is a few seconds old. Never raises an EngineError."""
        ...

    async def create_container(self, spec: NewContainer, *, out: Sink | None = None, err: Sink | None = None) -> str:
        """Creates a container, pulling its image as the pull policy says, and returns its ID.

        The output of the pull goes to `out` and `err`. EngineAlreadyExists if the name is taken; EngineNotFound if
        there is no such image, network or volume.
        """
        ...

    async def start_container(self, container: str) -> None:
        """Starts a container; idempotent. CouldNotAllocate if a published port is taken."""
        ...

    async def stop_container(self, container: str, *, grace: float = 10.0) -> None:
        """Sends SIGTERM to a container, and SIGKILL after `grace` seconds; idempotent."""
        ...

    async def remove_container(self, container: str, *, force: bool = False) -> None:
        """Removes a container and its anonymous volumes; ObjectInUse if it runs, unless `force`."""
        ...

    async def inspect_container(self, container: str) -> ContainerInfo:
        """Inspects a container."""
        ...

    async def list_containers(self, *, labels: Mapping[str, str] | None = None) -> tuple[ContainerInfo, ...]:
        """All containers with these labels, including stopped ones."""
        ...

    async def exec(self, container: str, request: NewExec, *, out: Sink, err: Sink) -> int:
        """Runs a command inside a container to its end, without a timeout, and returns its exit code.

        126 and 127 mean that the command cannot be run. Cancelling stops reading the output; the command may continue.
        EngineRefused if the container does not run.
        """
        ...

    def logs(
        self,
        container: str,
        *,
        origin: LogOrigin = "all",
        follow: bool = False,
        timestamps: bool = False,
        tail: int | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """The output of a container, in chunks cut anywhere; `follow` ends when it has exited or is removed.

        With `timestamps` each line begins with an RFC 3339 time and a space.
        """
        ...

    async def copy_in(self, container: str, folder: str, archive: bytes) -> None:
        """Extracts a tar archive below a directory of a container, which need not run; owners are kept."""
        ...

    async def build(self, request: ImageBuild, *, out: Sink | None = None, err: Sink | None = None) -> ImageInfo:
        """Builds an image."""
        ...

    async def pull_image(self, image: str, *, out: Sink | None = None, err: Sink | None = None) -> ImageInfo:
        """Pulls the newest version of an image."""
        ...

    async def inspect_image(self, image: str) -> ImageInfo:
        """Inspects a local image."""
        ...

    async def create_network(self, spec: NewNetwork) -> NetworkInfo:
        """Creates a network; EngineAlreadyExists if the name is taken."""
        ...

    async def inspect_network(self, network: str) -> NetworkInfo:
        """Inspects a network."""
        ...

    async def list_networks(self, *, labels: Mapping[str, str] | None = None) -> tuple[NetworkInfo, ...]:
        """All networks with these labels."""
        ...

    async def remove_network(self, network: str) -> None:
        """Removes a network; ObjectInUse while containers are connected."""
        ...

    async def connect(self, network: str, container: str, *, aliases: tuple[str, ...] = ()) -> None:
        """Connects a container to a network; EngineAlreadyExists if it is connected."""
        ...

    async def disconnect(self, network: str, container: str, *, force: bool = False) -> None:
        """Disconnects a container from a network; EngineNotFound if it is not connected."""
        ...

    async def create_volume(self, name: str, *, labels: Mapping[str, str] | None = None) -> VolumeInfo:
        """Creates a volume, or returns the existing one."""
        ...

    async def inspect_volume(self, name: str) -> VolumeInfo:
        """Inspects a volume."""
        ...

    async def list_volumes(self, *, labels: Mapping[str, str] | None = None) -> tuple[VolumeInfo, ...]:
        """All volumes with these labels."""
        ...

    async def remove_volume(self, name: str) -> None:
        """Removes a volume with its data; ObjectInUse while a container mounts it."""
        ...

    def watch(self) -> AsyncGenerator[EngineEvent, None]:
        """The events of containers and networks from now on; reconnects by itself, and never ends.

        The first event, and the first after each gap, is `engine connected`; see EngineEvent. Close the generator
        (`contextlib.aclosing`) to stop, as with `logs`.
        """
        ...

    def terminal_command(self, container: str, *, start: bool) -> tuple[str, ...]:
        """The command line that shows a container with `tty` on the terminal that it runs on; empty if there is none.

        With `start` it starts the container, so that no output is missed. It ends with the container's exit code.
        """
        ...
