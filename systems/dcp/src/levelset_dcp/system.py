"""DCP as one levelset System: kinds, webhooks, controllers, logs and the resources behind them."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from levelset import Object, System
from levelset.aio import Supervisor, timing
from levelset.errors import ConfigError, LevelsetError
from levelset_dcp import kinds
from levelset_dcp.admission import ShutdownGate, webhooks
from levelset_dcp.container_execs import container_execs_controller, exec_logs
from levelset_dcp.containers import ContainerHost, container_logs, containers_controller
from levelset_dcp.containers.host import session_guard
from levelset_dcp.containers.orphan_cleanup import clean_orphans
from levelset_dcp.containers.terminals import ContainerTerminals
from levelset_dcp.engines import Engine
from levelset_dcp.engines.selection import NONE, open_runtime
from levelset_dcp.executables import ExecutableHost, executable_logs, executables_controller
from levelset_dcp.ide import IdeEndpoint, IdeRunner, IdeTimes
from levelset_dcp.networks import networks_controller
from levelset_dcp.records import MemoryRecords, Records
from levelset_dcp.replica_sets import replicasets_controller
from levelset_dcp.services import SocketListeners, services_controller
from levelset_dcp.status_logs import StatusLogs
from levelset_dcp.tunnels import SocketRelay, tunnels_controller
from levelset_dcp.volumes import volumes_controller
from levelset_machine import LogRotation, LogStore, Machine, SocketProber, scratch_folder

__all__ = ["KINDS", "Options", "dcp_system", "laptop_system"]

_HEALTH_SECONDS: Final = 1.0
"""How often the cached status of the engine is read until it is healthy."""
log = logging.getLogger(__name__)

KINDS: Final[tuple[type[Object], ...]] = (
    kinds.Executable,
    kinds.ExecutableReplicaSet,
    kinds.Service,
    kinds.Endpoint,
    kinds.Container,
    kinds.ContainerExec,
    kinds.ContainerNetwork,
    kinds.ContainerNetworkConnection,
    kinds.ContainerVolume,
    kinds.ContainerNetworkTunnelProxy,
)
"""All kinds of DCP."""


class Options(Struct, frozen=True, kw_only=True):
    """The options of DCP."""

    folder: Path | None = None
    """The directory of logs and certificates; a temporary one unless given."""
    persistent_logs: Path | None = None
    """The directory of the logs of persistent programs; that of the other logs unless given."""
    preserved_logs: Path | None = None
    """The directory of the other logs, which then stay when their objects are deleted; by default they go with them."""
    log_rotation: LogRotation = field(default_factory=LogRotation)
    """How much of each log is retained."""
    records: Records = field(default_factory=MemoryRecords)
    """The records of workloads that outlive the session."""
    grace: float = 6.0
    """Seconds that a program has to exit after SIGTERM before it is killed."""
    engine: Engine | None = None
    """The container engine; without one, Containers stay RuntimeUnhealthy."""
    shutdown_gate: ShutdownGate = field(default_factory=ShutdownGate)
    """Rejects new objects during the shutdown."""
    runtime: str | None = NONE
    """The engine to open if `engine` is None: one of `RUNTIMES`, or None to detect one."""
    ide_environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """The variables DEBUG_SESSION_* and DCP_IDE_*, which name an IDE that runs Executables of type IDE."""
    server_only: bool = False
    """Whether another process runs the controllers: kinds, validation and logs are served only."""
    hints: tuple[str, ...] = ("kubectl apply -f examples/dcp/", "kubectl get dcp")


def laptop_system() -> System:
    """DCP with the container engine of this machine, if there is one."""
    return dcp_system(Options(runtime=None))


def dcp_system(options: Options | None = None) -> System:
    """DCP for `run`, `open_local` and `levelset up`."""
    options = options or Options()
    return System(name="dcp", kinds=KINDS, around=partial(_open_server if options.server_only else _open, options))


@asynccontextmanager
async def _open_server(options: Options) -> AsyncGenerator[System, None]:
    """What a server without controllers needs."""
    async with AsyncExitStack() as stack:
        engine = options.engine or await stack.enter_async_context(open_runtime(options.runtime))
        logs = StatusLogs(engine)
        yield System(
            name="dcp",
            webhooks=webhooks(options.shutdown_gate),
            logs={kind: logs.source(kind) for kind in (kinds.Executable, kinds.Container, kinds.ContainerExec)},
            setup=logs.connect,
        )


@asynccontextmanager
async def _open(options: Options) -> AsyncGenerator[System, None]:
    listeners = SocketListeners()
    async with AsyncExitStack() as stack:
        folder = options.folder
        if folder is None:
            folder = await stack.enter_async_context(scratch_folder("levelset-dcp-"))
        stack.push_async_callback(listeners.close_all)
        new_logs = partial(LogStore, rotation=options.log_rotation)
        preserved = options.preserved_logs
        logs = await asyncio.to_thread(new_logs, preserved or folder / "logs", preserve=preserved is not None)
        persistent_logs = (
            await asyncio.to_thread(new_logs, options.persistent_logs) if options.persistent_logs is not None else None
        )
        engine = options.engine or await stack.enter_async_context(open_runtime(options.runtime))
        machine = await stack.enter_async_context(Machine(grace=options.grace))
        host = ExecutableHost(
            runner=machine,
            ide=await _open_ide(stack, options.ide_environment),
            prober=SocketProber(machine),
            logs=logs,
            persistent_logs=persistent_logs,
            folder=folder / "programs",
            records=options.records,
            grace=options.grace,
        )
        stack.push_async_callback(host.close)
        containers = ContainerHost(
            engine=engine,
            prober=host.prober,
            logs=logs,
            records=options.records,
            ambient=host.ambient,
            runner=machine,
            terminals=ContainerTerminals(machine, folder=folder / "containers", env=host.ambient),
        )
        stack.push_async_callback(containers.close)
        relay = SocketRelay()
        stack.push_async_callback(relay.close_all)
        if engine is not None:
            tasks = await stack.enter_async_context(Supervisor(name="dcp", grace=0.0))
            containers.orphans_cleaned = asyncio.Event()
            tasks.start("orphan cleanup", _clean_orphans(engine, options.records, containers.orphans_cleaned))
            if engine.name != "memory":  # containers in memory end with this process and need no guard
                containers.session_guard = session_guard(engine.name, containers.creator, host.ambient)
        yield System(
            name="dcp",
            controllers=[
                executables_controller(host),
                services_controller(listeners),
                replicasets_controller(),
                containers_controller(containers),
                networks_controller(containers),
                volumes_controller(containers),
                container_execs_controller(containers),
                tunnels_controller(containers, relay),
            ],
            webhooks=webhooks(options.shutdown_gate),
            logs={
                kinds.Executable: executable_logs(host),
                kinds.Container: container_logs(containers),
                kinds.ContainerExec: exec_logs(containers),
            },
            hints=options.hints,
            find_disabled=partial(_disabled, options, engine),
        )


async def _open_ide(stack: AsyncExitStack, env: Mapping[str, str]) -> IdeRunner | str:
    """The runner of the IDE that the environment names, or why there is none."""
    try:
        endpoint = IdeEndpoint.of_environment(env)
        if endpoint is None:
            return "no IDE: DEBUG_SESSION_PORT and DEBUG_SESSION_TOKEN are not set"
        prefix = env.get("DCP_INSTANCE_ID_PREFIX", "")
        return await stack.enter_async_context(IdeRunner(endpoint, prefix=prefix, times=IdeTimes.of_environment(env)))
    except ConfigError as error:
        log.warning("Executables of type IDE cannot run: %s", error)
        return str(error)


async def _disabled(options: Options, engine: Engine | None) -> dict[str, str]:
    """What is off without a running container engine, unless none is wanted."""
    if engine is None:
        return {} if options.runtime == NONE else {"containers": "install Docker or Podman, start it, and restart"}
    if (await engine.check_status(cached=True)).is_healthy:
        return {}
    return {"containers": f"start {engine.name}"}


async def _clean_orphans(engine: Engine, records: Records, done: asyncio.Event) -> None:
    """Runs the orphan cleanup as soon as the engine is healthy; `done` is set even if it fails."""
    try:
        while not (await engine.check_status(cached=True)).is_healthy:  # it may be started after the session
            await timing.sleep(_HEALTH_SECONDS)
        await clean_orphans(engine, records)
    except LevelsetError:
        log.exception("orphan cleanup failed")
    finally:
        done.set()
