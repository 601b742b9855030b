"""A server in this process, and controllers and tasks that record what they do, for tests of managers."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from levelset.apiserver import ApiServer
from levelset.client import Client
from levelset.runtime.controller import Controller
from levelset.runtime.manager import Manager
from tests.client.fixtures import Website, website_crd

__all__ = ["EventLog", "open_server", "recording_controller", "run_manager", "websites"]


class EventLog(list[str]):
    """What happened, in order."""

    def task(self, name: str, *, cleanup: float = 0.0) -> Callable[[], Coroutine[Any, Any, None]]:
        """A task that records its start and its end."""

        async def work() -> None:
            self.append(f"{name} starts")
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(cleanup)
                self.append(f"{name} ends")

        return work

    def hook(self, name: str) -> Callable[[], None]:
        return lambda: self.append(name)


@asynccontextmanager
async def open_server() -> AsyncGenerator[ApiServer, None]:
    """A server without sockets that serves Websites."""
    server = ApiServer()
    await server.start(listen=False)
    try:
        async with await Client.connect(server) as owner:
            await owner.create(website_crd())
        yield server
    finally:
        await server.stop()


async def run_manager(manager: Manager, *, then: Exception | None = None) -> None:
    """Runs a manager until it stops, or leaves its block with an error after a second."""
    async with manager:
        await manager.wait_elected()
        await asyncio.sleep(1 if then is not None else 3600)
        if then is not None:
            raise then


def websites(reconcile: Callable[..., Awaitable[Any]], **options: Any) -> Controller[Website]:
    return Controller(Website, reconcile, **options)


def recording_controller(events: EventLog, *, seconds: float = 0.0) -> Controller[Website]:
    """A controller that records what it reconciles, each for some seconds."""

    async def reconcile(site: Website, ctx: object) -> None:
        events.append(f"reconciles {site.name}")
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            events.append(f"is cancelled for {site.name}")
            raise
        events.append(f"is done with {site.name}")

    return websites(reconcile)
