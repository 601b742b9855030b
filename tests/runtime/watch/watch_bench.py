"""A server, a client and injectable faults between them, for the tests of the watch package."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any
from urllib.parse import parse_qs

from levelset.aio import timing
from levelset.apiserver.verbs.watch import feeds_of
from levelset.client.client import Client
from levelset.client.transport.in_process import InProcessTransport
from levelset.client.transport.interface import Call, Response, Send
from levelset.errors import Unreachable
from levelset.http.messages import Headers
from levelset.objects.resource import Object
from levelset.runtime.watch.events import Apply, Delete, Event, Init, InitApply, InitDone
from levelset.runtime.watch.watcher import Watcher, WatchError
from tests.apiserver.support.in_process_server import CONFIGMAPS, InProcessServer, configmap, open_server

__all__ = [
    "Faults",
    "Script",
    "Settings",
    "WatchBench",
    "in_words",
    "line",
    "open_watch_bench",
    "reading",
    "refusing",
    "status",
    "streaming",
    "summarize",
]


class Settings(Object, api="v1", kind="ConfigMap"):
    data: dict[str, str] = {}


class Script:
    """A scripted response body: chunks, then the end, a disconnect, or silence."""

    def __init__(self, *pieces: bytes, then: str = "end") -> None:
        self._pieces = iter(pieces)
        self._then = then
        self.is_closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        if self._then == "hang":
            await asyncio.Event().wait()
        if self._then == "cut":
            raise Unreachable("the connection was reset")
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.is_closed = True


Act = Callable[[Call], Response | Exception | None]


class Faults:
    """Records every request with its time; `act` may respond in place of the server, or raise."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, Call]] = []
        self.act: Act = lambda call: None

    async def __call__(self, call: Call, send: Send) -> Response:
        self.calls.append((timing.now(), call))
        found = self.act(call)
        if isinstance(found, Exception):
            raise found
        return await send(call) if found is None else found

    def of(self, verb: str) -> list[dict[str, str]]:
        """The parameters of each request with this verb."""
        return [_query(call) for _, call in self.calls if call.verb == verb]

    def times(self, verb: str) -> list[float]:
        return [when for when, call in self.calls if call.verb == verb]


class WatchBench:
    """A running server without sockets, and a client whose wire can fail."""

    def __init__(self, box: InProcessServer) -> None:
        self.box = box
        self.faults = Faults()
        self.client = Client(InProcessTransport(box.server), wire_hooks=[self.faults])
        self.errors: list[WatchError] = []

    def watcher(self, **options: Any) -> Watcher[Settings]:
        options.setdefault("namespace", "default")
        options.setdefault("on_error", self.errors.append)
        options.setdefault("random", Random(4).random)
        return Watcher(self.client, options.pop("kind", Settings), **options)

    async def make(self, *names: str, **metadata: Any) -> None:
        for name in names:
            await self.box.create(CONFIGMAPS, configmap(name, **metadata))

    async def change(self, name: str, value: str = "1") -> None:
        body = {"data": {"value": value}}
        status_, tree = await self.box.request(
            "PATCH", f"{CONFIGMAPS}/{name}", body, kind="application/merge-patch+json"
        )
        assert status_ == 200, tree

    async def remove(self, name: str) -> None:
        assert (await self.box.request("DELETE", f"{CONFIGMAPS}/{name}"))[0] == 200

    def end_watches(self) -> None:
        """The server ends every watch properly."""
        for feed in tuple(feeds_of(self.box.server.state)._feeds.values()):
            feed.end()

    @property
    def watches(self) -> int:
        """How many watches are open at the server."""
        return feeds_of(self.box.server.state).watchers

    async def compact(self) -> None:
        assert (await self.box.request("POST", "/levelset/compact"))[0] == 200


@asynccontextmanager
async def open_watch_bench() -> AsyncGenerator[WatchBench, None]:
    async with open_server() as box:
        bench = WatchBench(box)
        async with bench.client:
            yield bench


async def summarize(watcher: Watcher[Any], count: int) -> list[str]:
    """The next events in words, at least so many: `Init`, `InitApply a`, `InitDone`, `Apply a`, `Delete a`."""
    found: list[str] = []
    while len(found) < count:
        found += [in_words(event) for event in await anext(watcher)]
    return found


@asynccontextmanager
async def reading(watcher: Watcher[Any]) -> AsyncGenerator[list[str], None]:
    """The events of a watcher as text, read concurrently until the end of the block."""
    found: list[str] = []

    async def read() -> None:
        async for batch in watcher:
            found.extend([in_words(event) for event in batch])

    task = asyncio.create_task(read(), name="reading")
    try:
        yield found
    finally:
        await watcher.aclose()
        await task


def in_words(event: Event[Any]) -> str:
    match event:
        case Init() | InitDone():
            return type(event).__name__
        case InitApply(item) | Apply(item) | Delete(item):
            return f"{type(event).__name__} {item.cached.head.name}"


def status(code: int, reason: str = "", *, headers: dict[str, str] | None = None, **more: Any) -> Response:
    """An error response."""
    tree = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, **more}
    return Response(status=code, headers=Headers(headers or {}), body=json.dumps(tree).encode())


def streaming(*pieces: bytes, then: str = "end") -> Response:
    """An answer to a watch."""
    return Response(status=200, stream=Script(*pieces, then=then))


def line(type_: str, name: str = "", version: str = "", *, kind: str = "ConfigMap", **more: Any) -> bytes:
    """One line of a watch."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": version}
    tree = {"kind": kind, "apiVersion": "v1", "metadata": {key: value for key, value in metadata.items() if value}}
    return json.dumps({"type": type_, "object": {**tree, **more}}, separators=(",", ":")).encode() + b"\n"


def refusing(code: int, reason: str = "", **more: Any) -> Act:
    """Rejects every request."""
    return lambda call: status(code, reason, **more)


def _query(call: Call) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(call.query).items()}
