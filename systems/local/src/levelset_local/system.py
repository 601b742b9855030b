"""The local system: opens processes, logs, addresses and proxies, runs all controllers, and closes everything again."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from levelset import Controller, Manager, System
from levelset.apiserver import LogRequest
from levelset.kinds.core_v1 import Pod
from levelset_local.autoscalers import autoscalers_controller
from levelset_local.cronjobs import cronjobs_controller
from levelset_local.daemonsets import daemonsets_controller
from levelset_local.deployments import deployments_controller
from levelset_local.disruption_budgets import disruption_budgets_controller
from levelset_local.endpoints import ENDPOINTS_WARNING, endpoint_slices_controller, endpoints_controller
from levelset_local.jobs import jobs_controller
from levelset_local.metrics import MetricsSources, NodeMetrics, PodMetrics, ProcessMeter
from levelset_local.node import (
    Images,
    Node,
    PodReconciler,
    RestartBackoff,
    check_namespaces,
    inherited_environment,
    node_controller,
    pod_logs,
    pod_streams,
)
from levelset_local.persistent_volumes import claims_controller, volumes_controller
from levelset_local.replicasets import replicasets_controller, replication_controllers_controller
from levelset_local.services import Proxies, services_controller
from levelset_local.services.resolver import RESOLVER_VARIABLE, Resolver
from levelset_local.statefulsets import statefulsets_controller
from levelset_local.unsupported_kinds import unsupported_kind_webhooks
from levelset_machine import LogRotation, LogStore, Machine, SocketProber, claim_block, scratch_folder

__all__ = ["DataPlane", "Options", "local_system"]


class Options(Struct, frozen=True, kw_only=True):
    """The options of the local system."""

    images: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """The program to run for an image, by a glob of its name; installed packages may add more."""
    folder: Path | None = None
    """The folder for volumes, logs and records of Pods; None for a temporary one that is removed with the manager."""
    restart_backoff: RestartBackoff = field(default_factory=RestartBackoff)
    """The back-off between restarts of a container."""
    log_rotation: LogRotation = field(default_factory=LogRotation)
    """How much of the log of a container is retained."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Additional variables for every container."""
    namespaces: bool = False
    """Whether containers find volumes at their mount paths and the Pod's name as the host name, by Linux namespaces."""
    all_addresses: bool = False
    """Whether programs listen on all addresses, and not on `$POD_IP`: a port is then that of one program only, and a
    Service with the same port as its Pods is not proxied, as its cluster IP is an address of the program, too."""


def local_system(options: Options | None = None) -> System:
    """Runs Deployments, Jobs and Pods as processes of this machine, and Services as ports on loopback addresses."""
    return System(name="local", around=partial(_open, options or Options()), needs_own_server=True)


class DataPlane:
    """The controllers of workloads, Pods, volumes, EndpointSlices and Services for one node.

    Without `proxies` the addresses of Services are not listened on; `all_addresses` is that of `Options`. The caller
    opens the node's runner and the proxies, and closes them after the controllers have stopped.
    """

    def __init__(self, node: Node, proxies: Proxies | None = None, *, all_addresses: bool = False) -> None:
        self.node = node
        self.proxies = proxies
        self._all_addresses = all_addresses
        self._logs = pod_logs(node)
        self._pods = PodReconciler(node)
        self._meter = ProcessMeter(self._pods.processes)
        self.pod_streams = pod_streams(node, self._pods.find_run)
        self.metrics = MetricsSources(self._meter, node.name)

    @property
    def controllers(self) -> Sequence[Controller[Any]]:
        """All controllers, ready to be run."""
        made: list[Controller[Any]] = [
            deployments_controller(),
            replicasets_controller(),
            replication_controllers_controller(),
            statefulsets_controller(),
            daemonsets_controller(),
            jobs_controller(),
            cronjobs_controller(),
            disruption_budgets_controller(),
            autoscalers_controller(self._meter.cores_by_pod),
            endpoint_slices_controller(),
            endpoints_controller(),
            node_controller(self.node),
            self._pods.controller(),
            claims_controller(self.node.folder),
            volumes_controller(self.node.folder),
        ]
        if self.proxies is None:
            return made
        return [*made, services_controller(self.proxies, all_addresses=self._all_addresses)]

    async def pod_logs(self, request: LogRequest) -> AsyncIterator[bytes]:
        """The log of a Pod's container, for the server's `log` subresource."""
        return await self._logs(request)


@asynccontextmanager
async def _open(options: Options) -> AsyncGenerator[System, None]:
    resolver = Resolver()
    if options.namespaces:
        await asyncio.to_thread(check_namespaces)
    async with _folder(options) as folder:
        logs = await asyncio.to_thread(LogStore, folder / "logs", rotation=options.log_rotation)
        images = await asyncio.to_thread(Images, options.images)
        with claim_block() as block:
            async with Machine() as machine, Proxies() as proxies, resolver.server:
                environment = inherited_environment(os.environ)
                node = Node(
                    runner=machine,
                    prober=SocketProber(machine, redirects_succeed=True),
                    logs=logs,
                    images=images,
                    addresses=block.pods,
                    folder=folder,
                    restart_backoff=options.restart_backoff,
                    namespaces=options.namespaces,
                    environment={**environment, RESOLVER_VARIABLE: resolver.url, **options.environment},
                )
                plane = DataPlane(node, proxies, all_addresses=options.all_addresses)
                yield System(
                    name="local",
                    controllers=plane.controllers,
                    webhooks=unsupported_kind_webhooks(),
                    logs={Pod: plane.pod_logs},
                    streams={Pod: plane.pod_streams},
                    computed={PodMetrics: plane.metrics.pods, NodeMetrics: plane.metrics.nodes},
                    service_addresses=block.services,
                    setup=partial(_connect, resolver, plane.metrics),
                    hints=["kubectl get pods -w"],
                    expected_warnings=[ENDPOINTS_WARNING],
                    needs_own_server=True,
                )


def _folder(options: Options) -> AbstractAsyncContextManager[Path]:
    """The configured folder, or a temporary one that is removed with the manager."""
    return scratch_folder("levelset-local-") if options.folder is None else nullcontext(options.folder)


def _connect(resolver: Resolver, metrics: MetricsSources, manager: Manager) -> None:
    """Gives the resolver and the metrics the manager's client when the manager starts."""

    async def connect() -> None:
        resolver.client = manager.client
        await metrics.open(manager.client)

    manager.on_start(connect)
