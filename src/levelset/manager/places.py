"""Where controllers work: the clusters of a manager, by name, opened with it and closed with it."""

import asyncio
from collections.abc import Callable

from levelset.cache.cluster import Cluster
from levelset.errors import NotReady
from levelset.manager.members import Member

__all__ = ["MAIN", "Place"]

MAIN = ""
"""The name of the cluster that a manager was made with."""


class Place(Member):
    """Holds a cluster open; one that was open before stays so after."""

    def __init__(self, name: str, cluster: Cluster, *, ended: Callable[[Member, Exception], None]) -> None:
        super().__init__(f"cluster {name}".strip(), self._hold, ended=ended)
        self.cluster = cluster
        self._opened = asyncio.Event()

    async def wait_open(self) -> None:
        """Returns when controllers can be given this cluster."""
        await self._opened.wait()

    async def _hold(self) -> None:
        is_ours = await _open(self.cluster)
        self._opened.set()
        try:
            await asyncio.Event().wait()
        finally:
            if is_ours:
                await self.cluster.aclose()


async def _open(cluster: Cluster) -> bool:
    """Opens a cluster; False if somebody has done so already."""
    try:
        await cluster.__aenter__()
    except NotReady:
        return False
    return True
