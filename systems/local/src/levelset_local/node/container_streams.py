"""The streams of a container with stdin or a terminal: its output goes to its log and to the clients that are attached.

A client may type into it, and set the size of its terminal. What it writes while nobody is attached is in its log only.
"""

import asyncio
import contextlib
from typing import Any, Final

from levelset.apiserver import STDERR, STDOUT, RemoteStreams
from levelset.kinds.core_v1 import Container
from levelset_machine import ERR, OUT, LogSink, Session

__all__ = ["ContainerStreams"]

_MOST_WAITING: Final = 256
"""The pieces of output that may wait for a slow client; one that is slower is disconnected."""
_STREAMS: Final = {OUT: STDOUT, ERR: STDERR}


class ContainerStreams:
    """The streams of one run; `session` is what its process is started with."""

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
async def _until_left(*work: Any) -> Any:
    """Runs tasks until the block is left."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        yield
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
