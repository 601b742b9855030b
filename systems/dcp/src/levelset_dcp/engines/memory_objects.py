"""What the pretended engine keeps: containers with their files and logs, networks, and what programs do."""

import asyncio
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from levelset_dcp.engines.errors import EngineRefused
from levelset_dcp.engines.models import (
    Attachment,
    ContainerInfo,
    ContainerStatusName,
    EngineHealth,
    HealthName,
    LogOrigin,
    NetworkInfo,
    NewContainer,
    PortBinding,
)

__all__ = ["HeldContainer", "HeldNetwork", "PretendFile", "Script", "Written", "unpack"]

TERMINATED: Final = 143


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What a program does: writes lines, and exits after some seconds, or runs until it is stopped."""

    exits: tuple[int, ...] = ()
    """The exit code of the first start, the second, and so on; the last one for all others; none: it goes on."""
    after: float = 0.0
    prints: tuple[tuple[float, str], ...] = ()
    errors: tuple[tuple[float, str], ...] = ()
    stop_code: int = TERMINATED
    ignores_term: bool = False
    health: HealthName | None = None
    """What the health check of the image says from the start; None if the image has none."""

    def code(self, start: int) -> int | None:
        """How the given start (0 is the first) ends; None if it goes on until it is stopped."""
        return self.exits[min(start, len(self.exits) - 1)] if self.exits else None


@dataclass(frozen=True, slots=True)
class Written:
    """One line that a program has written."""

    at: datetime
    origin: LogOrigin
    line: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PretendFile:
    """A file, a folder or a link that was copied into a container."""

    content: bytes = b""
    mode: int = 0o644
    owner: int = 0
    group: int = 0
    target: str = ""
    """Where a link leads to."""
    is_folder: bool = False


@dataclass(slots=True, kw_only=True)
class HeldContainer:
    """One container."""

    id: str
    name: str
    spec: NewContainer
    script: Script
    created_at: datetime
    status: ContainerStatusName = "created"
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    health: EngineHealth | None = None
    ports: tuple[PortBinding, ...] = ()
    networks: dict[str, Attachment] = field(default_factory=dict[str, Attachment])
    """By the ID of the network."""
    files: dict[str, PretendFile] = field(default_factory=dict[str, PretendFile])
    log: list[Written] = field(default_factory=list[Written])
    timers: list[asyncio.TimerHandle] = field(default_factory=list[asyncio.TimerHandle])
    starts: int = 0
    restarts: int = 0
    """In a row, by the engine itself."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set and replaced when something was written, or its status is another."""

    @property
    def is_alive(self) -> bool:
        """Whether a program runs in it."""
        return self.status in ("running", "paused")

    @property
    def is_writing(self) -> bool:
        """Whether its log may still grow."""
        return self.is_alive or self.status == "restarting"

    def wake(self) -> None:
        """Lets those look again who follow."""
        self.changed.set()
        self.changed = asyncio.Event()

    def drop_timers(self) -> None:
        """Forgets what the program was about to do."""
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()

    def info(self) -> ContainerInfo:
        """What an inspection says."""
        spec = self.spec
        return ContainerInfo(
            id=self.id,
            name=self.name,
            image=spec.image,
            status=self.status,
            created_at=self.created_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
            exit_code=self.exit_code,
            command=(*((spec.command,) if spec.command else ()), *spec.args),
            env=dict(spec.env),
            labels=dict(spec.labels),
            mounts=spec.mounts,
            ports=self.ports,
            networks=tuple(self.networks.values()),
            health=self.health,
        )


@dataclass(slots=True, kw_only=True)
class HeldNetwork:
    """One network; who is in it, the containers know."""

    info: NetworkInfo
    is_built_in: bool = False
    addresses: int = 1
    """How many addresses are given away; the first is the gateway's."""


def unpack(archive: bytes, folder: str) -> Mapping[str, PretendFile]:
    """What is in a tar archive, by the paths that it has below a folder; raises EngineRefused if it is none."""
    found: dict[str, PretendFile] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            for member in tar:
                begin = member.offset_data
                path = f"{folder.rstrip('/')}/{member.name.removeprefix('./').strip('/')}"
                found[path] = PretendFile(
                    content=archive[begin : begin + member.size] if member.isfile() else b"",
                    mode=member.mode,
                    owner=member.uid,
                    group=member.gid,
                    target=member.linkname,
                    is_folder=member.isdir(),
                )
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise EngineRefused(f"what is to be copied to {folder} is no tar archive: {error}") from error
    return found
