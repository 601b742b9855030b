"""A session of DCP: a server with all controllers, from its start to its graceful shutdown."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from msgspec import Struct, field

from levelset import open_local
from levelset.aio import Supervisor
from levelset.errors import ConfigError, LevelsetError, Unauthorized
from levelset.http import CertificateFiles, Request
from levelset.runtime.manager import LocalSystem
from levelset_dcp.engines.selection import open_runtime
from levelset_dcp.records import SqliteRecords, state_path
from levelset_dcp.session.admin import Cleanup, ExecutionStatus, admin_endpoint
from levelset_dcp.session.cleanup import CleanupReport, clean_up
from levelset_dcp.system import Options, dcp_system
from levelset_machine import Identity, LogRotation, Machine, identity_of

__all__ = ["Session", "SessionOptions", "monitored_process", "open_session", "wait_for_exit"]

log = logging.getLogger(__name__)


def monitored_process(pid: int, started: int | None = None) -> Identity:
    """The identity of a process to monitor; raises ConfigError if it does not run or the PID was reused.

    `started` is field 22 of /proc/PID/stat, which distinguishes it from a later process with the same PID.
    """
    found = identity_of(pid)
    if found is None:
        raise ConfigError(f"--monitor: there is no process {pid}")
    if started is not None and started != found.started:
        raise ConfigError(
            f"--monitor: process {pid} is another one: it was started at {found.started}, not at {started}"
        )
    return found


async def wait_for_exit(identity: Identity) -> None:
    """Waits for the exit of a process."""
    async with Machine(guard=False) as machine:
        run = machine.adopt(identity)
        if run is not None:
            await run.wait()


class SessionOptions(Struct, frozen=True, kw_only=True):
    """The options of a session."""

    kubeconfig: Path
    """The kubeconfig that is written for the server, and removed with the session."""
    port: int = 0
    monitor: Identity | None = None
    """The session stops when this process exits."""
    workload: str = ""
    """The workload of this session's persistent resources, for `levelset-dcp cleanup`."""
    state: Path = field(default_factory=state_path)
    """The path of the state store; the logs of persistent programs are in the same directory."""
    shutdown_within: float = 120.0
    """Seconds that the cleanup may take."""
    preserved_logs: Path | None = None
    """The directory of logs that stay when their objects are deleted, and after the session; by default none do."""
    log_rotation: LogRotation = field(default_factory=LogRotation)
    """How much of each log is retained."""
    runtime: str | None = "none"
    """The name of the container engine; None to detect one."""
    certificate: CertificateFiles | None = None
    """The certificate of the server; one of its own unless given."""
    token: str | None = None
    """The token of the owner, which is then not written to the kubeconfig."""
    server_only: bool = False
    """Whether another process runs the controllers; the objects are then not deleted at the end."""


class Session:
    """A running session; its status goes from Running to CleaningResources, CleanupComplete and Stopping."""

    def __init__(
        self,
        local: LocalSystem,
        reject_new_objects: Callable[[], None],
        *,
        within: float,
        tasks: Supervisor,
        has_controllers: bool = True,
    ) -> None:
        self.local = local
        self.cleanup: Cleanup = "Full"
        self.report: CleanupReport | None = None
        self.why = ""
        """Why it stops, for the log."""
        self._reject_new_objects = reject_new_objects
        self._within = within
        self._tasks = tasks
        self._has_controllers = has_controllers
        self._status: ExecutionStatus = "Running"
        self._target: ExecutionStatus = "Running"
        self._cleaned = asyncio.Event()
        self._stopping = asyncio.Event()

    @property
    def status(self) -> ExecutionStatus:
        """The current status."""
        return self._status

    def begin(self, status: ExecutionStatus, *, why: str = "") -> None:
        """Starts the cleanup, and the shutdown after it if `status` is Stopping; idempotent."""
        if status == "Running":
            return
        self.why = self.why or why
        if self._target != "Stopping":
            self._target = status
        if self._status == "Running":
            self._status = "CleaningResources"
            self._reject_new_objects()
            self._tasks.start("clean up", self._clean_up)
        elif self._status == "CleanupComplete":
            self._finish()

    async def wait_cleaned(self) -> None:
        """Waits until the cleanup has finished."""
        await self._cleaned.wait()

    async def wait_stopping(self) -> None:
        """Waits until the session must be closed."""
        await self._stopping.wait()

    async def end(self) -> None:
        """Runs the cleanup unless it was done, and waits until the session can be closed."""
        self.begin("Stopping")
        await self._stopping.wait()

    async def _clean_up(self) -> None:
        try:
            # Controllers in another process may be gone: their finalizers would stay.
            if self.cleanup == "Full" and self._has_controllers:
                self.report = await clean_up(self.local.client, within=self._within)
                for name in self.report.left:
                    log.warning("%s was not deleted", name)
        except* LevelsetError as errors:
            log.exception("cleanup failed")
            self.report = CleanupReport(left=[f"objects that the cleanup did not reach: {errors.exceptions[0]}"])
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
    """Opens a session for the length of a block; the cleanup runs at its end, unless it was done before."""
    async with AsyncExitStack() as stack:
        records = await stack.enter_async_context(SqliteRecords(options.state, workload=options.workload))
        engine = await stack.enter_async_context(open_runtime(options.runtime))
        dcp = Options(
            records=records,
            persistent_logs=options.state.parent / "logs",
            preserved_logs=options.preserved_logs,
            log_rotation=options.log_rotation,
            engine=engine,
            server_only=options.server_only,
        )
        where = str(options.kubeconfig)
        opened = open_local(
            dcp_system(dcp),
            listen=True,
            kubeconfig=where,
            port=options.port,
            certificate=options.certificate,
            token=options.token,
        )
        local = await stack.enter_async_context(opened)
        tasks = await stack.enter_async_context(Supervisor(name="session", grace=0.0))
        session = Session(
            local,
            dcp.shutdown_gate.close,
            within=options.shutdown_within,
            tasks=tasks,
            has_controllers=not options.server_only,
        )
        local.server.serve_page(admin_endpoint(session, is_owner=_owner_check(local)))
        if options.monitor is not None:
            tasks.start("monitor", _monitor(session, options.monitor))
        try:
            yield session
        finally:
            await session.end()


async def _monitor(session: Session, identity: Identity) -> None:
    await wait_for_exit(identity)
    session.begin("Stopping", why=f"the monitored process {identity.pid} has exited")


def _owner_check(local: LocalSystem) -> Callable[[Request], bool]:
    def is_owner(request: Request) -> bool:
        access = local.server.state.authenticator
        try:
            return access is None or access.authenticate(request).is_master
        except Unauthorized:
            return False

    return is_owner
