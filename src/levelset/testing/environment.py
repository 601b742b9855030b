"""What a cluster for tests stands on: a server inside the test or a real one, its clock, and the processes at work.

A process of an operator inside a test: a client, a cache and a manager of its own, which can die like a real one.

A client that makes a kind known to the server when it is first used: for people in a test, and for controllers.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from levelset.aio import Crashed
from levelset.client.client import Client
from levelset.client.object_types import View
from levelset.client.requests import ResourceInfo
from levelset.client.transport.interface import Answer, Call, Hook, Send, Transport
from levelset.errors import NotReady, Unreachable
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.cache.cluster import Cluster as Cache
from levelset.runtime.controller.controller import Controller
from levelset.runtime.controller.running_controller import RunningController
from levelset.runtime.manager.crd_install import install_definitions
from levelset.runtime.manager.manager import Manager
from levelset.testing.embedded_server import Inside, define_inside
from levelset.testing.timeline import Timelines
from levelset.testing.virtual_time import RealTime, VirtualLoop

__all__ = ["IntroducingClient", "Process", "Stage", "Wire"]


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


@dataclass(eq=False)
class Stage:
    """Shared by everybody who takes part in a test."""

    where: Any
    """What processes connect to: the server inside, or the path of a kubeconfig."""
    control: Client
    """A client for the framework's own business: no fault hits it."""
    now: Callable[[], datetime]
    loop: VirtualLoop | None = None
    """The loop whose time jumps; None if time is real."""
    inside: Inside | None = None
    """The server of this test; None for a real cluster."""
    processes: list[Process] = field(default_factory=list[Process])
    timelines: Timelines = field(default_factory=Timelines)
    defined: dict[GroupVersionKind, None] = field(default_factory=dict[GroupVersionKind, None])
    """The kinds that are known to be served."""
    installed: list[str] = field(default_factory=list[str])
    """The definitions that were made for this test."""

    @property
    def alive(self) -> list[Process]:
        """The processes that run now."""
        return [one for one in self.processes if one.is_alive]

    async def define(self, views: Iterable[View[Any]]) -> None:
        """Has the server serve these kinds, as far as it does not yet."""
        several = {one.gvk: one for one in reversed(tuple(views)) if one.definition is not None}
        missing = [one for gvk, one in reversed(several.items()) if gvk not in self.defined]
        if not missing:
            return
        if self.inside is not None:
            self.installed += await define_inside(self.inside, self.control, missing)
        else:
            self.installed += await install_definitions(self.control, missing)
        self.defined.update((one.gvk, None) for one in missing)

    def virtual(self, what: str) -> VirtualLoop:
        """The loop whose time jumps; RealTime says that there is none."""
        if self.loop is None:
            where = "on a real cluster" if isinstance(self.where, str | Path) else "here"
            raise RealTime(f"{what} needs virtual time, and time is real {where}; wait with until(...) instead")
        return self.loop


class IntroducingClient(Client):
    """All verbs of a client; a class that the server does not know is introduced to it, whoever uses it first."""

    def __init__(self, transport: Transport, stage: Stage, **options: Any) -> None:
        super().__init__(transport, **options)
        self.stage = stage

    def _served_nowait(self, view: View[Any]) -> ResourceInfo | None:
        return super()._served_nowait(view) if view.gvk in self.stage.defined else None

    async def _served(self, view: View[Any]) -> ResourceInfo:
        if view.definition is not None and view.gvk not in self.stage.defined:
            await self.stage.define([view])
        return await super()._served(view)

    def _with(self, changes: dict[str, Any]) -> Self:
        made = super()._with(changes)
        made.stage = self.stage
        return made
