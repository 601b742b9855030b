"""A complete API server inside the test process: requests and watches without a socket."""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from levelset.apiserver.package_data import load_package_data
from levelset.apiserver.server import ApiServer
from levelset.http import Headers, Request, Response, iterate, read_all
from levelset.storage import MemoryStorage, Storage

__all__ = ["CONFIGMAPS", "InProcessServer", "configmap", "open_server", "widgets"]

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class InProcessServer:
    """Sends requests to a server as its owner, a member of `system:masters`."""

    def __init__(self, server: ApiServer, storage: Storage) -> None:
        self.server = server
        self.storage = storage

    async def send(
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
        return await self._handle(Request(method, path, urlencode(query), sent, data, ApiServer.owner))

    async def send_query(self, method: str, path: str, query: str) -> Response:
        """Sends a request with a query as it is, however it is encoded."""
        return await self._handle(Request(method, path, query, Headers(), b"", ApiServer.owner))

    async def send_raw(
        self, method: str, path: str, query: str, body: Any = None, *, kind: str = "application/json"
    ) -> Response:
        """Sends a JSON body, or none, with a query as it is."""
        sent = Headers({} if body is None else {"content-type": kind})
        data = b"" if body is None else json.dumps(body).encode()
        return await self._handle(Request(method, path, query, sent, data, ApiServer.owner))

    async def _handle(self, request: Request) -> Response:
        made = self.server.handle(request)
        return made if isinstance(made, Response) else await made

    async def request(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        response = await self.send(method, path, body, **more)
        return response.status, json.loads(await read_all(response))

    async def create(self, path: str, body: Any) -> Any:
        status, tree = await self.request("POST", path, body)
        assert status == 201, tree
        return tree

    async def watch(self, path: str, *, accept: str | None = None, **query: str) -> AsyncGenerator[Any, None]:
        """Yields the events of a watch as they arrive."""
        response = await self.send("GET", path, accept=accept, watch="true", **query)
        assert response.status == 200, response.body
        rest = b""
        async with aclosing(iterate(response.body)) as pieces:
            async for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield json.loads(line)

    async def revision(self) -> str:
        return str((await self.request("GET", CONFIGMAPS))[1]["metadata"]["resourceVersion"])


# Once for all tests: a server that starts on a virtual event loop cannot wait for a thread.
load_package_data()


@asynccontextmanager
async def open_server(storage: Storage | None = None, **options: Any) -> AsyncGenerator[InProcessServer, None]:
    """Starts a server without a socket."""
    used = MemoryStorage() if storage is None else storage
    server = ApiServer(used, **options)
    await server.start(listen=False)
    try:
        yield InProcessServer(server, used)
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
