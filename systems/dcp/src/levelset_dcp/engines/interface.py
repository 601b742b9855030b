"""What every container engine can do: the seam between the controllers and Docker, Podman or a pretence.

Containers, networks, volumes and images are named by what the engine calls them or by their IDs. Every call ends in
time: EngineTimedOut after `CALL` seconds, or after `LONG_CALL` where something is fetched or built. Cancelling a call
stops waiting; whether the engine has done it then is found out by inspecting. All errors are EngineErrors.
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
"""Seconds that an ordinary call may take, besides what it was asked to wait."""
LONG_CALL: Final = 600.0
"""Seconds that building, pulling and creating (which may pull) may take."""


class Sink(Protocol):
    """Takes what programs write; a LogSink is one. Whoever has opened it closes it."""

    def write(self, data: bytes, /) -> None:
        """Takes some bytes, cut wherever."""
        ...


class Engine(Protocol):
    """Runs containers."""

    @property
    def name(self) -> str:
        """What it is called, such as `docker`."""
        ...

    @property
    def host_name(self) -> str:
        """The name by which containers reach this machine."""
        ...

    @property
    def default_network(self) -> str:
        """The network that a container is in unless it was told another."""
        ...

    async def check_status(self, *, cached: bool = False) -> EngineStatus:
        """How the engine is; `cached` takes an answer that is a few seconds old. Never raises an EngineError."""
        ...

    async def create_container(self, spec: NewContainer, *, out: Sink | None = None, err: Sink | None = None) -> str:
        """Creates a container, fetching its image as its pull policy says, and gives its ID.

        What is told while fetching goes to `out` and `err`. EngineAlreadyExists if the name is taken; EngineNotFound
        if there is no such image, network or volume.
        """
        ...

    async def start_container(self, container: str) -> None:
        """Starts a container; fine if it runs. CouldNotAllocate if somebody else has a port that it publishes."""
        ...

    async def stop_container(self, container: str, *, grace: float = 10.0) -> None:
        """Asks the program of a container to end, and kills it after `grace` seconds; fine if it has ended."""
        ...

    async def remove_container(self, container: str, *, force: bool = False) -> None:
        """Removes a container and its nameless volumes; one that runs only with `force`, else ObjectInUse."""
        ...

    async def inspect_container(self, container: str) -> ContainerInfo:
        """What the engine knows of a container."""
        ...

    async def list_containers(self, *, labels: Mapping[str, str] | None = None) -> tuple[ContainerInfo, ...]:
        """All containers, also those that have ended, that have all these labels."""
        ...

    async def exec(self, container: str, what: NewExec, *, out: Sink, err: Sink) -> int:
        """Runs a command inside of a container until it ends, however long that takes, and gives its exit code.

        126 and 127 are for commands that cannot be run there. Cancelling it stops listening; the command may go on.
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
        """What a container has written, in chunks cut wherever; following ends when it has ended or is removed.

        With `timestamps` each line begins with an RFC 3339 time and a space.
        """
        ...

    async def copy_in(self, container: str, folder: str, archive: bytes) -> None:
        """Unpacks a tar archive below a folder of a container, which need not run; owners are those of the archive."""
        ...

    async def build(self, what: ImageBuild, *, out: Sink | None = None, err: Sink | None = None) -> ImageInfo:
        """Builds an image."""
        ...

    async def pull_image(self, image: str, *, out: Sink | None = None, err: Sink | None = None) -> ImageInfo:
        """Fetches the newest version of an image."""
        ...

    async def inspect_image(self, image: str) -> ImageInfo:
        """What the engine knows of an image that it has."""
        ...

    async def create_network(self, spec: NewNetwork) -> NetworkInfo:
        """Creates a network; EngineAlreadyExists if the name is taken."""
        ...

    async def inspect_network(self, network: str) -> NetworkInfo:
        """What the engine knows of a network."""
        ...

    async def list_networks(self, *, labels: Mapping[str, str] | None = None) -> tuple[NetworkInfo, ...]:
        """All networks that have all these labels."""
        ...

    async def remove_network(self, network: str) -> None:
        """Removes a network; ObjectInUse while containers are in it."""
        ...

    async def connect(self, network: str, container: str, *, aliases: tuple[str, ...] = ()) -> None:
        """Puts a container into a network; EngineAlreadyExists if it is in there."""
        ...

    async def disconnect(self, network: str, container: str, *, force: bool = False) -> None:
        """Takes a container out of a network; EngineNotFound if it is not in there."""
        ...

    async def create_volume(self, name: str, *, labels: Mapping[str, str] | None = None) -> VolumeInfo:
        """Creates a volume, or gives the one that is there."""
        ...

    async def inspect_volume(self, name: str) -> VolumeInfo:
        """What the engine knows of a volume."""
        ...

    async def remove_volume(self, name: str) -> None:
        """Removes a volume with all that is in it; ObjectInUse while a container has it."""
        ...

    def watch(self) -> AsyncGenerator[EngineEvent, None]:
        """What happens to containers and networks from now on; connects anew by itself, and never ends.

        The first event, and the first after each gap, is `engine connected`; see EngineEvent. Who leaves early closes
        it (`contextlib.aclosing`), as with `logs`.
        """
        ...

    def attach_command(self, container: str) -> tuple[str, ...]:
        """The words of a command that joins a terminal with that of a container; none if there is no such command."""
        ...
