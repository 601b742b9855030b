"""One run of a container: its process and its streams, what its supervision needs, and the termination it ends with."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from levelset import NotFound, Ref
from levelset.apiserver import STDERR, STDOUT, RemoteStreams
from levelset.kinds.core_v1 import Container, Pod
from levelset_local.node.container_command import termination_message_file
from levelset_local.node.node import Node
from levelset_local.node.pod_record import RunningProcess, Termination
from levelset_machine import ERR, OUT, Command, Ended, LogOptions, LogSink, Run, Session

__all__ = ["ContainerRun", "ContainerStreams", "make_termination", "read_termination_message"]

_MOST_MESSAGE: Final = 4096
_MOST_LOG: Final = 2048
_LOG_LINES: Final = 80
_MOST_WAITING: Final = 256
"""The pieces of output that may wait for a slow client; one that is slower is disconnected."""
_STREAMS: Final = {OUT: STDOUT, ERR: STDERR}


class ContainerStreams:
    """The streams of a container with stdin or a terminal: its output goes to its log and to attached clients.

    A client may type into it, and set the size of its terminal. What it writes while no client is attached is in its
    log only. `session` is what its process is started with.
    """

    def __init__(self, container: Container, sink: LogSink) -> None:
        self.session = Session(stdin=bool(container.stdin), terminal=bool(container.tty))
        self._container = container
        self._sink = sink
        self._clients = set[asyncio.Queue[tuple[int, bytes] | None]]()
        self._typing = asyncio.Lock()

    async def copy(self) -> None:
        """Copies the output until its end, and then closes everything."""
        try:
            async with asyncio.TaskGroup() as group:
                for source in _STREAMS:
                    group.create_task(self._copy(source))
        finally:
            self.session.close()
            self._sink.close()
            for client in list(self._clients):
                self._end(client)

    async def attach(self, streams: RemoteStreams) -> int:
        """Shows a client what the container writes from now on, until it ends, and types what the client sends."""
        client = asyncio.Queue[tuple[int, bytes] | None](_MOST_WAITING)
        self._clients.add(client)
        async with _until_left(self._follow_size(streams), self._type(streams)):
            try:
                while (piece := await client.get()) is not None:
                    source, data = piece
                    await streams.write(_STREAMS[source], data)
            finally:
                self._clients.discard(client)
        return 0

    async def _copy(self, source: int) -> None:
        while data := await self.session.read(source):
            self._sink.write(data)
            for client in list(self._clients):
                try:
                    client.put_nowait((source, data))
                except asyncio.QueueFull:
                    self._end(client)

    def _end(self, client: "asyncio.Queue[tuple[int, bytes] | None]") -> None:
        """Lets a client read what waits for it, but for the last piece if there is no place for the end."""
        self._clients.discard(client)
        if client.full():
            client.get_nowait()
        client.put_nowait(None)

    async def _type(self, streams: RemoteStreams) -> None:
        if streams.stdin is None or not self._container.stdin:
            return
        while data := await streams.stdin.read():
            async with self._typing:
                await self.session.write(data)
        if self._container.stdin_once and not self._container.tty:
            self.session.close_input()

    async def _follow_size(self, streams: RemoteStreams) -> None:
        async for size in streams.sizes():
            self.session.resize(columns=size.columns, rows=size.rows)


@contextlib.asynccontextmanager
async def _until_left(*work: Coroutine[Any, Any, None]) -> AsyncGenerator[None, None]:
    """Runs tasks until the block is left."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        yield
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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
