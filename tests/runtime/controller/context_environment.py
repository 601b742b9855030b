"""An environment for tests of `Context`: a server in process, a cluster, contexts, and hooks that inject faults."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from levelset.aio import timing
from levelset.apiserver import ApiServer
from levelset.client import Call, Client, Response, Send
from levelset.objects import Condition, Resource, Spec, Status
from levelset.runtime.cache import Cluster
from levelset.runtime.controller.context import Context
from levelset.runtime.controller.context_dependencies import ContextDependencies, open_dependencies
from levelset.runtime.controller.request import Reason, Request
from tests.client.fixtures import ConfigMap, website_crd

__all__ = ["ConfigMap", "ContextEnvironment", "Site", "SiteSpec", "SiteStatus", "config", "open_environment", "site"]

_NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)

Fault = Callable[[Call, Send], Any]


class SiteSpec(Spec):
    image: str = "nginx"
    replicas: int = 1


class SiteStatus(Status):
    phase: str = ""
    replicas: int = 0
    checked: datetime | None = None
    conditions: tuple[Condition, ...] = ()


class Site(Resource[SiteSpec, SiteStatus], api="example.dev/v1", kind="Website"):
    """A site."""

    spec: SiteSpec = SiteSpec()


def site(name: str = "blog", **spec: Any) -> Site:
    return Site.new(name, SiteSpec(**spec), namespace="default")


def config(name: str = "settings", *, namespace: str | None = None, **data: str) -> ConfigMap:
    made = ConfigMap(data=data)
    return made.with_metadata(name=name, namespace=namespace)


@dataclass
class ContextEnvironment:
    """A server, clients, a cluster and the dependencies of a controller."""

    cluster: Cluster
    client: Client
    """The client of the cluster; its writes are seen by the cache at once."""
    other: Client
    """The client of another writer: the cluster sees its writes only through the watch."""
    dependencies: ContextDependencies
    calls: list[Call]
    woken: list[Any]
    faults: list[Fault]

    def context(self, obj: Any, *reasons: Reason, attempt: int = 0) -> Context:
        return Context(obj, Request(obj.ref, reasons, attempt=attempt), self.dependencies)

    @property
    def writes(self) -> list[Call]:
        return [call for call in self.calls if call.verb in {"create", "update", "patch", "apply", "delete"}]

    async def start(self, obj: Any) -> Any:
        """Creates an object as another writer and returns it as cached; these calls are not recorded."""
        made = await self.other.create(obj)
        await self.cluster.wait_ready()
        found = await self.cluster.get(made.ref, read="consistent")
        self.calls.clear()
        return found


@asynccontextmanager
async def open_environment(*kinds: Any, **options: Any) -> AsyncGenerator[ContextEnvironment, None]:
    """An environment whose cluster watches Sites, and ConfigMaps or other kinds."""
    calls: list[Call] = []
    woken: list[Any] = []
    faults: list[Fault] = []

    async def hook(call: Call, send: Send) -> Response:
        calls.append(call)
        for fault in faults:
            answer: Response | None = await fault(call, send)
            if answer is not None:
                return answer
        return await send(call)

    began = timing.now()
    options.setdefault("now", lambda: _NOON + timedelta(seconds=timing.now() - began))
    server = ApiServer()
    await server.start(listen=False)
    try:
        async with await Client.connect(server, hooks=[hook]) as client, await Client.connect(server) as other:
            await other.create(website_crd())
            async with Cluster(client) as cluster:
                for kind in (Site, *(kinds or (ConfigMap,))):
                    cluster.declare(kind)
                await cluster.wait_ready()
                async with open_dependencies(
                    cluster, controller_name="sites", wake=woken.append, **options
                ) as dependencies:
                    calls.clear()
                    yield ContextEnvironment(cluster, client, other, dependencies, calls, woken, faults)
    finally:
        await server.stop()
