"""The controller of ContainerNetworks: makes or finds them, and has the containers in them that want to be."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from levelset import (
    Action,
    Context,
    Controller,
    Index,
    Ref,
    Retry,
    StateMap,
    await_change,
    remembers,
    requeue,
    source,
    watches,
)
from levelset.aio import timing
from levelset_dcp.containers.errands import Errands
from levelset_dcp.containers.watching import Watching
from levelset_dcp.containers.world import Containers
from levelset_dcp.engines.models import EngineEvent
from levelset_dcp.kinds import ContainerNetwork, ContainerNetworkConnection, ContainerNetworkStatus
from levelset_dcp.naming import finalizer
from levelset_dcp.networks.errands import AGAIN, NetworkErrands, lease_of
from levelset_dcp.networks.plan import (
    Change,
    NetworkKnown,
    habits_of,
    known_of,
    moves_of,
    name_of,
    status_of,
    waits,
)

__all__ = ["BY_NETWORK", "NetworkKeeper", "network_named", "networks_controller"]

_LEAST: Final = 0.5


def network_named(connection: ContainerNetworkConnection) -> str:
    """The network that a container wants to be in."""
    return connection.spec.container_network_name


BY_NETWORK: Index[Any] = Index(ContainerNetworkConnection, network_named)


def networks_controller(world: Containers) -> Controller[ContainerNetwork]:
    """The controller that keeps networks in this world."""
    return NetworkKeeper(world).controller()


class NetworkKeeper:
    """Keeps networks; what it knows of them is in `states`, by the object and by the network's ID."""

    def __init__(self, world: Containers) -> None:
        self.world = world
        self.states: StateMap[ContainerNetwork, str, NetworkKnown] = StateMap()
        self._errands: Errands[NetworkKnown] = Errands(self.states, _try_again)
        self._engine = NetworkErrands(world)
        self._watching = Watching(world, name="networks", concerns=self._concerned, look=self._look)

    def controller(self) -> Controller[ContainerNetwork]:
        """The controller, with everything it follows."""
        return Controller(
            ContainerNetwork,
            self.reconcile,
            watches(ContainerNetworkConnection, to=_network_of, indexes=[BY_NETWORK]),
            remembers(self.states),
            source(self._watching.follow),
            cleanup=self.clean_up,
            finalizer=finalizer("network-reconciler"),
            name="dcp-networks",
        )

    async def reconcile(self, network: ContainerNetwork, ctx: Context) -> Action:
        """Looks at a network, and does what is next."""
        self._require_open(network)
        known = self._known(network)
        is_due = timing.now() >= known.again_at
        wanted = await self._wanted(ctx)
        if known.state in ("Pending", "NotFound"):
            if is_due:
                self._errands.start(ctx, known.uid, "make network", lambda: self._engine.make(network))
        elif known.state == "Running" and known.info is None:
            if is_due:
                self._errands.start(ctx, known.uid, "resume", lambda: self._engine.resume(network, known.id))
        elif known.state == "Running":
            known = self._claim(ctx.ref, known, wanted)
            moves = moves_of(known, wanted)
            if moves.is_nothing and known.message:
                known = replace(known, message="", again_at=0.0)  # whom it was about wants nothing any more
                self.states.keep(ctx.ref, known)
            if not moves.is_nothing and is_due:
                there = frozenset(wanted)
                self._errands.start(ctx, known.uid, "move", lambda: self._engine.move(known.id, moves, there))
        await self._show(network, known, ctx)
        is_waiting = known.again_at > 0.0 or known.info is None
        return _later(known) if is_waiting and not known.is_final else await_change()

    async def clean_up(self, network: ContainerNetwork, ctx: Context) -> Action | None:
        """Removes the network, unless it is to stay."""
        self._require_open(network)
        known = self._known(network)
        if self._errands.is_busy(ctx.ref):
            return requeue(seconds=AGAIN)
        habits = habits_of(network.spec)
        is_there = known.id or (habits.makes and not habits.finds) or known.state == "Pending"
        if habits.ends and not known.is_gone and is_there and self.world.engine is not None:
            if timing.now() >= known.again_at:
                self._errands.start(ctx, known.uid, "remove network", lambda: self._engine.remove(network, known.id))
            await self._show(network, known, ctx)
            return _later(known)
        if habits.finds:
            await self.world.records.release(lease_of(network))
        self._errands.forget(ctx.ref)
        return None

    def _claim(
        self, ref: Ref[ContainerNetwork], known: NetworkKnown, wanted: Mapping[str, tuple[str, ...]]
    ) -> NetworkKnown:
        """Remembers that whoever is in it and wants to be has asked for it: later it may be disconnected."""
        ours = known.connected | (wanted.keys() & known.members)
        if ours != known.connected:
            known = replace(known, connected=ours)
            self.states.keep(ref, known)
        return known

    async def _wanted(self, ctx: Context) -> Mapping[str, tuple[str, ...]]:
        """The containers that want to be in the network, and under which names."""
        found = await ctx.list(ContainerNetworkConnection, index=(BY_NETWORK, ctx.ref.name))
        return {one.spec.container_id: one.spec.aliases for one in found if not one.metadata.deletion_timestamp}

    async def _show(self, network: ContainerNetwork, known: NetworkKnown, ctx: Context) -> None:
        before = network.status or ContainerNetworkStatus()
        status = status_of(network, known, ctx.now())
        await ctx.set_status(network, status)
        if status.state != before.state:
            words = known.message or f"network {name_of(network)} is {status.state}"
            ctx.record(network, status.state or "Pending", words, warning=known.is_final)

    def _known(self, network: ContainerNetwork) -> NetworkKnown:
        known = self.states.borrow(network.ref)
        if known is None or known.uid != network.metadata.uid:
            known = known_of(network)
            self.states.keep(network.ref, known, key=None)
        return known

    def _concerned(self, event: EngineEvent) -> Iterable[str]:
        """The IDs of the networks that an event is about; all of them if some may have been missed."""
        running = [known for _, known in self.states.items() if known.id]
        if event.kind == "engine":
            for ref, known in self.states.items():
                if known.state == "Pending":
                    self._errands.tell(ref, known.uid, waits(known.message, 0.0))
            return [one.id for one in running]
        if event.kind == "network":
            return [one.id for one in running if one.id == event.id]
        return [one.id for one in running if event.action == "destroy" and event.container in one.members]

    async def _look(self, network_id: str) -> None:
        change = await self._engine.inspect(network_id)
        if change is None:
            return
        for ref, known in self.states.items():
            # While an errand is under way, whatever it brings is newer.
            if known.id == network_id and (self.states.has_deferred(ref) or change(known) not in (None, known)):
                self._errands.tell(ref, known.uid, change)

    def _require_open(self, network: ContainerNetwork) -> None:
        if not self._watching.is_open:
            raise Retry(f"{network.ref}: nobody follows the engine yet", seconds=0.5)


def _network_of(connection: ContainerNetworkConnection) -> Iterator[Ref[ContainerNetwork]]:
    yield Ref(ContainerNetwork, connection.spec.container_network_name)


def _try_again(words: str) -> Change:
    return waits(words, timing.now() + AGAIN)


def _later(known: NetworkKnown) -> Action:
    left = known.again_at - timing.now()
    return requeue(seconds=max(_LEAST, left) if left > 0 else AGAIN)
