"""The controller of ContainerNetworkTunnelProxies: runs client proxies, and opens and closes tunnels."""

import os
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from levelset import (
    Action,
    Context,
    Controller,
    Ref,
    StateMap,
    await_change,
    owns,
    references,
    remembers,
    replace,
    requeue,
    source,
)
from levelset.aio import timing
from levelset.runtime.cache import by_owner
from levelset_dcp.containers.background_tasks import BackgroundTasks
from levelset_dcp.containers.engine_watcher import EngineWatcher
from levelset_dcp.containers.host import ContainerHost
from levelset_dcp.engines.errors import EngineError, EngineNotFound
from levelset_dcp.engines.models import EngineEvent
from levelset_dcp.kinds import ContainerNetwork, ContainerNetworkTunnelProxy, Endpoint, Service
from levelset_dcp.names import finalizer
from levelset_dcp.tunnels.operations import RETRY_DELAY, TunnelOperations
from levelset_dcp.tunnels.relay import Relay, SocketRelay
from levelset_dcp.tunnels.state import (
    Change,
    ObservedTunnelProxy,
    Step,
    TunnelChanges,
    endpoints_of,
    failed,
    observed_from_status,
    plan,
    referenced_networks,
    referenced_services,
    retry_later,
    status_of,
    targets_of,
    tunnel_changes,
)
from levelset_dcp.workloads.service_producers import sync_endpoints
from levelset_dcp.workloads.workload_status import write_state

__all__ = ["TunnelProxyReconciler", "tunnels_controller"]

_ENDED: Final = "the client proxy has exited"


def tunnels_controller(host: ContainerHost, relay: Relay | None = None) -> Controller[ContainerNetworkTunnelProxy]:
    """The controller of tunnel proxies; it uses real sockets unless another relay is given."""
    return TunnelProxyReconciler(host, relay or SocketRelay()).controller()


