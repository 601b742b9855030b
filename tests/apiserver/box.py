"""A whole API server inside the test: requests and watches without a socket."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from levelset.apiserver.package_data import read_data
from levelset.apiserver.server import ApiServer
from levelset.http import Headers, Request, Response, iterate
from levelset.storage import MemoryStorage, Storage

__all__ = ["CONFIGMAPS", "Box", "configmap", "open_box", "widgets"]

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class Box:
    """Sends requests as the owner."""

    def __init__(self, server: ApiServer, storage: Storage) -> None:
        self.server = server
        self.storage = storage

    async def answer(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        accept: str | None = None,
        kind: str | None = None,
        **query: str,
    ) -> Response:
        headers = {"accept": accept, "content-type": kind}
        sent = Headers({name: value for name, value in headers.items() if value is not None})
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        request = Request(method, path, urlencode(query), sent, data, ApiServer.owner)
        made = self.server.handle(request)
        return made if isinstance(made, Response) else await made

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        response = await self.answer(method, path, body, **more)
        assert isinstance(response.body, bytes)
        return response.status, json.loads(response.body)

    async def make(self, path: str, body: Any) -> Any:
        status, tree = await self.ask("POST", path, body)
        assert status == 201, tree
        return tree

    async def watch(self, path: str, *, accept: str | None = None, **query: str) -> AsyncGenerator[Any, None]:
        """The events of a watch, as they come."""
        response = await self.answer("GET", path, accept=accept, watch="true", **query)
        assert response.status == 200, response.body
        rest = b""
        async with aclosing(iterate(response.body)) as pieces:
            async for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield json.loads(line)

    async def revision(self) -> str:
        return str((await self.ask("GET", CONFIGMAPS))[1]["metadata"]["resourceVersion"])


# Once for all tests: a server that is started on a virtual loop cannot wait for a thread.
read_data()


@asynccontextmanager
async def open_box(storage: Storage | None = None) -> AsyncGenerator[Box, None]:
    """A started server without a socket."""
    kept = MemoryStorage() if storage is None else storage
    server = ApiServer(kept)
    await server.start(listen=False)
    try:
        yield Box(server, kept)
    finally:
        await server.stop()


def configmap(name: str, *, owners: list[Any] | None = None, **metadata: Any) -> Any:
    if owners is not None:
        metadata["ownerReferences"] = owners
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def widgets(**spec: Any) -> Any:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version],
            **spec,
        },
    }
