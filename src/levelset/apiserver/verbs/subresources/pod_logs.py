"""The `log` subresource of a kind: served from a function that returns the bytes of an object's log.

```python
async def log(request: LogRequest) -> AsyncIterator[bytes]:
    if request.query.get("container") not in (None, "main"):
        raise BadRequest(f"container {request.query['container']} is not valid for pod {request.name}")
    return read_lines(request.name, follow=request.query.get("follow") == "true")


server.serve_logs("", "Pod", log)
```

Without such a function, the logs of pods are rejected: the server runs no containers.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

import msgspec

from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs.get_and_list import get_item
from levelset.errors import BadRequest
from levelset.http import Request, Response

__all__ = ["LogRequest", "LogSource", "check_container", "log_handler", "reject_logs"]


# Log lines are the text of programs: a browser must not take them for anything else.
_HEADERS: Final = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))


class LogRequest(msgspec.Struct, frozen=True):
    """A request for the log of an object: its name, its stored tree, and the first value of each query parameter."""

    name: str
    namespace: str | None
    tree: Object
    query: Mapping[str, str]


LogSource = Callable[[LogRequest], Awaitable[AsyncIterator[bytes]]]
"""Returns the bytes of a log; the client gets what it raises before that (BadRequest, NotFound)."""


def log_handler(
    source: LogSource,
) -> Callable[[ServerState, ServedResource, str | None, str, Request], Awaitable[Response]]:
    """Returns the `log` handler of a kind for this source; it raises NotFound if the object does not exist."""

    async def handle(
        state: ServerState, served: ServedResource, namespace: str | None, name: str, request: Request
    ) -> Response:
        item = get_item(state, served, namespace, name)
        query = {one: values[0] for one, values in request.parameters.items()}
        body = await source(LogRequest(name, namespace, served_tree(served, item), query))
        return Response(200, _HEADERS, body)

    return handle


async def reject_logs(
    state: ServerState, served: ServedResource, namespace: str | None, name: str, request: Request
) -> Response:
    """Raises NotFound if the pod does not exist, otherwise BadRequest, as Kubernetes does for an unscheduled pod."""
    item = get_item(state, served, namespace, name)
    check_container(served_tree(served, item), name, request.parameter("container"))
    raise BadRequest(f"pod {name} does not have a host assigned: this server runs no containers, so it has no logs")


def check_container(pod: Object, name: str, requested: str | None) -> None:
    """Raises BadRequest if the Pod has no container of the requested name."""
    spec = map_member(pod, "spec")
    known = [one.get("name") for word in ("initContainers", "containers") for one in list_member(spec, word)]
    if requested and requested not in known:
        raise BadRequest(f"container {requested} is not valid for pod {name}")
