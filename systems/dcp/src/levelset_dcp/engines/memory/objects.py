"""The objects of the in-memory engine: containers with their files and logs, networks, and program scripts."""

import asyncio
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from msgspec import Struct

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

__all__ = ["FakeFile", "LogLine", "MemoryContainer", "MemoryNetwork", "Script", "unpack"]

TERMINATED: Final = 143


class Script(Struct, frozen=True, kw_only=True):
    """The behaviour of a program: prints lines, and exits after some seconds or runs until it is stopped."""

    exits: tuple[int, ...] = ()
    """The exit codes of the first start, the second, and so on; the last one repeats; empty: it does not exit."""
    after: float = 0.0
    prints: tuple[tuple[float, str], ...] = ()
    errors: tuple[tuple[float, str], ...] = ()
    stop_code: int = TERMINATED
    ignores_term: bool = False
    health: HealthName | None = None
    """The initial result of the image's health check; None if the image has none."""

    def code(self, start: int) -> int | None:
        """The exit code of a start (0 is the first); None if it runs until it is stopped."""
        return self.exits[min(start, len(self.exits) - 1)] if self.exits else None


class LogLine(Struct, frozen=True):
    """One line of output."""

    at: datetime
    origin: LogOrigin
    line: bytes


class FakeFile(Struct, frozen=True, kw_only=True):
    """A file, a directory or a symlink that was copied into a container."""

    content: bytes = b""
    mode: int = 0o644
    owner: int = 0
    group: int = 0
    target: str = ""
    """The target of a symlink."""
    is_folder: bool = False


@dataclass(slots=True, kw_only=True)
class MemoryContainer:
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
    """By network ID."""
    files: dict[str, FakeFile] = field(default_factory=dict[str, FakeFile])
    log: list[LogLine] = field(default_factory=list[LogLine])
    timers: list[asyncio.TimerHandle] = field(default_factory=list[asyncio.TimerHandle])
    starts: int = 0
    restarts: int = 0
    """Consecutive restarts by the restart policy."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set and replaced when the log or the status changes."""

    @property
    def is_alive(self) -> bool:
        """Whether its program runs."""
        return self.status in ("running", "paused")

    @property
    def is_writing(self) -> bool:
        """Whether its log may still grow."""
        return self.is_alive or self.status == "restarting"

    def wake(self) -> None:
        """Wakes the readers that follow the log."""
        self.changed.set()
        self.changed = asyncio.Event()

    def drop_timers(self) -> None:
        """Cancels the scheduled actions of the program."""
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()

    def info(self) -> ContainerInfo:
        """The result of an inspection."""
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
class MemoryNetwork:
    """One network; its members are stored with the containers."""

    info: NetworkInfo
    is_built_in: bool = False
    addresses: int = 1
    """The number of assigned addresses; the first is that of the gateway."""


def unpack(archive: bytes, folder: str) -> Mapping[str, FakeFile]:
    """Extracts a tar archive below a directory; returns the files by path. Raises EngineRefused."""
    found: dict[str, FakeFile] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            for member in tar:
                begin = member.offset_data
                path = f"{folder.rstrip('/')}/{member.name.removeprefix('./').strip('/')}"
                found[path] = FakeFile(
                    content=archive[begin : begin + member.size] if member.isfile() else b"",
                    mode=member.mode,
                    owner=member.uid,
                    group=member.gid,
                    target=member.linkname,
                    is_folder=member.isdir(),
                )
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise EngineRefused(f"cannot copy to {folder}: not a tar archive: {error}") from error
    return found
