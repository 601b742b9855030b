"""The `finalize` subresource of namespaces: the only way to change `spec.finalizers`."""

from typing import Any

from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import create_and_update
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.negotiation import read_object
from levelset.apiserver.wire.request_paths import RequestPath
from levelset.apiserver.wire.status_errors import method_not_allowed
from levelset.errors import BadRequest
from levelset.http import Request, Response
from levelset.objects import encode_tree
from levelset.objects.json_tree import is_list, is_map

__all__ = ["finalize"]


async def finalize(state: ServerState, served: ServedResource, path: RequestPath, request: Request) -> Response:
    """Replaces `spec.finalizers`; a terminating namespace without finalizers is removed."""
    if request.method != "PUT" or path.name is None:
        raise method_not_allowed(request.method, request.path)
    name = path.name
    given = read_object(request).tree
    finalizers, version = _read(given, name)
    updated: list[Object] = []

    def change(tree: Object) -> Object:
        if version and version != tree["metadata"]["resourceVersion"]:
            raise status_errors.stale(served, name)
        spec: Object = dict(tree.get("spec") or {})
        spec["finalizers"] = finalizers
        if not finalizers:
            del spec["finalizers"]
        updated[:] = [{**tree, "spec": spec}]
        return updated[0]

    remaining = await create_and_update.mutate(state, served, None, name, change)
    if remaining is None and not updated:
        raise status_errors.not_found(served, name)
    return Response(
        200, (("Content-Type", "application/json"),), encode_tree(updated[0] if remaining is None else remaining)
    )


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
