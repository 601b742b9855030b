"""The cleanup at the end of a session: deletes all objects, dependents before their dependencies."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from levelset import Client, Conflict, Object
from levelset.aio import timing
from levelset_dcp import kinds
from levelset_dcp.names import API

__all__ = ["AFTER", "CleanupReport", "clean_up", "is_owned"]

AFTER: Final[Mapping[type[Object], tuple[type[Object], ...]]] = {
    kinds.ContainerExec: (),
    kinds.ExecutableReplicaSet: (),
    kinds.Service: (),
    kinds.ContainerNetworkTunnelProxy: (),
    kinds.Container: (kinds.ContainerExec,),
    kinds.Executable: (kinds.ExecutableReplicaSet,),
    kinds.ContainerNetworkConnection: (kinds.Container,),
    kinds.ContainerNetwork: (
        kinds.Container,
        kinds.ContainerNetworkConnection,
        kinds.ContainerNetworkTunnelProxy,
    ),
    kinds.ContainerVolume: (kinds.Container,),
}
"""The kinds that must be gone before each kind is deleted; Endpoints are deleted with their workloads."""

_AT_ONCE: Final = 32
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0

log = logging.getLogger(__name__)


class CleanupReport(Struct, frozen=True):
    """The number of deleted objects by kind, and the objects that are left."""

    deleted: Mapping[str, int] = field(default_factory=dict[str, int])
    left: Sequence[str] = ()

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left."""
        return not self.left


async def clean_up(client: Client, *, within: float = 120.0) -> CleanupReport:
    """Deletes all objects in order, and waits until they are gone, at most `within` seconds; no timeout is raised."""
    work = _Cleanup(client)
    try:
        async with asyncio.timeout(within), asyncio.TaskGroup() as group:
            for kind in AFTER:
                group.create_task(work.clean(kind), name=f"clean up {kind.__name__}")
    except TimeoutError:
        log.warning("cleanup did not finish within %g s", within)
    return CleanupReport(work.deleted, await _names(client))


def is_owned(obj: Any) -> bool:
    """Whether an object is controlled by another DCP object, which deletes it."""
    return any(one.controller and one.api_version == API for one in obj.metadata.owner_references)


class _Cleanup:
    """One cleanup with its progress."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._done = {kind: asyncio.Event() for kind in AFTER}
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self.deleted: dict[str, int] = {}

    async def clean(self, kind: type[Object]) -> None:
        """Deletes all objects of a kind, after the kinds that depend on it are gone."""
        for other in AFTER[kind]:
            await self._done[other].wait()
        pause, seen = _FIRST_PAUSE, set[str]()
        while found := list(await self._client.list(kind)):
            wanted = [one for one in found if one.metadata.deletion_timestamp is None and not is_owned(one)]
            async with asyncio.TaskGroup() as group:
                for one in wanted:
                    group.create_task(self._delete(one))
            seen |= {one.name for one in found}
            await timing.sleep(pause)
            pause = _FIRST_PAUSE if wanted else min(pause * 1.5, _LONGEST_PAUSE)
        if seen:
            self.deleted[kind.__name__] = len(seen)
        self._done[kind].set()

    async def _delete(self, one: Object) -> None:
        async with self._limit:
            try:
                await self._client.delete(one.ref, uid=one.metadata.uid, propagation="Orphan", missing_ok=True)
            except Conflict:
                log.debug("conflict while deleting %s; retrying", one.ref)


async def _names(client: Client) -> list[str]:
    return [f"{kind.__name__} {one.name}" for kind in AFTER for one in await client.list(kind)]
