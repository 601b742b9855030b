"""The data plane as one system: processes, logs, addresses and proxies are opened, and all of them closed again."""

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from levelset import Manager, System
from levelset.kinds.core_v1 import Pod
from levelset_local.node import Images, Node, Restarts, inherited_environment
from levelset_local.plane import Plane
from levelset_local.resolver import VARIABLE, Resolver
from levelset_local.services import Proxies
from levelset_local.uncarried import uncarried_hooks
from levelset_machine import LogStore, Machine, SocketProber, claim_block, scratch_folder

__all__ = ["Options", "local_system"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the data plane runs."""

    images: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Which program stands behind an image, by a glob of its name; installed packages may add more."""
    folder: Path | None = None
    """Where the files of Pods are: their volumes and logs. Gone with the manager unless it is given."""
    restarts: Restarts = field(default_factory=Restarts)
    """How long a container that ends waits until it is started again."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further variables that every container gets."""


def local_system(options: Options | None = None) -> System:
    """Deployments, Jobs and Pods as processes of this machine, Services as ports on loopback addresses."""
    return System(name="local", around=partial(_open, options or Options()), needs_own_server=True)


@asynccontextmanager
async def _open(options: Options) -> AsyncGenerator[System, None]:
    resolver = Resolver()
    async with _folder(options) as folder:
        logs = await asyncio.to_thread(LogStore, folder / "logs")
        images = await asyncio.to_thread(Images, options.images)
        with claim_block() as block:
            async with Machine() as machine, Proxies() as proxies, resolver.server:
                node = Node(
                    runner=machine,
                    prober=SocketProber(machine, redirects_succeed=True),
                    logs=logs,
                    images=images,
                    addresses=block.pods,
                    folder=folder,
                    restarts=options.restarts,
                    environment={**inherited_environment(os.environ), VARIABLE: resolver.url, **options.environment},
                )
                plane = Plane(node, proxies)
                yield System(
                    name="local",
                    controllers=plane.controllers,
                    webhooks=uncarried_hooks(),
                    logs={Pod: plane.pod_logs},
                    service_addresses=block.services,
                    setup=partial(_introduce, resolver),
                    hints=["kubectl get pods -w"],
                    needs_own_server=True,
                )


def _folder(options: Options) -> AbstractAsyncContextManager[Path]:
    """The folder that is wished for, or one that goes with the manager."""
    return scratch_folder("levelset-local-") if options.folder is None else nullcontext(options.folder)


def _introduce(resolver: Resolver, manager: Manager) -> None:
    """The resolver asks through the manager's client, from its start on."""

    async def introduce() -> None:
        resolver.client = manager.client

    manager.on_start(introduce)
