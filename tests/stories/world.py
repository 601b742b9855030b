"""The world in which stories happen: a server that can go down and come back, and a journal of all that is written.

Everybody who takes part has a client of his own; what reaches the server is written down with the time and the name of
who sent it, so that a story can say who wrote what, and what was not written any more.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from levelset.aio import timing
from levelset.apiserver import ApiServer
from levelset.apiserver.package_data import read_data
from levelset.client import Client, Hook
from levelset.errors import Unreachable
from levelset.http import Request, Response
from levelset.objects import Unstructured
from levelset.objects.kind_definition import definition_of
from levelset.storage import MemoryStorage

__all__ = ["World", "Written", "open_world"]

read_data()  # a server that is started on a virtual loop cannot wait for a thread

_READS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True)
class Written:
    """One write that the server took."""

    at: float
    who: str
    method: str
    path: str
    status: int

    @property
    def is_made(self) -> bool:
        return self.status == 201

    @property
    def is_lease(self) -> bool:
        return "/leases" in self.path

    @property
    def is_record(self) -> bool:
        return "/events" in self.path


class World:
    """A storage that stays, the server that stands on it for a while, and the journal."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.journal: list[Written] = []
        self._storage = MemoryStorage()
        self._server: ApiServer | None = None

    @property
    def revision(self) -> int:
        """How many changes the storage has seen; a write that changes nothing is none."""
        return self._storage.revision

    async def start(self) -> None:
        """Puts a server on the storage."""
        server = ApiServer(self._storage, random=Random(self.random.random()))
        await server.start(listen=False)
        self._server = server

    async def stop(self) -> None:
        """Takes the server away: watches end, and nobody is answered any more."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop()

    async def restart(self, *, down: float) -> None:
        """Takes the server away for some seconds."""
        await self.stop()
        await asyncio.sleep(down)
        await self.start()

    async def client(self, who: str, *hooks: Hook) -> Client:
        """A client whose writes stand in the journal under a name."""
        return await Client.connect(Door(self, who), peer=ApiServer.owner, wire_hooks=hooks)

    async def define(self, client: Client, *kinds: type[Any]) -> None:
        """Has the server know some kinds."""
        for kind in kinds:
            await client.create(Unstructured(definition(kind)))

    def writes(self, *, since: float = 0.0, who: str | None = None) -> Sequence[Written]:
        """What was written, leases and records left out."""
        return [
            one
            for one in self.journal
            if one.at >= since and not one.is_lease and not one.is_record and who in {None, one.who}
        ]

    def handle(self, who: str, request: Request) -> Response | Awaitable[Response]:
        """Asks the server, if there is one, and notes what it takes."""
        if self._server is None:
            raise Unreachable("there is no server just now", is_sent=False)
        answer = self._server.handle(request)
        if request.method in _READS:
            return answer
        return self._noted(who, request, answer)

    async def _noted(self, who: str, request: Request, answer: Response | Awaitable[Response]) -> Response:
        at = timing.now()
        found = answer if isinstance(answer, Response) else await answer
        if found.status < 300:
            self.journal.append(Written(at, who, request.method, request.path, found.status))
        return found


class Door:
    """Where one of those who take part reaches the server, whichever is there."""

    def __init__(self, world: World, who: str) -> None:
        self._world = world
        self._who = who

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        return self._world.handle(self._who, request)


def definition(kind: type[Any]) -> dict[str, Any]:
    """A definition that takes any spec and any status."""
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
async def open_world(*kinds: type[Any], seed: int = 1) -> AsyncGenerator[tuple[World, Client], None]:
    """A world with a server that knows some kinds, and the client of the people who want something."""
    world = World(seed)
    await world.start()
    client = await world.client("people")
    try:
        async with client:
            await world.define(client, *kinds)
            yield world, client
    finally:
        await world.stop()
