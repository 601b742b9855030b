"""A process of an operator inside a test: a client, a cache and a manager of its own, which can die like a real one."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from levelset.aio import Crashed
from levelset.cache.cluster import Cluster as Cache
from levelset.client.calls import Answer, Call, Hook, Send
from levelset.client.client import Client
from levelset.controller.controller import Controller
from levelset.controller.running import RunningController
from levelset.errors import NotReady, Unreachable
from levelset.manager.manager import Manager

__all__ = ["Process", "Wire"]


class Wire:
    """The network of one process, which can be cut: then nothing reaches the server any more."""

    def __init__(self) -> None:
        self.is_cut = False

    async def __call__(self, call: Call, send: Send) -> Answer:
        """Lets a call pass, or not; an answer that comes after the cut is never seen."""
        self._check(call, is_sent=False)
        answer = await send(call)
        self._check(call, is_sent=True)
        return answer

    def _check(self, call: Call, *, is_sent: bool) -> None:
        if self.is_cut:
            raise Unreachable(f"{call.words}: this process is dead, its network is gone", is_sent=is_sent)


@dataclass(eq=False)
class Process:
    """Controllers at work. `manager`, `client` and `cache` are there while it lives."""

    name: str
    wanted: Sequence[Controller[Any]]
    """The controllers that it runs."""
    connect: Callable[[Sequence[Hook]], AbstractAsyncContextManager[Client]]
    """Opens its client; the hooks are those of its wire."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """More options of its Manager."""
    hooks: Sequence[Hook] = ()
    wire: Wire = field(default_factory=Wire)
    error: BaseException | None = None
    """What it failed with, if it did so by itself."""
    is_alive: bool = False
    _manager: Manager | None = None
    _task: "asyncio.Task[None] | None" = None

    @property
    def manager(self) -> Manager:
        """What runs the controllers; NotReady before it has begun."""
        if self._manager is None:
            raise NotReady(f"{self.name} has not been started")
        return self._manager

    @property
    def client(self) -> Client:
        """The client that its controllers write with."""
        return self.manager.client

    @property
    def cache(self) -> Cache:
        """The cache that its controllers read from."""
        return self.manager.cluster

    @property
    def controllers(self) -> Mapping[str, RunningController[Any]]:
        """The controllers that run, by name."""
        return self.manager.controllers

    @property
    def is_elected(self) -> bool:
        """Whether it takes part in an election."""
        return self.options.get("leader") is not None

    @property
    def is_standby(self) -> bool:
        """Whether it only waits to lead."""
        return self.is_elected and not self.manager.is_leader

    @asynccontextmanager
    async def living(self) -> AsyncGenerator["Process", None]:
        """Runs for the length of a block; a controller that fails for good interrupts the block with Crashed."""
        try:
            async with (
                self.connect([self.wire, *self.hooks]) as client,
                Manager(client, **self.options) as self._manager,
            ):
                self.is_alive = True
                for one in self.wanted:
                    self._manager.add(one)
                yield self
        except Crashed:
            if not self.wire.is_cut:  # who was killed may complain as much as they like
                raise
        finally:
            self.is_alive = False

    async def start(self) -> None:
        """Runs until `stop` or `kill`, in a task of its own; what it fails with is found in `error`."""
        up = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._live(up), name=f"process {self.name}")
        await up.wait()

    async def stop(self) -> None:
        """Ends as a program ends that is asked to: work under way is finished, the Lease given up."""
        if self._manager is not None and self.is_alive:
            await self._manager.stop()
        await self._wait_end()

    async def kill(self) -> None:
        """Ends as a program ends that is killed: from this moment on nothing it does reaches the server."""
        self.wire.is_cut = True
        if self._manager is not None and self.is_alive:
            self._manager.hurry()
            await self._manager.stop()
        elif self._task is not None:
            self._task.cancel()
        await self._wait_end()

    async def wait_ended(self) -> None:
        """Returns when it has ended, in whichever way; for a process that was started with `start`."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _wait_end(self) -> None:
        if self._task is not None and self._task is not asyncio.current_task():
            await asyncio.wait([self._task])

    async def _live(self, up: asyncio.Event) -> None:
        try:
            async with self.living():
                up.set()
                await self.manager.wait_stopped()
        except Exception as error:  # noqa: BLE001 -- it is the end of this process, and whoever started it is told
            self.error = error
        finally:
            up.set()
