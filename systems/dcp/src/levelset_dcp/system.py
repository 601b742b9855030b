"""DCP as one system: its kinds, rules and controllers, with the processes, logs and sockets behind them."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from levelset import Object, System
from levelset.aio import Supervisor
from levelset.errors import LevelsetError
from levelset_dcp import kinds
from levelset_dcp.checks import Prohibition, hooks
from levelset_dcp.containers import Containers, container_logs, containers_controller
from levelset_dcp.containers.guarding import session_guard
from levelset_dcp.engines import Engine
from levelset_dcp.execs import container_execs_controller, exec_logs
from levelset_dcp.executables import Executables, executable_logs, executables_controller
from levelset_dcp.harvest import harvest
from levelset_dcp.networks import networks_controller
from levelset_dcp.records import MemoryRecords, Records
from levelset_dcp.replicasets import replicasets_controller
from levelset_dcp.runtimes import NONE, open_runtime
from levelset_dcp.services import SocketListeners, services_controller
from levelset_dcp.tunnels import SocketRelay, tunnels_controller
from levelset_dcp.volumes import volumes_controller
from levelset_machine import LogStore, Machine, SocketProber, scratch_folder

__all__ = ["KINDS", "Options", "dcp_system", "laptop_system"]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How DCP runs."""

    folder: Path | None = None
    """Where logs and certificates are while it runs; a folder of its own unless given."""
    lasting: Path | None = None
    """Where the logs of persistent programs are; with the others unless given."""
    records: Records = field(default_factory=MemoryRecords)
    """What is remembered of programs that outlive the session."""
    grace: float = 6.0
    """Seconds that a program has to end by itself when it is stopped."""
    engine: Engine | None = None
    """Who runs containers; without one, nobody does."""
    prohibition: Prohibition = field(default_factory=Prohibition)
    """Whether new objects are refused."""
    runtime: str | None = NONE
    """Which engine is opened if none is given: one of `RUNTIMES`, or with None the one of this machine, if any."""
    hints: tuple[str, ...] = ("kubectl apply -f examples/dcp/", "kubectl get dcp")


def laptop_system() -> System:
    """DCP with whichever container engine is on this machine."""
    return dcp_system(Options(runtime=None))


def dcp_system(options: Options | None = None) -> System:
    """DCP, as `run`, `open_local` and `levelset up` start it."""
    return System(name="dcp", kinds=KINDS, around=partial(_open, options or Options()))


@asynccontextmanager
async def _open(options: Options) -> AsyncGenerator[System, None]:
    listeners = SocketListeners()
    async with AsyncExitStack() as stack:
        folder = options.folder
        if folder is None:
            folder = await stack.enter_async_context(scratch_folder("levelset-dcp-"))
        stack.push_async_callback(listeners.close_all)
        logs = await asyncio.to_thread(LogStore, folder / "logs")
        lasting = await asyncio.to_thread(LogStore, options.lasting) if options.lasting is not None else None
        engine = options.engine or await stack.enter_async_context(open_runtime(options.runtime))
        machine = await stack.enter_async_context(Machine(grace=options.grace))
        world = Executables(
            runner=machine,
            prober=SocketProber(machine),
            logs=logs,
            lasting=lasting,
            folder=folder / "programs",
            records=options.records,
            grace=options.grace,
        )
        stack.push_async_callback(world.close)
        containers = Containers(
            engine=engine,
            prober=world.prober,
            logs=logs,
            records=options.records,
            ambient=world.ambient,
            runner=machine,
        )
        stack.callback(containers.close)
        relay = SocketRelay()
        stack.push_async_callback(relay.close_all)
        if engine is not None:
            tasks = await stack.enter_async_context(Supervisor(name="dcp", grace=0.0))
            containers.harvested = asyncio.Event()
            tasks.start("harvest", _harvest(engine, options.records, containers.harvested))
            if engine.name != "memory":  # whose containers end with this process
                guard = session_guard(engine.name, containers.creator, world.ambient)
                containers.guard(guard, "containers_guard")
        yield System(
            name="dcp",
            controllers=[
                executables_controller(world),
                services_controller(listeners),
                replicasets_controller(),
                containers_controller(containers),
                networks_controller(containers),
                volumes_controller(containers),
                container_execs_controller(containers),
                tunnels_controller(containers, relay),
            ],
            webhooks=hooks(options.prohibition),
            logs={
                kinds.Executable: executable_logs(world),
                kinds.Container: container_logs(containers),
                kinds.ContainerExec: exec_logs(containers),
            },
            hints=options.hints,
        )


async def _harvest(engine: Engine, records: Records, done: asyncio.Event) -> None:
    """Removes what killed sessions have left; whether or not that can be done, the others go on."""
    try:
        await harvest(engine, records)
    except LevelsetError:
        log.exception("what killed sessions have left cannot be removed")
    finally:
        done.set()
