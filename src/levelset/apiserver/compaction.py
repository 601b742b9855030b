"""A request of the server's own: `POST /levelset/compact` makes it forget the history of changes."""

from collections.abc import Awaitable

from levelset.apiserver.resources.server_state import World
from levelset.apiserver.wire.status_errors import method_not_allowed
from levelset.http import Request, Response
from levelset.objects import encode_tree

__all__ = ["PATH", "Compaction"]

PATH = "/levelset/compact"


class Compaction:
    """Answers the request; watches from before are told to list again, and the file of the storage becomes smaller."""

    def __init__(self, world: World) -> None:
        self._world = world

    def page(self, request: Request) -> Awaitable[Response] | None:
        """The answer if the path is this one; None if it is not."""
        if request.path.rstrip("/") != PATH:
            return None
        if request.method != "POST":
            raise method_not_allowed(request.method, request.path)
        return self._compact()

    async def _compact(self) -> Response:
        storage = self._world.storage
        before = storage.compacted
        await storage.compact(storage.revision)
        told = {"revision": storage.revision, "compacted": storage.compacted, "forgotten": storage.compacted - before}
        return Response(200, (("Content-Type", "application/json"),), encode_tree(told))
