"""A server, a client whose watches can be delayed, and a kind to write: shared by the tests of cached reads."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from levelset.apiserver import ApiServer
from levelset.apiserver.package_data import load_package_data
from levelset.client.client import Client
from levelset.client.transport.interface import BodyStream, Call, Hook, Response, Send
from levelset.objects import Object, ObjectMeta, Resource, Spec, Status, replace
from levelset.runtime.cache.cluster import Cluster

__all__ = ["CRD", "Bench", "Config", "Holding", "Website", "WebsiteStatus", "config", "open_bench", "website"]

load_package_data()  # a server that is started on a virtual loop cannot wait for a thread


class Config(Object, api="v1", kind="ConfigMap"):
    """A kind that every server has."""

    data: dict[str, str] = {}


class WebsiteSpec(Spec):
    image: str = "nginx"
    replicas: int = 1


class WebsiteStatus(Status):
    ready: int = 0


class Website(Resource[WebsiteSpec, WebsiteStatus], api="example.dev/v1"):
    """A kind with a status and a scale."""


def _crd() -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.ready"}
    parts = {"status": {}, "scale": paths}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": parts,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "websites.example.dev"},
        "spec": {
            "group": "example.dev",
            "scope": "Namespaced",
            "names": {"plural": "websites", "kind": "Website"},
            "versions": [version],
        },
    }


CRD = _crd()


def config(name: str, value: str = "", *, namespace: str = "default", **labels: str) -> Config:
    return Config(metadata=ObjectMeta(name=name, namespace=namespace, labels=labels), data={"value": value})


def website(name: str, **spec: Any) -> Website:
    return Website.new(name, replace(WebsiteSpec(), **spec), namespace="default")


class Holding:
    """Passes every call on, counts them, and holds back the chunks of watches between `hold` and `release`."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._lists_held = False
        self._streams: list[_Held] = []
        self.calls: list[Call] = []

    def hold(self) -> None:
        self._open.clear()

    def hold_lists(self) -> None:
        """Also holds back the responses to lists."""
        self._lists_held = True
        self.hold()

    def release(self) -> None:
        self._lists_held = False
        self._open.set()

    def cut(self) -> None:
        """Breaks all watches that are open."""
        for one in self._streams:
            one.is_cut = True

    def count(self, verb: str) -> int:
        """How many calls there were with this verb, discovery aside."""
        return sum(call.verb == verb and (verb != "get" or "/namespaces/" in call.path) for call in self.calls)

    async def __call__(self, call: Call, send: Send) -> Response:
        self.calls.append(call)
        if self._lists_held and call.verb == "list":
            await self._open.wait()
        answer = await send(call)
        if answer.stream is None:
            return answer
        held = _Held(answer.stream, self._open)
        self._streams.append(held)
        return Response(status=answer.status, headers=answer.headers, stream=held)


class _Held:
    def __init__(self, pieces: BodyStream, open_: asyncio.Event) -> None:
        self._pieces = pieces
        self._open = open_
        self.is_cut = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._read()

    async def _read(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            await self._open.wait()
            if self.is_cut:
                return
            yield piece

    async def aclose(self) -> None:
        await self._pieces.aclose()


class Bench:
    """One server; `client` and its cluster, whose watches `holding` delays; and `other`, another writer."""

    def __init__(self, server: ApiServer, client: Client, other: Client, cluster: Cluster, holding: Holding) -> None:
        self.server = server
        self.client = client
        self.other = other
        self.cluster = cluster
        self.holding = holding

    async def is_waiting(self, reading: "asyncio.Future[Any]") -> bool:
        """Whether a read has not returned yet, once the event loop is idle."""
        await asyncio.sleep(0.5)
        return not reading.done()


@asynccontextmanager
async def open_bench(wire_hooks: Sequence[Hook] = (), **options: Any) -> AsyncGenerator[Bench, None]:
    """A started bench; the options are those of the cluster."""
    server, holding = ApiServer(), Holding()
    await server.start(listen=False)
    try:
        async with (
            await Client.connect(server, wire_hooks=[*wire_hooks, holding]) as client,
            await Client.connect(server) as other,
            Cluster(client, **options) as cluster,
        ):
            await other.create(CRD)
            yield Bench(server, client, other, cluster, holding)
    finally:
        await server.stop()
