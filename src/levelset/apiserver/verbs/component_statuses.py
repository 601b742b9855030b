"""ComponentStatuses: the health of the storage and of the server's own controllers, computed for each request."""

from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs.computed_kinds import read_computed
from levelset.apiserver.wire.request_paths import RequestPath
from levelset.errors import NotFound
from levelset.http import Request, Response

__all__ = ["read_component_statuses"]


def read_component_statuses(
    state: ServerState, served: ServedResource, path: RequestPath, request: Request
) -> Response:
    """Returns one of them, or the list; raises NotFound. A handler of `ServerState.read_handlers`."""
    found = {name: _status(name, problem) for name, problem in _problems(state).items()}
    try:
        return read_computed(state, served, path, request, found.values())
    except NotFound:  # after the negotiation of the response; upstream names the kind in the singular
        text = f'componentstatus "{path.name}" not found'
        raise NotFound(text, details={"name": path.name or "", "kind": served.singular}) from None


def _problems(state: ServerState) -> dict[str, str | None]:
    """What is wrong with each component; the names are those that kubectl users know."""
    return {"controller-manager": None, "etcd-0": state.reader.find_write_problem()}


def _status(name: str, problem: str | None) -> Object:
    status, message = ("True", "ok") if problem is None else ("False", str(problem))
    return {"metadata": {"name": name}, "conditions": [{"type": "Healthy", "status": status, "message": message}]}
