"""The handlers of `exec`, `attach` and `portforward`: for the sources of a kind, and where no node serves them."""

from collections.abc import Awaitable, Callable
from typing import Final

from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.json_members import map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs.get_and_list import get_item
from levelset.apiserver.verbs.subresources.pod_logs import check_container
from levelset.apiserver.verbs.subresources.port_forward import forward_ports
from levelset.apiserver.verbs.subresources.remote_command import check_streams, run_remote_command
from levelset.apiserver.verbs.subresources.stream_sources import ConnectPort, RunCommand, StreamRequest, StreamSources
from levelset.errors import BadRequest
from levelset.http import Request, Response

__all__ = ["STREAMS", "StreamHandler", "rejecting_handlers", "stream_handlers"]

STREAMS: Final = ("attach", "exec", "portforward")
"""The subresources that stream to a node."""

StreamHandler = Callable[[ServerState, ServedResource, str | None, str, Request], Awaitable[Response]]


_ALTERNATIVES: Final = {
    "attach": "kubectl logs -f shows what a container writes",
    "exec": "a Pod has no file system of its own: run it on this machine",
    "portforward": "connect to status.podIP of the Pod, or to a Service's address, on this machine",
}


def rejecting_handlers() -> dict[str, StreamHandler]:
    """The handlers by subresource for a server without nodes: admission decides first, and then no Pod is reached.

    Each raises NotFound if the Pod does not exist, otherwise BadRequest.
    """
    return {name: _rejecting_handler(name) for name in STREAMS}


def stream_handlers(sources: StreamSources) -> dict[str, StreamHandler]:
    """The handlers by subresource, of those that have a source; each raises NotFound if the object does not exist."""
    found: dict[str, StreamHandler] = {}
    if sources.attach is not None:
        found["attach"] = _command_handler(sources.attach)
    if sources.exec is not None:
        found["exec"] = _command_handler(sources.exec)
    if sources.portforward is not None:
        found["portforward"] = _forward_handler(sources.portforward)
    return found


def _rejecting_handler(subresource: str) -> StreamHandler:
    async def handle(
        state: ServerState, served: ServedResource, namespace: str | None, name: str, request: Request
    ) -> Response:
        pod = _tree(state, served, namespace, name)
        if subresource != "portforward":
            check_container(pod, name, request.parameter("container"))
        node = map_member(pod, "spec").get("nodeName")
        if not node:
            raise BadRequest(f"pod {name} does not have a host assigned")
        problem = f"{subresource} is not supported by this server, which has no access to the node {node}"
        raise BadRequest(f"{problem}: {_ALTERNATIVES[subresource]}")

    return handle


def _command_handler(source: Callable[[StreamRequest], Awaitable[RunCommand]]) -> StreamHandler:
    async def handle(
        state: ServerState, served: ServedResource, namespace: str | None, name: str, request: Request
    ) -> Response:
        wanted = StreamRequest(name, namespace, _tree(state, served, namespace, name), request.parameters)
        check_streams(wanted)
        return run_remote_command(request, wanted, await source(wanted))

    return handle


def _forward_handler(source: Callable[[StreamRequest], Awaitable[ConnectPort]]) -> StreamHandler:
    async def handle(
        state: ServerState, served: ServedResource, namespace: str | None, name: str, request: Request
    ) -> Response:
        wanted = StreamRequest(name, namespace, _tree(state, served, namespace, name), request.parameters)
        return forward_ports(request, wanted, await source(wanted))

    return handle


def _tree(state: ServerState, served: ServedResource, namespace: str | None, name: str) -> Object:
    return served_tree(served, get_item(state, served, namespace, name))
