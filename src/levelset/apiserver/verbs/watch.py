"""Watch requests: what the parameters ask for, checked, and the response whose body is pushed as things happen.

A watch over a WebSocket: every event, a line of JSON, goes out as one text frame.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from levelset.apiserver.registry.selectors import selection_of
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.verbs.get_and_list import parse_revision
from levelset.apiserver.verbs.response_format import Form
from levelset.apiserver.verbs.watch_feeds import Topic, Watcher, error_event, feeds_of
from levelset.apiserver.wire.status_errors import invalid_options
from levelset.errors import BadRequest, Cause, Expired
from levelset.http import Request, Response, Sink, WebSocket, accept_websocket, is_websocket
from levelset.storage import FutureRevision

__all__ = ["FrameSink", "WatchQuery", "parse_watch", "watch"]


class FrameSink:
    """Takes what a watch writes, as any sink does, and sends it line by line."""

    __slots__ = ("_socket",)

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        return self._socket.sink.is_closed

    @property
    def is_backed_up(self) -> bool:
        """Whether the client does not keep up."""
        return self._socket.sink.is_backed_up

    @property
    def backlog(self) -> int:
        """The number of bytes that have not left yet."""
        return self._socket.sink.backlog

    def write(self, data: bytes, /) -> None:
        """Sends each line in a frame of its own."""
        for line in data.split(b"\n"):
            if line:
                self._socket.send_text(line)

    def close(self) -> None:
        """Says goodbye and ends the connection."""
        self._socket.close()

    def abort(self) -> None:
        """Cuts the connection."""
        self._socket.sink.abort()

    def when_closed(self, callback: Callable[[], None], /) -> None:
        """Has `callback` called once when the connection ends."""
        self._socket.sink.when_closed(callback)

    async def wait_drained(self) -> None:
        """Waits until all that was written has left, or the connection has ended."""
        await self._socket.sink.wait_drained()


_HEADERS: Final = (("Content-Type", "application/json"), ("Cache-Control", "no-cache, private"))
_SHORTEST, _LONGEST = 1800.0, 3600.0
_LAST_MARK: Final = 2.0
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"", "0", "f", "F", "false", "FALSE", "False"})


@dataclass(frozen=True, slots=True)
class WatchQuery:
    """A checked watch request: where it begins, and what it wants besides changes."""

    after: int | None = None
    """The revision that the client has seen; None to be shown the present state first."""
    bookmarks: bool = False
    ends_initial: bool = False
    """Whether to say where the present state ends and the changes begin."""
    not_older: int = 0
    timeout: float | None = None


def watch(
    world: World, served: ServedResource, namespace: str | None, request: Request, *, form: Form | None = None
) -> Response:
    """Answers a watch: an endless body of events, one JSON object per line, or one per frame of a WebSocket.

    Raises BadRequest or Invalid for parameters that make no sense. A version that is forgotten is told on the stream.
    """
    parameters = request.parameters
    query = parse_watch(parameters)
    topic = Topic(served, namespace, selection_of(served, parameters), form)
    revision = world.storage.revision
    if query.not_older > revision:
        raise FutureRevision(query.not_older, revision)
    timeout = query.timeout or world.random.uniform(_SHORTEST, _LONGEST)
    if is_websocket(request):
        return accept_websocket(request, lambda socket: _open(world, topic, query, timeout, FrameSink(socket)))
    return Response(200, _HEADERS, lambda sink: _open(world, topic, query, timeout, sink))


def parse_watch(parameters: Mapping[str, tuple[str, ...]]) -> WatchQuery:
    """The watch request in the parameters of a query."""
    first = {name: values[0] for name, values in parameters.items()}
    initial = _flag(first, "sendInitialEvents") if "sendInitialEvents" in first else None
    _check_match(initial, first.get("resourceVersionMatch", ""))
    revision = parse_revision(first.get("resourceVersion", ""))
    bookmarks = _flag(first, "allowWatchBookmarks")
    timeout = _timeout(first.get("timeoutSeconds", ""))
    if initial is None:
        return WatchQuery(revision or None, bookmarks, timeout=timeout)
    if not initial:
        return WatchQuery(revision or -1, bookmarks, timeout=timeout)
    return WatchQuery(None, bookmarks, ends_initial=bookmarks, not_older=revision, timeout=timeout)


def _open(world: World, topic: Topic, query: WatchQuery, timeout: float, sink: Sink) -> None:
    watcher = Watcher(sink, bookmarks=query.bookmarks)
    revision = world.storage.revision
    after = revision if query.after == -1 else query.after
    if after is not None and after > revision:
        topic = replace(topic, floor=after)
    loop = asyncio.get_running_loop()
    watcher.timers.append(loop.call_later(timeout, watcher.end))
    if query.bookmarks:
        watcher.timers.append(loop.call_later(max(0.0, timeout - _LAST_MARK), watcher.mark))
    try:
        feeds_of(world).join(topic, watcher, after=after, ends_initial=query.ends_initial)
    except Expired as error:
        sink.write(error_event(_too_old(query, world, error)))
        sink.close()


def _too_old(query: WatchQuery, world: World, error: Expired) -> Expired:
    known = world.storage.compacted
    made = Expired(f"too old resource version: {query.after} ({known}); list again and watch from there")
    made.__cause__ = error
    return made


def _check_match(initial: bool | None, match: str) -> None:
    causes: list[Cause] = []
    if initial is None:
        if match:
            causes.append(
                _forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
            )
    elif match != "NotOlderThan":
        causes.append(_forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
        if match:
            text = f'Unsupported value: "{match[:40]}": supported values: "NotOlderThan"'
            causes.append(Cause("resourceVersionMatch", "FieldValueNotSupported", text))
    if causes:
        raise invalid_options("ListOptions", causes)


def _forbidden(text: str) -> Cause:
    return Cause("resourceVersionMatch", "FieldValueForbidden", f"Forbidden: {text}")


def _flag(first: Mapping[str, str], name: str) -> bool:
    given = first.get(name, "")
    if given in _TRUE:
        return True
    if given in _FALSE:
        return False
    raise BadRequest(f"Invalid value: {given[:40]!r}: {name} must be true or false")


def _timeout(text: str) -> float | None:
    """The seconds after which the watch shall end; None if it is for the server to say, as 0 means too."""
    if not text:
        return None
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 10:
        raise BadRequest(f"Invalid value: {text[:40]!r}: timeoutSeconds must be a whole number")
    return float(text) if int(text) > 0 else None
