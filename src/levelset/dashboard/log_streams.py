"""Logs of objects with a `log` subresource: Pods, and Executables and Containers of local systems; streamed as text.

The dashboard stores no lines: each page follows the API server's own stream, at the pace at which it reads.
"""

from collections.abc import AsyncGenerator, Iterable
from typing import Any, Final

import msgspec

from levelset.client import Client, requests
from levelset.client.discovery import ApiResource
from levelset.client.internals import list_page
from levelset.client.transport.interface import BodyStream, Call
from levelset.dashboard.views import container_names, container_states, kind_text, state_of
from levelset.errors import LevelsetError, NotFound, TooManyRequests
from levelset.objects.ref import GroupVersionKind

__all__ = ["LogQuery", "LogStreams", "log_choices"]

MOST_STREAMS: Final = 16
"""The logs that are read at the same time, by all pages."""
MOST_LINES: Final = 10_000
"""The lines of the past that a page may request."""
MOST_BYTES: Final = 64 * 1024 * 1024
"""The size of a download; what follows is cut."""

_MOST_CHOICES: Final = 500
_TIMEOUT: Final = 30.0


class LogQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which log to read: of an object, and of a container if it has several; the last lines, and then what comes."""

    gvk: GroupVersionKind
    name: str
    namespace: str | None = None
    container: str | None = None
    tail: int | None = None
    is_followed: bool = False
    is_previous: bool = False
    """The log of the container before its last restart."""


class LogStreams:
    """The open streams; `close` ends them, and must be called before the client is closed."""

    def __init__(self) -> None:
        self._open: set[BodyStream] = set()
        self._opening = 0

    def __len__(self) -> int:
        """The number of open streams."""
        return len(self._open)

    async def open(self, client: Client, query: LogQuery) -> AsyncGenerator[bytes, None]:
        """The bytes of a log. NotFound if the kind has none, TooManyRequests if too many are read already."""
        served = await client.resource(query.gvk)
        if "log" not in served.subresources:
            raise NotFound(f"{query.gvk.kind} has no log")
        if len(self._open) + self._opening >= MOST_STREAMS:
            raise TooManyRequests(f"at most {MOST_STREAMS} logs are read at the same time: close some")
        self._opening += 1
        try:
            response = await client.send(_call(client, served, query))
        finally:
            self._opening -= 1
        stream = response.stream
        if stream is None:
            return _one(response.body)
        self._open.add(stream)
        return self._read(stream, None if query.is_followed else MOST_BYTES)

    async def close(self) -> None:
        """Ends all streams."""
        for stream in tuple(self._open):
            await stream.aclose()

    async def _read(self, stream: BodyStream, most: int | None) -> AsyncGenerator[bytes, None]:
        left = most
        try:
            async for chunk in stream:
                yield chunk if left is None else chunk[:left]
                left = None if left is None else left - len(chunk)
                if left is not None and left <= 0:
                    return
        except LevelsetError:
            return  # the program was stopped, or the connection lost: the page says that the log has ended
        finally:
            self._open.discard(stream)
            await stream.aclose()


async def log_choices(client: Client, kinds: Iterable[ApiResource]) -> dict[str, Any]:
    """The objects whose log can be read, with their containers and their state."""
    found: list[dict[str, Any]] = []
    for one in kinds:
        if "log" not in one.subresources:
            continue
        try:
            page = await list_page(client, one.gvk, limit=_MOST_CHOICES, managed_fields=False)
        except LevelsetError:
            continue  # forbidden, or deleted meanwhile
        found += [_choice(one, cached.name, cached.namespace, cached.tree()) for cached in page.items]
    return {"logs": found[:_MOST_CHOICES], "isPartial": len(found) > _MOST_CHOICES}


def _choice(served: ApiResource, name: str, namespace: str | None, tree: Any) -> dict[str, Any]:
    state, tone = state_of(tree)
    return {
        "kind": kind_text(served.gvk),
        "name": name,
        "namespace": namespace,
        "containers": container_names(tree),
        "restarted": [one["name"] for one in container_states(tree) if one["restarts"]],
        "state": state,
        "tone": tone,
    }


def _call(client: Client, served: ApiResource, query: LogQuery) -> Call:
    place = (query.namespace or client.namespace) if served.namespaced else None
    target = requests.Target(served=served, namespace=place, name=query.name, subresource="log")
    options = [
        ("follow", "true" if query.is_followed else None),
        ("container", query.container or None),
        ("tailLines", query.tail),
        ("previous", "true" if query.is_previous else None),
    ]
    return requests.logs(target, options, timeout=_TIMEOUT)


async def _one(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body
