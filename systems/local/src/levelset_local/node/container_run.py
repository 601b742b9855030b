"""One run of a container: its process and what its supervision needs, and the termination it ends with."""

import asyncio
from pathlib import Path
from typing import Final

from msgspec import Struct

from levelset import NotFound, Ref
from levelset.kinds.core_v1 import Container, Pod
from levelset_local.node.container_command import termination_message_file
from levelset_local.node.container_streams import ContainerStreams
from levelset_local.node.node import Node
from levelset_local.node.pod_record import RunningProcess, Termination
from levelset_machine import Command, Ended, LogOptions, Run

__all__ = ["ContainerRun", "make_termination", "read_termination_message"]

_MOST_MESSAGE: Final = 4096
_MOST_LOG: Final = 2048
_LOG_LINES: Final = 80


class ContainerRun(Struct, frozen=True, kw_only=True):
    """A run of a container, with everything that its probes, hooks and its stop need."""

    ref: Ref[Pod]
    uid: str
    container: Container
    process: Run
    live: RunningProcess
    command: Command
    address: str
    root: Path
    """The folder below which the container finds its mount paths."""
    log: str
    """The key of its log."""
    enter: tuple[str, ...] = ()
    """What comes before a command that runs in the container; nothing unless it has namespaces."""
    streams: ContainerStreams | None = None
    """Its streams, if it has stdin or a terminal and was started by this manager."""

    @property
    def key(self) -> tuple[str, str]:
        """The uid of the Pod and the name of the container."""
        return self.uid, self.container.name

    @property
    def name(self) -> str:
        """The name of the task that supervises it."""
        return f"{self.uid}/{self.container.name} {self.live.container_id}"


async def make_termination(node: Node, run: ContainerRun, ended: Ended) -> Termination:
    """The termination of a run, with its termination message."""
    reason = "Completed" if ended.code == 0 else "Error"
    if not ended.is_known:
        reason = "ContainerStatusUnknown"
    return Termination(
        code=ended.code,
        reason=reason,
        message=await read_termination_message(node, run, is_error=ended.code != 0),
        container_id=run.live.container_id,
        started_at=run.live.started_at,
        finished_at=ended.at,
    )


async def read_termination_message(node: Node, run: ContainerRun, *, is_error: bool) -> str:
    """The content of the termination message file; or the end of the log, with the policy FallbackToLogsOnError."""
    path = termination_message_file(run.root, run.container)
    written = await asyncio.to_thread(_read_message, path)
    if written or not is_error or run.container.termination_message_policy != "FallbackToLogsOnError":
        return written
    try:
        parts = [part async for part in node.logs.read(run.log, LogOptions(tail=_LOG_LINES))]
    except NotFound:
        return ""
    return b"".join(parts)[-_MOST_LOG:].decode(errors="replace")


def _read_message(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_MESSAGE).decode(errors="replace")
    except OSError:
        return ""
