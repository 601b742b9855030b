"""What is asked of the engine for a network: to make it, to find it, to connect containers, and to remove it."""

from dataclasses import replace
from typing import Final

from levelset.aio import timing
from levelset_dcp.containers.labels import labels_of, uid_of
from levelset_dcp.containers.world import Containers
from levelset_dcp.engines.errors import (
    CouldNotAllocate,
    EngineAlreadyExists,
    EngineError,
    EngineNotFound,
    EngineTimedOut,
    Incomplete,
    RuntimeNotHealthy,
)
from levelset_dcp.engines.interface import Engine
from levelset_dcp.engines.models import NetworkInfo, NewNetwork
from levelset_dcp.kinds import ContainerNetwork
from levelset_dcp.networks.plan import (
    Change,
    Moves,
    NetworkKnown,
    failed,
    habits_of,
    inspected,
    name_of,
    vanished,
    waits,
)
from levelset_dcp.records.records import ResourceRecord

__all__ = ["AGAIN", "NetworkErrands", "lease_of", "remove_network"]

AGAIN: Final = 5.0

_PASSING: Final = (CouldNotAllocate, EngineTimedOut, Incomplete, RuntimeNotHealthy)


def lease_of(network: ContainerNetwork) -> str:
    """The lease of a network that outlives the session."""
    return f"containernetworks/{name_of(network)}"


class NetworkErrands:
    """Asks the engine; each answer is a change of what is known."""

    def __init__(self, world: Containers) -> None:
        self._world = world

    async def make(self, network: ContainerNetwork) -> Change:
        """Finds the network or makes it, as its mode says."""
        try:
            engine = await self._world.healthy_engine()
            return await self._make(network, engine)
        except _PASSING as error:
            return waits(str(error), timing.now() + AGAIN, "Pending")
        except EngineError as error:
            return failed(str(error))

    async def inspect(self, network_id: str, wanted: frozenset[str] = frozenset()) -> Change | None:
        """How the network is, where these containers are wanted; None if the engine does not say."""
        try:
            return inspected(await self._world.ready_engine.inspect_network(network_id), wanted)
        except EngineNotFound:
            return vanished("somebody else has removed the network")
        except EngineError:
            return None  # the engine tells when it can be asked again

    async def resume(self, network: ContainerNetwork, network_id: str) -> Change:
        """Goes on with a network that an earlier controller has had."""
        if habits_of(network.spec).finds and not await self._world.records.lease(lease_of(network)):
            return waits(f"another session has the network {name_of(network)}", timing.now() + AGAIN)
        found = await self.inspect(network_id)
        return waits("", timing.now() + AGAIN) if found is None else found

    async def move(self, network_id: str, moves: Moves, wanted: frozenset[str]) -> Change:
        """Connects and disconnects containers, as many as can be, and looks what came of it."""
        engine, troubles = self._world.ready_engine, list[str]()
        for one, aliases in moves.connect.items():
            try:
                await engine.connect(network_id, one, aliases=aliases)
            except EngineAlreadyExists:
                continue
            except EngineError as error:
                troubles.append(str(error))
        for one in sorted(moves.disconnect):
            try:
                await engine.disconnect(network_id, one, force=True)
            except EngineNotFound:
                continue
            except EngineError as error:
                troubles.append(str(error))
        look = await self.inspect(network_id, wanted)
        if look is not None and not troubles:
            return look
        words, again = "; ".join(troubles), timing.now() + AGAIN
        return lambda known: waits(words, again)((look and look(known)) or known)

    async def remove(self, network: ContainerNetwork, network_id: str) -> Change:
        """Removes the network with everybody in it; fine if it is gone."""
        try:
            engine = await self._world.healthy_engine()
            await self._remove(network, network_id, engine)
        except EngineError as error:
            return waits(str(error), timing.now() + AGAIN)
        return _gone

    async def _make(self, network: ContainerNetwork, engine: Engine) -> Change:
        habits, name = habits_of(network.spec), name_of(network)
        if habits.finds:
            if not await self._world.records.lease(lease_of(network)):
                return waits(f"another session has the network {name}", timing.now() + AGAIN, "Pending")
            if self._world.harvested is not None:
                await self._world.harvested.wait()
        found = await _find(engine, name)
        if found is not None:
            if not habits.finds and uid_of(found.labels) != network.metadata.uid:
                return failed(f"there is a network {name!r} already; use mode existing or persistent to share it")
            return await self._took(network, found)
        if not habits.makes:
            return waits(f"there is no network {name!r} yet", timing.now() + AGAIN, "NotFound")
        labels = labels_of(network, self._world.creator, lasts=habits.finds)
        try:
            made = await engine.create_network(NewNetwork(name=name, ipv6=network.spec.ipv6, labels=labels))
        except EngineAlreadyExists as error:
            return waits(str(error), timing.now(), "Pending")  # somebody was faster: it is found next time
        return await self._took(network, made)

    async def _took(self, network: ContainerNetwork, info: NetworkInfo) -> Change:
        habits = habits_of(network.spec)
        if habits.makes and habits.finds:
            await self._world.records.write_resource(ResourceRecord(kind="network", name=info.name, id=info.id))
        return inspected(info)

    async def _remove(self, network: ContainerNetwork, network_id: str, engine: Engine) -> None:
        found = await _find(engine, network_id or name_of(network))
        if found is None:
            return
        habits = habits_of(network.spec)
        if not network_id and not habits.finds and uid_of(found.labels) != network.metadata.uid:
            return  # a namesake of somebody else
        await remove_network(engine, found)
        if habits.finds:
            await self._world.records.remove_resource("network", found.name)


async def remove_network(engine: Engine, info: NetworkInfo) -> None:
    """Removes a network, and before that all containers from it."""
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


def _gone(known: NetworkKnown) -> NetworkKnown:
    return replace(known, is_gone=True, message="")