class TunnelProxyReconciler:
    """Reconciles tunnel proxies; their observed state is in `states`."""

    def __init__(self, host: ContainerHost, relay: Relay) -> None:
        self.host = host
        self.states: StateMap[ContainerNetworkTunnelProxy, str, ObservedTunnelProxy] = StateMap()
        self._background: BackgroundTasks[ObservedTunnelProxy] = BackgroundTasks(self.states, _retry)
        self._operations = TunnelOperations(host, relay)
        self._followed: dict[str, Ref[Any]] = {}
        self._watcher = EngineWatcher(host, name="tunnels", affected=self._affected, inspect=self._inspect)

    def controller(self) -> Controller[ContainerNetworkTunnelProxy]:
        """The controller with its watches and sources."""
        return Controller(
            ContainerNetworkTunnelProxy,
            self.reconcile,
            owns(Endpoint, metadata_only=False, indexes=[by_owner()]),
            references(Service, referenced_services),
            references(ContainerNetwork, referenced_networks),
            remembers(self.states),
            source(self._watcher.open_source),
            cleanup=self.clean_up,
            finalizer=finalizer("tunnel-proxy-reconciler"),
            name="dcp-tunnels",
        )

    async def reconcile(self, proxy: ContainerNetworkTunnelProxy, ctx: Context) -> Action:
        """Starts the next operation of a proxy, and writes its Endpoints and its status."""
        self._watcher.require_open(proxy.ref)
        observed = self._observed(proxy)
        if not self._background.is_busy(ctx.ref) and timing.now() >= observed.retry_at:
            changes = tunnel_changes(observed, targets_of(proxy.spec.tunnels, ctx.cached))
            observed = self._act(plan(observed, changes), proxy, observed, changes, ctx)
        if observed.state in ("Running", "Failed"):
            await sync_endpoints(ctx, proxy, endpoints_of(proxy, observed))
        await self._write_status(proxy, observed, ctx)
        left = observed.retry_at - timing.now()
        return requeue(seconds=left) if left > 0 else await_change()

    async def clean_up(self, proxy: ContainerNetworkTunnelProxy, ctx: Context) -> Action | None:
        """Shuts down the relay and the client proxy, and removes the Endpoints."""
        self._watcher.require_open(proxy.ref)
        observed = self._observed(proxy)
        await sync_endpoints(ctx, proxy, ())
        if self._background.is_busy(ctx.ref):
            return requeue(seconds=RETRY_DELAY)
        if not observed.is_removed and self.host.engine is not None:
            self._followed.pop(observed.container_id, None)
            if timing.now() >= observed.retry_at:
                self._remove(proxy, observed, ctx)
            return requeue(seconds=RETRY_DELAY)
        self._background.forget(ctx.ref)
        return None

    def _act(
        self,
        step: Step,
        proxy: ContainerNetworkTunnelProxy,
        observed: ObservedTunnelProxy,
        changes: TunnelChanges,
        ctx: Context,
    ) -> ObservedTunnelProxy:
        """Starts the background task of a step, and returns the new observed state."""
        uid = observed.uid
        match step:
            case "remove":
                self._remove(proxy, observed, ctx)
            case "change_tunnels":
                self._background.start(
                    ctx, uid, "change tunnels", lambda: self._operations.change_tunnels(uid, changes)
                )
            case "start":
                observed = self._start(proxy, observed, ctx)
                self.states.put(ctx.ref, observed)
            case _:
                pass
        return observed

    def _remove(self, proxy: ContainerNetworkTunnelProxy, observed: ObservedTunnelProxy, ctx: Context) -> None:
        found = observed.container_id
        self._followed.pop(found, None)
        self._background.start(ctx, observed.uid, "remove", lambda: self._operations.remove(proxy, found))

    def _start(
        self, proxy: ContainerNetworkTunnelProxy, observed: ObservedTunnelProxy, ctx: Context
    ) -> ObservedTunnelProxy:
        name = proxy.spec.container_network_name
        network = ctx.cached(Ref(ContainerNetwork, name))
        if network is None or network.status is None or network.status.state != "Running":
            return replace(observed, state="Pending", message=f"network {name} is not running yet")
        network_id = network.status.id
        follow = partial(self._follow, ctx.ref)
        lost = partial(self._lost, ctx.ref, observed.uid)
        self._background.start(
            ctx, observed.uid, "start", lambda: self._operations.start(proxy, network_id, follow, lost)
        )
        return replace(observed, state="Starting", message="")

    async def _write_status(
        self, proxy: ContainerNetworkTunnelProxy, observed: ObservedTunnelProxy, ctx: Context
    ) -> None:
        status = status_of(proxy, observed, self.host.creator.pid or os.getpid(), ctx.now())
        message = observed.message or f"the proxy is {status.state}"
        await write_state(ctx, proxy, status, message, is_warning=status.state == "Failed")

    def _observed(self, proxy: ContainerNetworkTunnelProxy) -> ObservedTunnelProxy:
        return self._background.observed(proxy, lambda: observed_from_status(proxy))

    def _follow(self, ref: Ref[Any], container_id: str) -> None:
        self._followed[container_id] = ref

    def _lost(self, ref: Ref[Any], uid: str, message: str) -> None:
        self._background.defer(ref, uid, failed(message))

    def _affected(self, event: EngineEvent) -> Iterable[str]:
        if event.kind == "engine":
            return tuple(self._followed)
        return (event.container,) if event.container in self._followed else ()

    async def _inspect(self, container_id: str) -> None:
        try:
            is_over = (await self.host.ready_engine.inspect_container(container_id)).is_over
        except EngineNotFound:
            is_over = True
        except EngineError:
            return  # an `engine connected` event follows when the engine is back
        ref = self._followed.get(container_id)
        observed = None if ref is None else self.states.get(ref)
        if is_over and ref is not None and observed is not None:
            self._background.defer(ref, observed.uid, failed(_ENDED))


def _retry(message: str) -> Change:
    return retry_later(message, timing.now() + RETRY_DELAY)
