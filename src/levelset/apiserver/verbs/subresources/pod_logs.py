"""Who answers the `log` subresource of a kind: a function that is asked for an object's log and gives its bytes.

```python
async def log(asked: Asked) -> AsyncIterator[bytes]:
    if asked.query.get("container") not in (None, "main"):
        raise BadRequest(f"container {asked.query['container']} is not valid for pod {asked.name}")
    return read_lines(asked.name, follow=asked.query.get("follow") == "true")


server.serve_logs("", "Pod", log)
```

The logs of pods, where nobody runs them: what a client is told that asks for some.

A server that is embedded somewhere may have an answer of its own (`Kinds.serve_logs`); this one has none.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass

from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.verbs import create_and_update
from levelset.apiserver.wire import status_errors
from levelset.errors import BadRequest
from levelset.http import Request, Response

__all__ = ["Asked", "LogSource", "answer_logs", "refuse_logs"]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request for the log of an object: which, as it is stored now, and the first value of each parameter."""

    name: str
    namespace: str | None
    tree: Object
    query: Mapping[str, str]


LogSource = Callable[[Asked], Awaitable[AsyncIterator[bytes]]]
"""Gives the bytes of a log; what it raises before (BadRequest, NotFound) is what the client is told."""


def answer_logs(source: LogSource) -> Callable[[World, ServedResource, str | None, str, Request], Awaitable[Response]]:
    """The handler that a kind's `log` subresource has with this source; NotFound if there is no such object."""

    async def answer(
        world: World, served: ServedResource, namespace: str | None, name: str, request: Request
    ) -> Response:
        item = await create_and_update.get_item(world, served.key(namespace, name))
        if item is None:
            raise status_errors.object_not_found(served, name)
        query = {one: values[0] for one, values in request.parameters.items()}
        body = await source(Asked(name, namespace, served_tree(served, item), query))
        return Response(200, (("Content-Type", "text/plain"),), body)

    return answer


async def refuse_logs(
    world: World, served: ServedResource, namespace: str | None, name: str, request: Request
) -> Response:
    """Raises NotFound if there is no such pod, and otherwise BadRequest, as Kubernetes says it of a pod that waits."""
    item = await create_and_update.get_item(world, served.key(namespace, name))
    if item is None:
        raise status_errors.object_not_found(served, name)
    _check_container(served_tree(served, item), name, request.parameter("container"))
    raise BadRequest(f"pod {name} does not have a host assigned: this server runs no containers, so it has no logs")


def _check_container(pod: Object, name: str, asked: str | None) -> None:
    spec = part(pod, "spec")
    known = [one.get("name") for word in ("initContainers", "containers") for one in items(spec, word)]
    if asked and asked not in known:
        raise BadRequest(f"container {asked} is not valid for pod {name}")
