"""Compaction of the storage: periodically, as kube-apiserver does, and up to now by `POST /levelset/compact`."""

import asyncio
import logging
from collections.abc import Awaitable
from typing import Final

from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.wire.status_errors import method_not_allowed
from levelset.errors import ServerFailed
from levelset.http import Request, Response
from levelset.objects import encode_tree
from levelset.storage import Storage

__all__ = ["PATH", "Compaction", "PeriodicCompaction"]

log = logging.getLogger(__name__)

PATH = "/levelset/compact"
_KEY: Final = "/levelset/compaction"


class Compaction:
    """Serves the compaction endpoint; older watches expire and relist, and what it frees in the file is used again."""

    def __init__(self, state: ServerState) -> None:
        self._state = state

    def page(self, request: Request) -> Awaitable[Response] | None:
        """Returns the response, or None if the path is another one."""
        if request.path.rstrip("/") != PATH:
            return None
        if request.method != "POST":
            raise method_not_allowed()
        return self._compact()

    async def _compact(self) -> Response:
        storage = self._state.storage
        before = storage.compacted
        await storage.compact(storage.revision)
        result = {"revision": storage.revision, "compacted": storage.compacted, "forgotten": storage.compacted - before}
        return Response(200, (("Content-Type", "application/json"),), encode_tree(result))


class PeriodicCompaction:
    """Compacts the storage every `period` seconds, up to where it was one period ago.

    So a resourceVersion or a continue token can be read for one to two periods, whether or not anything is written.
    """

    def __init__(self, storage: Storage, period: float) -> None:
        self._storage = storage
        self._period = period
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins the first period."""
        self._task = asyncio.create_task(self._run(), name="compaction")

    async def stop(self) -> None:
        """Ends it; a compaction that has begun may still be carried out."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        target = 0
        while True:
            await asyncio.sleep(self._period)
            try:
                target = await self._step(target)
            except ServerFailed as error:
                log.warning("the storage was not compacted; it is tried again", extra={"reason": str(error)})

    async def _step(self, target: int) -> int:
        """Compacts up to the revision of the last turn; returns that of this one."""
        following = self._storage.revision
        if following != target:
            # A write of its own, as kube-apiserver: what was read last expires, too, if nothing else is written.
            following = (await self._storage.put(_KEY, str(target).encode(), expected=None)).revision
        await self._storage.compact(target)
        return following
