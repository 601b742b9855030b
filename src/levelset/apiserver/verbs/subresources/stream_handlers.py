"""The handlers of `exec`, `attach` and `portforward` for the sources of a kind."""

from collections.abc import Awaitable, Callable
from typing import Final

from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs.get_and_list import get_item
from levelset.apiserver.verbs.subresources.port_forward import forward_ports
from levelset.apiserver.verbs.subresources.remote_command import check_streams, run_remote_command
from levelset.apiserver.verbs.subresources.stream_sources import ConnectPort, RunCommand, StreamRequest, StreamSources
from levelset.http import Request, Response

__all__ = ["STREAMS", "StreamHandler", "stream_handlers"]

STREAMS: Final = ("attach", "exec", "portforward")
"""The subresources that stream to a node."""

StreamHandler = Callable[[ServerState, ServedResource, str | None, str, Request], Awaitable[Response]]


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
