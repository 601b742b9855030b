"""Who answers the `log` subresource of a kind: a function that is asked for an object's log and gives its bytes.

```python
async def log(asked: Asked) -> AsyncIterator[bytes]:
    if asked.query.get("container") not in (None, "main"):
        raise BadRequest(f"container {asked.query['container']} is not valid for pod {asked.name}")
    return read_lines(asked.name, follow=asked.query.get("follow") == "true")


server.serve_logs("", "Pod", log)
```
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass

from levelset.apiserver import refusals, writing
from levelset.apiserver.objects import served_tree
from levelset.apiserver.served import Object, Served
from levelset.apiserver.world import World
from levelset.web import Request, Response

__all__ = ["Asked", "LogSource", "answer_logs"]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request for the log of an object: which, as it is stored now, and the first value of each parameter."""

    name: str
    namespace: str | None
    tree: Object
    query: Mapping[str, str]


LogSource = Callable[[Asked], Awaitable[AsyncIterator[bytes]]]
"""Gives the bytes of a log; what it raises before (BadRequest, NotFound) is what the client is told."""


def answer_logs(source: LogSource) -> Callable[[World, Served, str | None, str, Request], Awaitable[Response]]:
    """The handler that a kind's `log` subresource has with this source; NotFound if there is no such object."""

    async def answer(world: World, served: Served, namespace: str | None, name: str, request: Request) -> Response:
        item = await writing.get_item(world, served.key(namespace, name))
        if item is None:
            raise refusals.not_found(served, name)
        query = {one: values[0] for one, values in request.parameters.items()}
        body = await source(Asked(name, namespace, served_tree(served, item), query))
        return Response(200, (("Content-Type", "text/plain"),), body)

    return answer
