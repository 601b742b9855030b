"""At the start of a session: removes what the containers of killed sessions have left at the engine.

Only what a session of ours has made for itself and whose maker is dead: containers that still run, and then networks
that nobody is in. What is persistent, what others have made, and what a living session has is left alone.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from levelset_dcp.containers.labels import creator_of
from levelset_dcp.engines import ContainerInfo, Engine, EngineError, EngineNotFound, NetworkInfo
from levelset_dcp.records import Records
from levelset_machine import is_alive

__all__ = ["Harvest", "harvest", "is_left_behind"]

_LEASE: Final = "harvest"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Harvest:
    """What was removed, by name."""

    containers: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()


async def harvest(engine: Engine, records: Records) -> Harvest:
    """Removes what was left behind; nothing if another session does that now, or if the engine cannot be asked."""
    if not await records.lease(_LEASE):
        return Harvest()
    try:
        containers = [
            one.name
            for one in await engine.list_containers()
            if one.is_running and is_left_behind(one) and await _remove_container(engine, one)
        ]
        networks = [
            one.name
            for one in await engine.list_networks()
            if is_left_behind(one) and not one.container_ids and await _remove_network(engine, one)
        ]
    except EngineError as error:
        log.info("nothing is looked for that killed sessions have left: %s", error)
        return Harvest()
    finally:
        await records.release(_LEASE)
    _tell(containers, networks)
    return Harvest(tuple(containers), tuple(networks))


def is_left_behind(one: ContainerInfo | NetworkInfo) -> bool:
    """Whether a session has made it for itself and is dead."""
    creator = creator_of(one.labels)
    return creator is not None and not is_alive(creator)


async def _remove_container(engine: Engine, one: ContainerInfo) -> bool:
    try:
        await engine.remove_container(one.id, force=True)
    except EngineNotFound:
        return False
    except EngineError as error:
        log.warning("container %s of a killed session cannot be removed: %s", one.name, error)
        return False
    return True


async def _remove_network(engine: Engine, one: NetworkInfo) -> bool:
    try:
        await engine.remove_network(one.id)
    except EngineNotFound:
        return False
    except EngineError as error:
        log.warning("network %s of a killed session cannot be removed: %s", one.name, error)
        return False
    return True


def _tell(containers: Iterable[str], networks: Iterable[str]) -> None:
    for word, names in (("containers", containers), ("networks", networks)):
        if names:
            log.info("%s of killed sessions were removed: %s", word, ", ".join(names))
