"""Kinds whose objects are computed for each request and not stored, such as PodMetrics: they can only be read."""

from collections.abc import Awaitable, Callable, Iterable

from msgspec.structs import replace

from levelset.apiserver.registry.crd.served_versions import served_versions
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs.get_and_list import parse_list_options
from levelset.apiserver.verbs.response_format import render_tree
from levelset.apiserver.wire.negotiation import negotiate
from levelset.apiserver.wire.request_paths import RequestPath
from levelset.apiserver.wire.status_errors import not_found
from levelset.http import Request, Response
from levelset.objects import Object as TypedObject
from levelset.objects import to_tree

__all__ = ["ComputedSource", "computed_handler", "computed_resource", "read_computed"]

ComputedSource = Callable[[str | None], Awaitable[Iterable[TypedObject]]]
"""Returns the objects of a kind in a namespace; for None those of all namespaces, or of a cluster-scoped kind.

The client gets the ApiError that it raises.
"""

_VERBS = ("get", "list")


def computed_resource(definition: Object) -> ServedResource:
    """The resource of a computed kind, by its CustomResourceDefinition with one version, which is not stored either."""
    (served,) = served_versions(definition, since=0)
    return replace(served, verbs=_VERBS)


def computed_handler(
    source: ComputedSource,
) -> Callable[[ServerState, ServedResource, RequestPath, Request], Awaitable[Response]]:
    """Returns the handler of a computed kind for this source, one of `ServerState.read_handlers`."""

    async def handle(state: ServerState, served: ServedResource, path: RequestPath, request: Request) -> Response:
        trees = [to_tree(one) for one in await source(path.namespace)]
        return read_computed(state, served, path, request, trees)

    return handle


def read_computed(
    state: ServerState, served: ServedResource, path: RequestPath, request: Request, found: Iterable[Object]
) -> Response:
    """Renders the object that a request names, or the list of those that it selects; raises NotFound."""
    accept = request.headers.find("accept")
    chosen = negotiate(accept, "list" if path.name is None else "object", custom=served.custom)
    if path.name is not None:
        head = {"kind": served.kind, "apiVersion": served.api_version}
        for one in found:
            if one["metadata"]["name"] == path.name:
                return render_tree(state, served, request, chosen=chosen, tree={**one, **head})
        raise not_found(served, path.name)
    selection = parse_list_options(served, request.parameters).selection
    items = [one for one in found if selection is None or selection.matches_tree(one)]
    tree: Object = {"kind": served.list_kind, "apiVersion": served.api_version, "metadata": {}, "items": items}
    return render_tree(state, served, request, chosen=chosen, tree=tree)
