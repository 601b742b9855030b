"""`POST /levelset/compact`: discards the watch history of the storage up to now."""

from collections.abc import Awaitable

from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.wire.status_errors import method_not_allowed
from levelset.http import Request, Response
from levelset.objects import encode_tree

__all__ = ["PATH", "Compaction"]

PATH = "/levelset/compact"


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
