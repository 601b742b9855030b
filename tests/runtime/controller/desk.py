"""A reconciler's place: a server in the test, a cluster that watches it, and contexts to act with; faults by hooks."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from levelset.aio import timing
from levelset.apiserver import ApiServer
from levelset.client import Answer, Call, Client, Send
from levelset.objects import Condition, Resource, Spec, Status
from levelset.runtime.cache import Cluster
from levelset.runtime.controller.context import Context
from levelset.runtime.controller.context_dependencies import Services, open_services
from levelset.runtime.controller.request import Reason, Request
from tests.client.world import ConfigMap, website_crd

__all__ = ["ConfigMap", "Desk", "Site", "SiteSpec", "SiteStatus", "config", "open_desk", "site"]

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
class Desk:
    """What a test of a context needs."""

    cluster: Cluster
    client: Client
    """The client of the cluster, for the test itself and for what others do."""
    other: Client
    """Somebody else: the cluster does not hear of its writes but through the watch."""
    services: Services
    calls: list[Call]
    woken: list[Any]
    faults: list[Fault]

    def context(self, obj: Any, *reasons: Reason, attempt: int = 0) -> Context:
        return Context(obj, Request(obj.ref, reasons, attempt=attempt), self.services)

    @property
    def writes(self) -> list[Call]:
        return [call for call in self.calls if call.verb in {"create", "update", "patch", "apply", "delete"}]

    async def start(self, obj: Any) -> Any:
        """The object, made by somebody, as the cache shows it; nothing of that is counted."""
        made = await self.other.create(obj)
        await self.cluster.wait_ready()
        found = await self.cluster.get(made.ref, read="consistent")
        self.calls.clear()
        return found


@asynccontextmanager
async def open_desk(*kinds: Any, **options: Any) -> AsyncGenerator[Desk, None]:
    """A desk whose cluster watches Sites, ConfigMaps and other kinds."""
    calls: list[Call] = []
    woken: list[Any] = []
    faults: list[Fault] = []

    async def hook(call: Call, send: Send) -> Answer:
        calls.append(call)
        for fault in faults:
            answer: Answer | None = await fault(call, send)
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
                async with open_services(cluster, controller_name="sites", wake=woken.append, **options) as services:
                    calls.clear()
                    yield Desk(cluster, client, other, services, calls, woken, faults)
    finally:
        await server.stop()
