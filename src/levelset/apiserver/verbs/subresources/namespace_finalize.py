"""The `finalize` subresource of namespaces: the one place where the finalizers in their spec can be changed."""

from typing import Any

from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.verbs import create_and_update
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.negotiation import read_object
from levelset.apiserver.wire.request_paths import Address
from levelset.apiserver.wire.status_errors import method_not_allowed
from levelset.errors import BadRequest
from levelset.http import Request, Response
from levelset.objects import encode_tree
from levelset.objects.json_tree import is_list, is_map

__all__ = ["finalize"]


async def finalize(world: World, served: ServedResource, address: Address, request: Request) -> Response:
    """Replaces the finalizers; a namespace that is being deleted and has none left goes with them."""
    if request.method != "PUT" or address.name is None:
        raise method_not_allowed(request.method, request.path)
    name = address.name
    given = read_object(request).tree
    finalizers, version = _read(given, name)
    made: list[Object] = []

    def change(tree: Object) -> Object:
        if version and version != tree["metadata"]["resourceVersion"]:
            raise status_errors.stale(served, name)
        spec: Object = dict(tree.get("spec") or {})
        spec["finalizers"] = finalizers
        if not finalizers:
            del spec["finalizers"]
        made[:] = [{**tree, "spec": spec}]
        return made[0]

    kept = await create_and_update.mutate(world, served, None, name, change)
    if kept is None and not made:
        raise status_errors.object_not_found(served, name)
    return Response(200, (("Content-Type", "application/json"),), encode_tree(made[0] if kept is None else kept))


def _read(tree: Object, name: str) -> tuple[list[str], str]:
    metadata = tree.get("metadata")
    metadata = metadata if is_map(metadata) else {}
    if metadata.get("name") not in (None, "", name):
        raise BadRequest(f"the name of the object ({metadata.get('name')}) does not match the name on the URL ({name})")
    spec = tree.get("spec")
    given = spec.get("finalizers") if is_map(spec) else None
    found: Any = [] if given is None else given
    if not is_list(found) or not all(isinstance(one, str) for one in found):
        raise BadRequest("spec.finalizers must be a list of names")
    version = metadata.get("resourceVersion")
    return [str(one) for one in found], version if isinstance(version, str) else ""
