"""The controller of ContainerNetworks: creates or adopts networks, and connects containers to them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from levelset import (
    Action,
    Context,
    Controller,
    Index,
    Ref,
    StateMap,
    await_change,
    remembers,
    replace,
    requeue,
    source,
    watches,
)
from levelset.aio import timing
from levelset_dcp.containers.background_tasks import BackgroundTasks
from levelset_dcp.containers.engine_watcher import EngineWatcher
from levelset_dcp.containers.host import ContainerHost
from levelset_dcp.engines.models import EngineEvent
from levelset_dcp.kinds import ContainerNetwork, ContainerNetworkConnection
from levelset_dcp.names import finalizer
from levelset_dcp.networks.operations import RETRY_DELAY, NetworkOperations, lease_of
from levelset_dcp.networks.state import (
    Change,
    ObservedNetwork,
    Step,
    claimed,
    connection_changes,
    name_of,
    observed_from_status,
    plan,
    retry_later,
    status_of,
)
from levelset_dcp.workloads.modes import network_policy
from levelset_dcp.workloads.workload_status import write_state

__all__ = ["BY_NETWORK", "NetworkReconciler", "network_name", "networks_controller"]

_LEAST: Final = 0.5


def network_name(connection: ContainerNetworkConnection) -> str:
    """The name of the network of a connection."""
    return connection.spec.container_network_name


BY_NETWORK: Index[Any] = Index(ContainerNetworkConnection, network_name)


def networks_controller(host: ContainerHost) -> Controller[ContainerNetwork]:
    """The controller of ContainerNetworks."""
    return NetworkReconciler(host).controller()


class NetworkReconciler:
    """Reconciles networks; their observed state is in `states`."""

    def __init__(self, host: ContainerHost) -> None:
        self.host = host
        self.states: StateMap[ContainerNetwork, str, ObservedNetwork] = StateMap()
        self._background: BackgroundTasks[ObservedNetwork] = BackgroundTasks(self.states, _retry)
        self._operations = NetworkOperations(host)
        self._watcher = EngineWatcher(host, name="networks", affected=self._affected, inspect=self._inspect)

    def controller(self) -> Controller[ContainerNetwork]:
        """The controller with its watches and sources."""
        return Controller(
            ContainerNetwork,
            self.reconcile,
            watches(ContainerNetworkConnection, to=_network_of, indexes=[BY_NETWORK]),
            remembers(self.states),
            source(self._watcher.open_source),
            cleanup=self.clean_up,
            finalizer=finalizer("network-reconciler"),
            name="dcp-networks",
        )

    async def reconcile(self, network: ContainerNetwork, ctx: Context) -> Action:
        """Starts the next operation of a network, and writes its status."""
        self._watcher.require_open(network.ref)
        wanted = await self._wanted(ctx)
        observed = claimed(self._observed(network), wanted)
        observed = self._act(plan(observed, wanted, timing.now()), network, observed, wanted, ctx)
        await self._write_status(network, observed, ctx)
        is_waiting = observed.retry_at > 0.0 or observed.info is None
        return _requeue_later(observed) if is_waiting and not observed.is_final else await_change()

    async def clean_up(self, network: ContainerNetwork, ctx: Context) -> Action | None:
        """Removes the network, unless its mode keeps it."""
        self._watcher.require_open(network.ref)
        observed = self._observed(network)
        if self._background.is_busy(ctx.ref):
            return requeue(seconds=RETRY_DELAY)
        policy = network_policy(network.spec)
        is_there = observed.id or (policy.creates and not policy.adopts) or observed.state == "Pending"
        if policy.removes and not observed.is_removed and is_there and self.host.engine is not None:
            if timing.now() >= observed.retry_at:
                self._background.start(
                    ctx, observed.uid, "remove network", lambda: self._operations.remove(network, observed.id)
                )
            await self._write_status(network, observed, ctx)
            return _requeue_later(observed)
        if policy.adopts:
            await self.host.records.release(lease_of(network))
        self._background.forget(ctx.ref)
        return None

    def _act(
        self,
        step: Step,
        network: ContainerNetwork,
        observed: ObservedNetwork,
        wanted: Mapping[str, tuple[str, ...]],
        ctx: Context,
    ) -> ObservedNetwork:
        """Starts the background task of a step, and returns and stores the new observed state."""
        uid, found, operations = observed.uid, observed.id, self._operations
        if step == "clear_message":
            observed = replace(observed, message="", retry_at=0.0)
        if observed != self.states.get(ctx.ref):
            self.states.put(ctx.ref, observed)
        match step:
            case "create":
                self._background.start(ctx, uid, "create network", lambda: operations.create_or_adopt(network))
            case "resume":
                self._background.start(ctx, uid, "resume", lambda: operations.resume(network, found))
            case "change_connections":
                changes, ids = connection_changes(observed, wanted), frozenset(wanted)
                self._background.start(
                    ctx, uid, "change connections", lambda: operations.change_connections(found, changes, ids)
                )
            case _:
                pass
        return observed

    async def _wanted(self, ctx: Context) -> Mapping[str, tuple[str, ...]]:
        """The IDs of the containers to attach, with their aliases."""
        found = await ctx.list(ContainerNetworkConnection, index=(BY_NETWORK, ctx.ref.name))
        return {one.spec.container_id: one.spec.aliases for one in found if not one.metadata.deletion_timestamp}

    async def _write_status(self, network: ContainerNetwork, observed: ObservedNetwork, ctx: Context) -> None:
        status = status_of(network, observed, ctx.now())
        message = observed.message or f"network {name_of(network)} is {status.state}"
        await write_state(ctx, network, status, message, is_warning=observed.is_final)

    def _observed(self, network: ContainerNetwork) -> ObservedNetwork:
        return self._background.observed(network, lambda: observed_from_status(network))

    def _affected(self, event: EngineEvent) -> Iterable[str]:
        """The IDs of the networks that an event is about; all of them if events may have been missed."""
        running = [observed for _, observed in self.states.items() if observed.id]
        if event.kind == "engine":
            for ref, observed in self.states.items():
                if observed.state == "Pending":
                    self._background.defer(ref, observed.uid, retry_later(observed.message, 0.0))
            return [one.id for one in running]
        if event.kind == "network":
            return [one.id for one in running if one.id == event.id]
        return [one.id for one in running if event.action == "destroy" and event.container in one.members]

    async def _inspect(self, network_id: str) -> None:
        change = await self._operations.inspect(network_id)
        if change is None:
            return
        for ref, observed in self.states.items():
            # With a deferred change pending, the comparison below would be against stale state.
            if observed.id == network_id and (
                self.states.has_deferred(ref) or change(observed) not in (None, observed)
            ):
                self._background.defer(ref, observed.uid, change)


def _network_of(connection: ContainerNetworkConnection) -> Iterator[Ref[ContainerNetwork]]:
    yield Ref(ContainerNetwork, connection.spec.container_network_name)


def _retry(message: str) -> Change:
    return retry_later(message, timing.now() + RETRY_DELAY)


def _requeue_later(observed: ObservedNetwork) -> Action:
    left = observed.retry_at - timing.now()
    return requeue(seconds=max(_LEAST, left) if left > 0 else RETRY_DELAY)
