"""An API server that can be stopped and restarted on the same storage, with a journal of all writes.

Each participant has its own client; every accepted write is recorded with its time and the name of the client, so that
a test can say who wrote what, and what was no longer written.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from levelset.aio import timing
from levelset.apiserver import ApiServer
from levelset.apiserver.package_data import load_package_data
from levelset.client import Client, Hook
from levelset.errors import Unreachable
from levelset.http import Request, Response
from levelset.objects import Unstructured
from levelset.objects.kind_definition import definition_of
from levelset.storage import MemoryStorage

__all__ = ["RecordedWrite", "RestartableServer", "open_restartable_server"]

load_package_data()  # a server that is started on a virtual loop cannot wait for a thread

_READS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True)
class RecordedWrite:
    """One write that the server accepted."""

    at: float
    who: str
    method: str
    path: str
    status: int

    @property
    def is_create(self) -> bool:
        return self.status == 201

    @property
    def is_lease(self) -> bool:
        return "/leases" in self.path

    @property
    def is_event(self) -> bool:
        return "/events" in self.path


class RestartableServer:
    """A storage, the server that runs on it for a while, and the journal."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.journal: list[RecordedWrite] = []
        self._storage = MemoryStorage()
        self._server: ApiServer | None = None

    @property
    def revision(self) -> int:
        """The revision of the storage; writes that change nothing do not count."""
        return self._storage.revision

    async def start(self) -> None:
        """Starts a server on the storage."""
        server = ApiServer(self._storage, random=Random(self.random.random()))
        await server.start(listen=False)
        self._server = server

    async def stop(self) -> None:
        """Stops the server: watches end, and requests fail."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop()

    async def restart(self, *, down: float) -> None:
        """Stops the server for some seconds."""
        await self.stop()
        await asyncio.sleep(down)
        await self.start()

    async def client(self, who: str, *hooks: Hook) -> Client:
        """A client whose writes are in the journal under a name."""
        return await Client.connect(Connection(self, who), peer=ApiServer.owner, wire_hooks=hooks)

    async def define(self, client: Client, *kinds: type[Any]) -> None:
        """Installs the CRDs of some kinds."""
        for kind in kinds:
            await client.create(Unstructured(definition(kind)))

    def writes(self, *, since: float = 0.0, who: str | None = None) -> Sequence[RecordedWrite]:
        """The writes, without Leases and Events."""
        return [
            one
            for one in self.journal
            if one.at >= since and not one.is_lease and not one.is_event and who in {None, one.who}
        ]

    def handle(self, who: str, request: Request) -> Response | Awaitable[Response]:
        """Passes a request to the server, if it runs, and records accepted writes."""
        if self._server is None:
            raise Unreachable("the server is down", is_sent=False)
        answer = self._server.handle(request)
        if request.method in _READS:
            return answer
        return self._record(who, request, answer)

    async def _record(self, who: str, request: Request, answer: Response | Awaitable[Response]) -> Response:
        at = timing.now()
        found = answer if isinstance(answer, Response) else await answer
        if found.status < 300:
            self.journal.append(RecordedWrite(at, who, request.method, request.path, found.status))
        return found


class Connection:
    """The connection of one client, to whichever server runs."""

    def __init__(self, server: RestartableServer, who: str) -> None:
        self._server = server
        self._who = who

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        return self._server.handle(self._who, request)


def definition(kind: type[Any]) -> dict[str, Any]:
    """A CRD that accepts any spec and any status."""
    found = definition_of(kind)
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": found.gvk.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}},
        "subresources": {"status": {}} if found.status else {},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{found.plural}.{found.gvk.group}"},
        "spec": {
            "group": found.gvk.group,
            "scope": found.scope,
            "names": {"plural": found.plural, "kind": found.gvk.kind},
            "versions": [version],
        },
    }


@asynccontextmanager
async def open_restartable_server(
    *kinds: type[Any], seed: int = 1
) -> AsyncGenerator[tuple[RestartableServer, Client], None]:
    """A server with the CRDs of some kinds, and a client for the test itself."""
    server = RestartableServer(seed)
    await server.start()
    client = await server.client("people")
    try:
        async with client:
            await server.define(client, *kinds)
            yield server, client
    finally:
        await server.stop()
