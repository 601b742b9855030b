"""The environment of a test cluster: its server, clock and operator processes.

- `Process` is an operator process inside the test: its own client, cache and manager. It can be stopped or killed.
- `Environment` is what the cluster and its processes share.
- `CrdInstallingClient` installs the CRD of a kind when the kind is first used.
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
from levelset.client.transport.interface import Call, Hook, Response, Send, Transport
from levelset.errors import NotReady, Unreachable
from levelset.objects.ref import GroupVersionKind
from levelset.runtime.cache.cluster import Cluster as Cache
from levelset.runtime.controller.controller import Controller
from levelset.runtime.controller.running_controller import RunningController
from levelset.runtime.manager.crd_install import install_crds
from levelset.runtime.manager.manager import Manager
from levelset.testing.embedded_server import EmbeddedServer, install_kinds
from levelset.testing.hot_loop import HotLoopGuard
from levelset.testing.reconcile_failures import AllowedErrors, FailureRecorder
from levelset.testing.timeline import Timeline
from levelset.testing.virtual_time import RealTime, VirtualLoop

__all__ = ["CrdInstallingClient", "Environment", "Process", "Wire"]


class Wire:
    """The network of one process as a wire hook; once `is_cut` is set, no call reaches the server."""

    def __init__(self) -> None:
        self.is_cut = False

    async def __call__(self, call: Call, send: Send) -> Response:
        """Sends a call; raises Unreachable if the network is cut before the call or before its response."""
        self._check(call, is_sent=False)
        response = await send(call)
        self._check(call, is_sent=True)
        return response

    def _check(self, call: Call, *, is_sent: bool) -> None:
        if self.is_cut:
            raise Unreachable(f"{call.words}: the process was killed, its network is cut", is_sent=is_sent)


@dataclass(eq=False)
class Process:
    """An operator process; `manager`, `client` and `cache` exist once it has started."""

    name: str
    wanted: Sequence[Controller[Any]]
    """The controllers that it runs."""
    connect: Callable[[Sequence[Hook]], AbstractAsyncContextManager[Client]]
    """Opens the client of the process with these wire hooks."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options of the Manager."""
    hooks: Sequence[Hook] = ()
    allow_errors: AllowedErrors = False
    """The errors of its reconciles that `settled` and `advance` allow, unless they get an `allow_errors` themselves."""
    failures: FailureRecorder = field(default_factory=FailureRecorder)
    """The objects whose last reconcile failed; one of the observers in `options`."""
    wire: Wire = field(default_factory=Wire)
    error: BaseException | None = None
    """The error that ended the process, if it was not stopped or killed."""
    is_alive: bool = False
    _manager: Manager | None = None
    _task: "asyncio.Task[None] | None" = None

    @property
    def manager(self) -> Manager:
        """The manager of the process; NotReady before the process has started."""
        if self._manager is None:
            raise NotReady(f"{self.name} has not been started")
        return self._manager

    @property
    def client(self) -> Client:
        """The client of its controllers."""
        return self.manager.client

    @property
    def cache(self) -> Cache:
        """The cache of its controllers."""
        return self.manager.cluster

    @property
    def controllers(self) -> Mapping[str, RunningController[Any]]:
        """The running controllers, by name."""
        return self.manager.controllers

    @property
    def is_elected(self) -> bool:
        """Whether it takes part in leader election."""
        return self.options.get("leader") is not None

    @property
    def is_standby(self) -> bool:
        """Whether it takes part in leader election and is not the leader."""
        return self.is_elected and not self.manager.is_leader

    @property
    def is_joining(self) -> bool:
        """Whether it shares the objects with other processes, and has not joined them yet."""
        return self.options.get("shards") is not None and not self.manager.is_leader

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["Process", None]:
        """Runs for the duration of the block; a controller that fails permanently interrupts it with Crashed."""
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
            if not self.wire.is_cut:  # errors of a killed process are expected
                raise
        finally:
            self.is_alive = False

    async def start(self) -> None:
        """Runs until `stop` or `kill`, in its own task; an error that ends it is in `error`."""
        up = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(up), name=f"process {self.name}")
        await up.wait()

    async def stop(self) -> None:
        """Shuts down gracefully, as on SIGTERM: running reconciles finish, the Lease is released."""
        if self._manager is not None and self.is_alive:
            await self._manager.stop()
        await self._wait_end()

    async def kill(self) -> None:
        """Kills the process, as SIGKILL does: from now on none of its calls reaches the server."""
        self.wire.is_cut = True
        if self._manager is not None and self.is_alive:
            self._manager.stop_now()
            await self._manager.stop()
        elif self._task is not None:
            self._task.cancel()
        await self._wait_end()

    async def wait_ended(self) -> None:
        """Waits until a process that was started with `start` has ended."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _wait_end(self) -> None:
        if self._task is not None and self._task is not asyncio.current_task():
            await asyncio.wait([self._task])

    async def _run(self, up: asyncio.Event) -> None:
        try:
            async with self.running():
                up.set()
                await self.manager.wait_stopped()
        except Exception as error:  # noqa: BLE001 -- it ends this process, and the test reads it from `error`
            self.error = error
        finally:
            up.set()


@dataclass(eq=False)
class Environment:
    """What the cluster of a test and its processes share."""

    target: Any
    """What processes connect to: the in-process server, or the path of a kubeconfig."""
    control: Client
    """The client of the test framework itself; no fault is injected into it."""
    now: Callable[[], datetime]
    loop: VirtualLoop | None = None
    """The loop in virtual time; None if time is real."""
    embedded: EmbeddedServer | None = None
    """The in-process server of this test; None for a real cluster."""
    processes: list[Process] = field(default_factory=list[Process])
    timeline: Timeline = field(default_factory=Timeline)
    guard: HotLoopGuard | None = None
    """Finds hot loops of the controllers; None if time is real."""
    defined: dict[GroupVersionKind, None] = field(default_factory=dict[GroupVersionKind, None])
    """The kinds that are known to be served, as an ordered set."""
    installed: list[str] = field(default_factory=list[str])
    """The names of the CRDs that were installed for this test."""

    @property
    def alive(self) -> list[Process]:
        """The running processes."""
        return [one for one in self.processes if one.is_alive]

    async def define(self, views: Iterable[View[Any]]) -> None:
        """Installs the CRDs of these kinds that are not served yet."""
        several = {one.gvk: one for one in reversed(tuple(views)) if one.definition is not None}
        missing = [one for gvk, one in reversed(several.items()) if gvk not in self.defined]
        if not missing:
            return
        if self.embedded is not None:
            self.installed += await install_kinds(self.embedded, self.control, missing)
        else:
            self.installed += await install_crds(self.control, missing)
        self.defined.update((one.gvk, None) for one in missing)

    def virtual(self, what: str) -> VirtualLoop:
        """The loop in virtual time; raises RealTime if time is real."""
        if self.loop is None:
            where = "on a real cluster" if isinstance(self.target, str | Path) else "here"
            raise RealTime(f"{what} needs virtual time, and time is real {where}; wait with until(...) instead")
        return self.loop


class CrdInstallingClient(Client):
    """A client that installs the CRD of a kind before the first request for it."""

    def __init__(self, transport: Transport, environment: Environment, **options: Any) -> None:
        super().__init__(transport, **options)
        self.environment = environment

    def _resource_nowait(self, view: View[Any]) -> ResourceInfo | None:
        return super()._resource_nowait(view) if view.gvk in self.environment.defined else None

    async def _resource(self, view: View[Any]) -> ResourceInfo:
        if view.definition is not None and view.gvk not in self.environment.defined:
            await self.environment.define([view])
        return await super()._resource(view)

    def _derive(self, changes: dict[str, Any]) -> Self:
        made = super()._derive(changes)
        made.environment = self.environment
        return made
