"""A loop in a test: a server in process, a cluster, somebody else's client, and reconcilers that keep a diary."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from levelset.aio import timing
from levelset.apiserver import ApiServer
from levelset.client import Answer, Call, Client, Send
from levelset.objects import Object, ObjectMeta, OwnerReference, Ref, Resource, Spec, Status
from levelset.runtime.cache import Cluster
from levelset.runtime.controller import Action, Context, Controller, Relation, RunningController, running
from tests.client.world import ConfigMap, website_crd

__all__ = ["ConfigMap", "Diary", "Loop", "Namespace", "Web", "WebSpec", "WebStatus", "child", "open_loop", "web"]


class WebSpec(Spec):
    image: str = "nginx"
    settings: str | None = None


class WebStatus(Status):
    seen: int = 0


class Web(Resource[WebSpec, WebStatus], api="example.dev/v1", kind="Website"):
    """A site."""

    spec: WebSpec = WebSpec()


class Namespace(Object, api="v1", scope="Cluster"):
    """A kind that is not in namespaces."""


def web(name: str = "blog", *, namespace: str = "default", **spec: Any) -> Web:
    return Web.new(name, WebSpec(**spec), namespace=namespace)


def child(name: str, *owners: OwnerReference, namespace: str = "default", **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace, owner_references=owners), data=data)


def web_ref(name: str = "blog", namespace: str = "default") -> Ref[Web]:
    return Ref(Web, name, namespace)


Step = Callable[[Any, Context], Awaitable[Action | None]]


@dataclass
class Diary:
    """A reconciler that notes each look: when, at what, why; then does `step`, if there is one."""

    step: Step | None = None
    looks: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    reasons: list[list[str]] = field(default_factory=list[list[str]])
    attempts: list[int] = field(default_factory=list[int])
    priorities: list[int] = field(default_factory=list[int])
    objects: list[Any] = field(default_factory=list[Any])
    running: Counter[str] = field(default_factory=Counter[str])
    most: int = 0
    most_of_one: int = 0

    async def __call__(self, obj: Any, ctx: Context) -> Action | None:
        name = ctx.ref.name
        self.looks.append((timing.now(), name))
        self.reasons.append([str(reason) for reason in ctx.reasons])
        self.attempts.append(ctx.attempt)
        self.priorities.append(ctx.request.priority)
        self.objects.append(obj)
        self.running[name] += 1
        self.most = max(self.most, self.running.total())
        self.most_of_one = max(self.most_of_one, self.running[name])
        try:
            return None if self.step is None else await self.step(obj, ctx)
        finally:
            self.running[name] -= 1

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.looks]

    @property
    def times(self) -> list[float]:
        """When the looks were, counted from the first."""
        return [round(when - self.looks[0][0], 3) for when, _ in self.looks]

    def clear(self) -> None:
        for noted in (self.looks, self.reasons, self.attempts, self.priorities, self.objects):
            noted.clear()


@dataclass
class Loop:
    """What a test of a controller needs."""

    server: ApiServer
    cluster: Cluster
    client: Client
    other: Client
    """Somebody else: the cluster hears of its writes only through the watch."""
    calls: list[Call]
    faults: list[Callable[[Call, Send], Awaitable[Answer | None]]]

    @asynccontextmanager
    async def run(
        self, controller: Controller[Any], *, ready: bool = True, **options: Any
    ) -> AsyncGenerator[RunningController[Any], None]:
        """The controller at work, ready and idle when the block begins."""
        async with running(controller, self.cluster, **options) as started:
            if ready:
                await started.wait_idle()
            yield started

    def watching(self, step: Step | None = None, *relations: Relation, **options: Any) -> tuple[Diary, Controller[Web]]:
        """A controller of Webs that keeps a diary."""
        diary = Diary(step)
        return diary, Controller(Web, diary, *relations, **options)

    async def settle(self, *controllers: RunningController[Any]) -> None:
        """Returns when the watches have told everything and nothing is due any more."""
        for _ in range(3):
            await asyncio.sleep(0.01)
            for one in controllers:
                await one.wait_idle()

    @property
    def writes(self) -> list[Call]:
        return [call for call in self.calls if call.verb in {"create", "update", "patch", "apply", "delete"}]


@asynccontextmanager
async def open_loop() -> AsyncGenerator[Loop, None]:
    """A started server with the definition of Web, and a cluster on it."""
    calls: list[Call] = []
    faults: list[Callable[[Call, Send], Awaitable[Answer | None]]] = []

    async def hook(call: Call, send: Send) -> Answer:
        calls.append(call)
        for fault in tuple(faults):
            answer = await fault(call, send)
            if answer is not None:
                return answer
        return await send(call)

    server = ApiServer()
    await server.start(listen=False)
    try:
        async with (
            await Client.connect(server, hooks=[hook]) as client,
            await Client.connect(server) as other,
            Cluster(client) as cluster,
        ):
            await other.create(website_crd())
            yield Loop(server, cluster, client, other, calls, faults)
    finally:
        await server.stop()
