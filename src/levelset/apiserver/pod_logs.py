"""The logs of pods, where nobody runs them: what a client is told that asks for some.

A server that is embedded somewhere may have an answer of its own (`Kinds.serve_logs`); this one has none.
"""

from levelset.apiserver import refusals, writing
from levelset.apiserver.members import items, part
from levelset.apiserver.objects import served_tree
from levelset.apiserver.served import Object, Served
from levelset.apiserver.world import World
from levelset.errors import BadRequest
from levelset.web import Request, Response

__all__ = ["refuse_logs"]


async def refuse_logs(world: World, served: Served, namespace: str | None, name: str, request: Request) -> Response:
    """Raises NotFound if there is no such pod, and otherwise BadRequest, as Kubernetes says it of a pod that waits."""
    item = await writing.get_item(world, served.key(namespace, name))
    if item is None:
        raise refusals.not_found(served, name)
    _check_container(served_tree(served, item), name, request.parameter("container"))
    raise BadRequest(f"pod {name} does not have a host assigned: this server runs no containers, so it has no logs")


def _check_container(pod: Object, name: str, asked: str | None) -> None:
    spec = part(pod, "spec")
    known = [one.get("name") for word in ("initContainers", "containers") for one in items(spec, word)]
    if asked and asked not in known:
        raise BadRequest(f"container {asked} is not valid for pod {name}")
