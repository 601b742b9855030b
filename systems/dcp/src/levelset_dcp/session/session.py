"""A session of DCP: a server with everything on it, from its start to the orderly end."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from levelset import open_local
from levelset.aio import Supervisor
from levelset.errors import LevelsetError, Unauthorized
from levelset.http import Request
from levelset.runtime.manager import Local
from levelset_dcp.records import SqliteRecords, state_path
from levelset_dcp.runtimes import open_runtime
from levelset_dcp.session.admin import admin_page
from levelset_dcp.session.cleanup import CleanupReport, clean_up
from levelset_dcp.session.execution import Cleanup, ExecutionStatus
from levelset_dcp.session.monitor import wait_end
from levelset_dcp.system import Options, dcp_system
from levelset_machine import Identity

__all__ = ["Session", "SessionOptions", "open_session"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """How a session runs."""

    kubeconfig: Path
    """The file that leads to the server; it is gone with the session."""
    port: int = 0
    monitor: Identity | None = None
    """A process with which the session ends."""
    workload: str = ""
    """What the persistent resources of this session belong to, for `levelset-dcp cleanup`."""
    state: Path = field(default_factory=state_path)
    """The state store; the logs of persistent programs are beside it."""
    shutdown_within: float = 120.0
    """Seconds that cleaning up may take."""
    runtime: str | None = "none"
    """The container engine, by its name; None for whichever is there."""


class Session:
    """A session that runs; it goes from Running to CleaningResources, CleanupComplete and Stopping, and never back."""

    def __init__(self, local: Local, prohibit: Callable[[], None], *, within: float, tasks: Supervisor) -> None:
        self.local = local
        self.cleanup: Cleanup = "Full"
        self.report: CleanupReport | None = None
        self.why = ""
        """Why it ends, for the log."""
        self._prohibit = prohibit
        self._within = within
        self._tasks = tasks
        self._status: ExecutionStatus = "Running"
        self._target: ExecutionStatus = "Running"
        self._cleaned = asyncio.Event()
        self._stopping = asyncio.Event()

    @property
    def status(self) -> ExecutionStatus:
        """How far it is."""
        return self._status

    def begin(self, status: ExecutionStatus, *, why: str = "") -> None:
        """Begins to clean up, and to stop after that if it is so wanted; a second call is the same."""
        if status == "Running":
            return
        self.why = self.why or why
        if self._target != "Stopping":
            self._target = status
        if self._status == "Running":
            self._status = "CleaningResources"
            self._prohibit()
            self._tasks.start("clean up", self._clean_up)
        elif self._status == "CleanupComplete":
            self._finish()

    async def wait_cleaned(self) -> None:
        """Returns when everything is deleted that could be."""
        await self._cleaned.wait()

    async def wait_stopping(self) -> None:
        """Returns when it is to end."""
        await self._stopping.wait()

    async def end(self) -> None:
        """Cleans up, if that was not done, and gets ready to be closed."""
        self.begin("Stopping")
        await self._stopping.wait()

    async def _clean_up(self) -> None:
        try:
            if self.cleanup == "Full":
                self.report = await clean_up(self.local.client, within=self._within)
                for name in self.report.left:
                    log.warning("%s is left", name)
        except* LevelsetError as errors:
            log.exception("the cleanup has failed")
            self.report = CleanupReport(left=[f"what the cleanup did not come to: {errors.exceptions[0]}"])
        finally:
            self._status = "CleanupComplete"
            self._cleaned.set()
            self._finish()

    def _finish(self) -> None:
        if self._target == "Stopping":
            self._status = "Stopping"
            self._stopping.set()


@asynccontextmanager
async def open_session(options: SessionOptions) -> AsyncGenerator[Session, None]:
    """A session for the length of a block; at its end everything is deleted, in order, unless that was done before."""
    async with AsyncExitStack() as stack:
        records = await stack.enter_async_context(SqliteRecords(options.state, workload=options.workload))
        engine = await stack.enter_async_context(open_runtime(options.runtime))
        dcp = Options(records=records, lasting=options.state.parent / "logs", engine=engine)
        where = str(options.kubeconfig)
        opened = open_local(dcp_system(dcp), listen=True, kubeconfig=where, port=options.port)
        local = await stack.enter_async_context(opened)
        tasks = await stack.enter_async_context(Supervisor(name="session", grace=0.0))
        session = Session(local, dcp.prohibition.begin, within=options.shutdown_within, tasks=tasks)
        local.server.serve_page(admin_page(session, is_owner=_owner_check(local)))
        if options.monitor is not None:
            tasks.start("monitor", _monitor(session, options.monitor))
        try:
            yield session
        finally:
            await session.end()


async def _monitor(session: Session, identity: Identity) -> None:
    await wait_end(identity)
    session.begin("Stopping", why=f"process {identity.pid}, which it belongs to, has ended")


def _owner_check(local: Local) -> Callable[[Request], bool]:
    def is_owner(request: Request) -> bool:
        access = local.server.world.access
        try:
            return access is None or access.caller(request).is_master
        except Unauthorized:
            return False

    return is_owner
