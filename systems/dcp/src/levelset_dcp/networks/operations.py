"""The background operations of networks: create or adopt, inspect, connect containers, and remove."""

from typing import Final

from levelset import replace
from levelset.aio import timing
from levelset_dcp.containers.host import ContainerHost
from levelset_dcp.engines.errors import (
    CouldNotAllocate,
    EngineAlreadyExists,
    EngineError,
    EngineNotFound,
    EngineTimedOut,
    Incomplete,
    RuntimeNotHealthy,
    most_likely_created_nothing,
)
from levelset_dcp.engines.interface import Engine
from levelset_dcp.engines.models import NetworkInfo, NewNetwork
from levelset_dcp.kinds import ContainerNetwork
from levelset_dcp.names import labels_of, uid_of
from levelset_dcp.networks.state import (
    Change,
    ConnectionChanges,
    ObservedNetwork,
    failed,
    inspected,
    name_of,
    removed_externally,
    retry_later,
)
from levelset_dcp.records.interface import ResourceRecord
from levelset_dcp.workloads.modes import network_policy

__all__ = ["RETRY_DELAY", "NetworkOperations", "lease_of", "remove_network"]

RETRY_DELAY: Final = 5.0

_TRANSIENT: Final = (CouldNotAllocate, EngineTimedOut, Incomplete, RuntimeNotHealthy)


def lease_of(network: ContainerNetwork) -> str:
    """The key of the lease of a network that outlives the session."""
    return f"containernetworks/{name_of(network)}"


class NetworkOperations:
    """Engine operations on networks; each returns a change of the observed state."""

    def __init__(self, host: ContainerHost) -> None:
        self._host = host

    async def create_or_adopt(self, network: ContainerNetwork) -> Change:
        """Adopts or creates the network, as its mode says."""
        try:
            engine = await self._host.healthy_engine()
            return await self._create_or_adopt(network, engine)
        except _TRANSIENT as error:
            return retry_later(str(error), timing.now() + RETRY_DELAY, "Pending")
        except EngineError as error:
            return failed(str(error))

    async def inspect(self, network_id: str, wanted: frozenset[str] = frozenset()) -> Change | None:
        """Inspects the network, to which the `wanted` containers should be attached; None if the engine fails."""
        try:
            return inspected(await self._host.ready_engine.inspect_network(network_id), wanted)
        except EngineNotFound:
            return removed_externally("the network was removed by another client")
        except EngineError:
            return None  # an `engine connected` event follows when the engine is back

    async def resume(self, network: ContainerNetwork, network_id: str) -> Change:
        """Resumes a network after a restart of the controller."""
        if network_policy(network.spec).adopts and not await self._host.records.lease(lease_of(network)):
            return retry_later(
                f"another session holds the lease of network {name_of(network)}", timing.now() + RETRY_DELAY
            )
        found = await self.inspect(network_id)
        return retry_later("", timing.now() + RETRY_DELAY) if found is None else found

    async def change_connections(self, network_id: str, changes: ConnectionChanges, wanted: frozenset[str]) -> Change:
        """Connects and disconnects containers, continuing after errors, and inspects the result."""
        engine, errors = self._host.ready_engine, list[str]()
        for one, aliases in changes.connect.items():
            try:
                await engine.connect(network_id, one, aliases=aliases)
            except EngineAlreadyExists:
                continue
            except EngineError as error:
                errors.append(str(error))
        for one in sorted(changes.disconnect):
            try:
                await engine.disconnect(network_id, one, force=True)
            except EngineNotFound:
                continue
            except EngineError as error:
                errors.append(str(error))
        inspection = await self.inspect(network_id, wanted)
        if inspection is not None and not errors:
            return inspection
        message, retry_at = "; ".join(errors), timing.now() + RETRY_DELAY
        return lambda observed: retry_later(message, retry_at)((inspection and inspection(observed)) or observed)

    async def remove(self, network: ContainerNetwork, network_id: str) -> Change:
        """Disconnects all containers and removes the network; succeeds if it does not exist."""
        try:
            engine = await self._host.healthy_engine()
            await self._remove(network, network_id, engine)
        except EngineError as error:
            if not most_likely_created_nothing(error, network_id):
                return retry_later(str(error), timing.now() + RETRY_DELAY)
        return _removed

    async def _create_or_adopt(self, network: ContainerNetwork, engine: Engine) -> Change:
        policy, name = network_policy(network.spec), name_of(network)
        if policy.adopts:
            if not await self._host.records.lease(lease_of(network)):
                return retry_later(
                    f"another session holds the lease of network {name}", timing.now() + RETRY_DELAY, "Pending"
                )
            if self._host.orphans_cleaned is not None:
                await self._host.orphans_cleaned.wait()
        found = await _find(engine, name)
        if found is not None:
            if not policy.adopts and uid_of(found.labels) != network.metadata.uid:
                return failed(f"there is a network {name!r} already; use mode existing or persistent to share it")
            return await self._register(network, found)
        if not policy.creates:
            return retry_later(f"there is no network {name!r} yet", timing.now() + RETRY_DELAY, "NotFound")
        labels = labels_of(network, self._host.creator, is_persistent=policy.adopts)
        try:
            made = await engine.create_network(NewNetwork(name=name, ipv6=network.spec.ipv6, labels=labels))
        except EngineAlreadyExists as error:
            # Created concurrently: adopted or rejected at the next attempt.
            return retry_later(str(error), timing.now(), "Pending")
        return await self._register(network, made)

    async def _register(self, network: ContainerNetwork, info: NetworkInfo) -> Change:
        policy = network_policy(network.spec)
        if policy.creates and policy.adopts:
            await self._host.records.write_resource(ResourceRecord(kind="network", name=info.name, id=info.id))
        return inspected(info)

    async def _remove(self, network: ContainerNetwork, network_id: str, engine: Engine) -> None:
        found = await _find(engine, network_id or name_of(network))
        if found is None:
            return
        policy = network_policy(network.spec)
        if not network_id and not policy.adopts and uid_of(found.labels) != network.metadata.uid:
            return  # a foreign network of the same name
        await remove_network(engine, found)
        if policy.adopts:
            await self._host.records.remove_resource("network", found.name)


async def remove_network(engine: Engine, info: NetworkInfo) -> None:
    """Disconnects all containers from a network, and removes it."""
    for one in info.container_ids:
        try:
            await engine.disconnect(info.id, one, force=True)
        except EngineNotFound:
            continue
    try:
        await engine.remove_network(info.id)
    except EngineNotFound:
        return


async def _find(engine: Engine, name: str) -> NetworkInfo | None:
    try:
        return await engine.inspect_network(name)
    except EngineNotFound:
        return None


def _removed(observed: ObservedNetwork) -> ObservedNetwork:
    return replace(observed, is_removed=True, message="")
