"""The orphan cleanup at the start of a session: removes engine objects that killed sessions have left.

An orphan has our labels, is not persistent, and its creator process is dead. Running containers are removed first, then
networks without containers, and volumes that no container mounts. Persistent objects, those of living sessions, and
foreign objects are not touched.
"""

import logging
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from levelset_dcp.engines import (
    ContainerInfo,
    Engine,
    EngineError,
    EngineNotFound,
    NetworkInfo,
    ObjectInUse,
    VolumeInfo,
)
from levelset_dcp.names import PERSISTENT, creator_of
from levelset_dcp.records import Records
from levelset_machine import is_alive

__all__ = ["OrphanReport", "clean_orphans", "is_orphaned"]

_LEASE: Final = "orphan-cleanup"

log = logging.getLogger(__name__)


class OrphanReport(Struct, frozen=True):
    """The names of the removed containers, networks and volumes."""

    containers: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()


async def clean_orphans(engine: Engine, records: Records) -> OrphanReport:
    """Removes all orphans; does nothing if another session holds the lease, or if the engine fails."""
    if not await records.lease(_LEASE):
        return OrphanReport()
    try:
        containers = [
            one.name
            for one in await engine.list_containers()
            if one.is_running and is_orphaned(one) and await _remove_container(engine, one)
        ]
        networks = [
            one.name
            for one in await engine.list_networks()
            if is_orphaned(one) and not one.container_ids and await _remove_network(engine, one)
        ]
        volumes = [
            one.name
            for one in await engine.list_volumes(labels={PERSISTENT: "false"})
            if is_orphaned(one) and await _remove_volume(engine, one)
        ]
    except EngineError as error:
        # An engine that does not run has no containers to remove; what is off is printed at the start.
        log.debug("orphan cleanup skipped: %s", error)
        return OrphanReport()
    finally:
        await records.release(_LEASE)
    _log_removed(containers, networks, volumes)
    return OrphanReport(tuple(containers), tuple(networks), tuple(volumes))


def is_orphaned(one: ContainerInfo | NetworkInfo | VolumeInfo) -> bool:
    """Whether the creator of a session object is dead."""
    creator = creator_of(one.labels)
    return creator is not None and not is_alive(creator)


async def _remove_container(engine: Engine, one: ContainerInfo) -> bool:
    try:
        await engine.remove_container(one.id, force=True)
    except EngineNotFound:
        return False
    except EngineError as error:
        log.warning("cannot remove orphaned container %s: %s", one.name, error)
        return False
    return True


async def _remove_network(engine: Engine, one: NetworkInfo) -> bool:
    try:
        await engine.remove_network(one.id)
    except EngineNotFound:
        return False
    except EngineError as error:
        log.warning("cannot remove orphaned network %s: %s", one.name, error)
        return False
    return True


async def _remove_volume(engine: Engine, one: VolumeInfo) -> bool:
    try:
        await engine.remove_volume(one.name)
    except (EngineNotFound, ObjectInUse):  # in use: a container that has ended may mount it
        return False
    except EngineError as error:
        log.warning("cannot remove orphaned volume %s: %s", one.name, error)
        return False
    return True


def _log_removed(containers: Iterable[str], networks: Iterable[str], volumes: Iterable[str]) -> None:
    for kind, names in (("containers", containers), ("networks", networks), ("volumes", volumes)):
        if names:
            log.info("removed orphaned %s: %s", kind, ", ".join(names))
