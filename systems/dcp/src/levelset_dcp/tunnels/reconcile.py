"""The controller of ContainerNetworkTunnelProxies: lets containers of a network reach services of this machine."""

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from levelset import (
    Action,
    Context,
    Controller,
    Ref,
    Retry,
    StateMap,
    await_change,
    by_owner,
    owns,
    references,
    remembers,
    requeue,
    source,
)
from levelset.aio import timing
from levelset_dcp.containers.errands import Errands
from levelset_dcp.containers.watching import Watching
from levelset_dcp.containers.world import Containers
from levelset_dcp.endpoints import sync_endpoints
from levelset_dcp.engines.errors import EngineError, EngineNotFound
from levelset_dcp.engines.models import EngineEvent
from levelset_dcp.kinds import (
    ContainerNetwork,
    ContainerNetworkTunnelProxy,
    Endpoint,
    Service,
    TunnelProxyStatus,
)
from levelset_dcp.naming import finalizer
from levelset_dcp.tunnels.errands import AGAIN, TunnelErrands
from levelset_dcp.tunnels.plan import (
    Change,
    TunnelKnown,
    broken,
    endpoints_of,
    known_of,
    moves_of,
    networks_named,
    services_used,
    status_of,
    targets_of,
    waits,
)
from levelset_dcp.tunnels.relay import Relay, SocketRelay

__all__ = ["TunnelKeeper", "tunnels_controller"]

_ENDED: Final = "the side inside of the network has ended"


def tunnels_controller(world: Containers, relay: Relay | None = None) -> Controller[ContainerNetworkTunnelProxy]:
    """The controller that digs tunnels in this world; over real sockets unless another relay is given."""
    return TunnelKeeper(world, relay or SocketRelay()).controller()


class TunnelKeeper:
    """Keeps tunnel proxies; what it knows of them is in `states`."""

    def __init__(self, world: Containers, relay: Relay) -> None:
        self.world = world
        self.states: StateMap[ContainerNetworkTunnelProxy, str, TunnelKnown] = StateMap()
        self._errands: Errands[TunnelKnown] = Errands(self.states, _try_again)
        self._work = TunnelErrands(world, relay)
        self._followed: dict[str, Ref[Any]] = {}
        self._watching = Watching(world, name="tunnels", concerns=self._concerned, look=self._look)

    def controller(self) -> Controller[ContainerNetworkTunnelProxy]:
        """The controller; a change of a Service finds its proxies by the index that `services_used` makes."""
        return Controller(
            ContainerNetworkTunnelProxy,
            self.reconcile,
            owns(Endpoint, metadata_only=False, indexes=[by_owner()]),
            references(Service, services_used),
            references(ContainerNetwork, networks_named),
            remembers(self.states),
            source(self._watching.follow),
            cleanup=self.clean_up,
            finalizer=finalizer("tunnel-proxy-reconciler"),
            name="dcp-tunnels",
        )

    async def reconcile(self, proxy: ContainerNetworkTunnelProxy, ctx: Context) -> Action:
        """Looks at a proxy, and does what is next."""
        self._require_open(proxy)
        known = self._advance(proxy, self._known(proxy), ctx)
        if known.state in ("Running", "Failed"):
            await sync_endpoints(ctx, proxy, endpoints_of(proxy, known))
        await self._show(proxy, known, ctx)
        left = known.again_at - timing.now()
        return requeue(seconds=left) if left > 0 else await_change()

    async def clean_up(self, proxy: ContainerNetworkTunnelProxy, ctx: Context) -> Action | None:
        """Ends both sides, and removes what belongs to it."""
        self._require_open(proxy)
        known = self._known(proxy)
        await sync_endpoints(ctx, proxy, ())
        if self._errands.is_busy(ctx.ref):
            return requeue(seconds=AGAIN)
        if not known.is_removed and self.world.engine is not None:
            self._followed.pop(known.container_id, None)
            if timing.now() >= known.again_at:
                self._errands.start(ctx, known.uid, "end", lambda: self._work.end(proxy, known.container_id))
            return requeue(seconds=AGAIN)
        self._errands.forget(ctx.ref)
        return None

    def _advance(self, proxy: ContainerNetworkTunnelProxy, known: TunnelKnown, ctx: Context) -> TunnelKnown:
        """Begins what is next, unless something is under way or has to wait."""
        if self._errands.is_busy(ctx.ref) or timing.now() < known.again_at:
            return known
        uid, found = known.uid, known.container_id
        if known.state == "Failed":
            if not known.is_removed:
                self._followed.pop(found, None)
                self._errands.start(ctx, uid, "end", lambda: self._work.end(proxy, found))
        elif known.state == "Running":
            moves = moves_of(known, targets_of(proxy.spec.tunnels, ctx.cached))
            if not moves.is_nothing:
                self._errands.start(ctx, uid, "move", lambda: self._work.move(uid, moves))
        else:
            known = self._start(proxy, known, ctx)
            self.states.keep(ctx.ref, known)
        return known

    def _start(self, proxy: ContainerNetworkTunnelProxy, known: TunnelKnown, ctx: Context) -> TunnelKnown:
        name = proxy.spec.container_network_name
        network = ctx.cached(Ref(ContainerNetwork, name))
        if network is None or network.status is None or network.status.state != "Running":
            return replace(known, state="Pending", message=f"network {name} is not running yet")
        network_id = network.status.id
        follow = partial(self._follow, ctx.ref)
        lost = partial(self._lost, ctx.ref, known.uid)
        self._errands.start(ctx, known.uid, "start", lambda: self._work.start(proxy, network_id, follow, lost))
        return replace(known, state="Starting", message="")

    async def _show(self, proxy: ContainerNetworkTunnelProxy, known: TunnelKnown, ctx: Context) -> None:
        before = proxy.status or TunnelProxyStatus()
        status = status_of(proxy, known, self.world.creator.pid or os.getpid(), ctx.now())
        await ctx.set_status(proxy, status)
        if status.state != before.state:
            words = known.message or f"the proxy is {status.state}"
            ctx.record(proxy, status.state or "Pending", words, warning=status.state == "Failed")

    def _known(self, proxy: ContainerNetworkTunnelProxy) -> TunnelKnown:
        known = self.states.borrow(proxy.ref)
        if known is None or known.uid != proxy.metadata.uid:
            known = known_of(proxy)
            self.states.keep(proxy.ref, known)
        return known

    def _follow(self, ref: Ref[Any], container_id: str) -> None:
        self._followed[container_id] = ref

    def _lost(self, ref: Ref[Any], uid: str, words: str) -> None:
        self._errands.tell(ref, uid, broken(words))

    def _concerned(self, event: EngineEvent) -> Iterable[str]:
        if event.kind == "engine":
            return tuple(self._followed)
        return (event.container,) if event.container in self._followed else ()

    async def _look(self, container_id: str) -> None:
        try:
            is_over = (await self.world.ready_engine.inspect_container(container_id)).is_over
        except EngineNotFound:
            is_over = True
        except EngineError:
            return  # the engine tells when it can be asked again
        ref = self._followed.get(container_id)
        known = None if ref is None else self.states.borrow(ref)
        if is_over and ref is not None and known is not None:
            self._errands.tell(ref, known.uid, broken(_ENDED))

    def _require_open(self, proxy: ContainerNetworkTunnelProxy) -> None:
        if not self._watching.is_open:
            raise Retry(f"{proxy.ref}: nobody follows the engine yet", seconds=0.5)


def _try_again(words: str) -> Change:
    return waits(words, timing.now() + AGAIN)
