"""A controller loop in a test: a server in process, a cluster, another writer's client, and recording reconcilers."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from levelset.aio import timing
from levelset.apiserver import ApiServer
from levelset.client import Call, Client, Response, Send
from levelset.objects import Object, ObjectMeta, OwnerReference, Ref, Resource, Spec, Status
from levelset.runtime.cache import Cluster
from levelset.runtime.controller import Action, Context, Controller, Relation, RunningController, running
from tests.client.fixtures import ConfigMap, website_crd

__all__ = [
    "ConfigMap",
    "ControllerLoop",
    "Namespace",
    "RecordingReconciler",
    "Web",
    "WebSpec",
    "WebStatus",
    "child",
    "open_loop",
    "web",
]


class WebSpec(Spec):
    image: str = "nginx"
    settings: str | None = None


class WebStatus(Status):
    seen: int = 0


class Web(Resource[WebSpec, WebStatus], api="example.dev/v1", kind="Website"):
    """A site."""

    spec: WebSpec = WebSpec()


class Namespace(Object, api="v1", scope="Cluster"):
    """A cluster-scoped kind."""


def web(name: str = "blog", *, namespace: str = "default", **spec: Any) -> Web:
    return Web.new(name, WebSpec(**spec), namespace=namespace)


def child(name: str, *owners: OwnerReference, namespace: str = "default", **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace, owner_references=owners), data=data)


def web_ref(name: str = "blog", namespace: str = "default") -> Ref[Web]:
    return Ref(Web, name, namespace)


Step = Callable[[Any, Context], Awaitable[Action | None]]


@dataclass
class RecordingReconciler:
    """A reconciler that records each reconcile (when, which object, why), then runs `step`, if given."""

    step: Step | None = None
    reconciles: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    reasons: list[list[str]] = field(default_factory=list[list[str]])
    attempts: list[int] = field(default_factory=list[int])
    priorities: list[int] = field(default_factory=list[int])
    objects: list[Any] = field(default_factory=list[Any])
    running: Counter[str] = field(default_factory=Counter[str])
    most: int = 0
    most_of_one: int = 0

    async def __call__(self, obj: Any, ctx: Context) -> Action | None:
        name = ctx.ref.name
        self.reconciles.append((timing.now(), name))
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
        return [name for _, name in self.reconciles]

    @property
    def times(self) -> list[float]:
        """The times of the reconciles, relative to the first."""
        return [round(when - self.reconciles[0][0], 3) for when, _ in self.reconciles]

    def clear(self) -> None:
        for one in (self.reconciles, self.reasons, self.attempts, self.priorities, self.objects):
            one.clear()


@dataclass
class ControllerLoop:
    """A server, clients, a cluster, and functions to run controllers on it."""

    server: ApiServer
    cluster: Cluster
    client: Client
    other: Client
    """The client of another writer: the cluster sees its writes only through the watch."""
    calls: list[Call]
    faults: list[Callable[[Call, Send], Awaitable[Response | None]]]

    @asynccontextmanager
    async def run(
        self, controller: Controller[Any], *, ready: bool = True, **options: Any
    ) -> AsyncGenerator[RunningController[Any], None]:
        """Runs a controller; it is ready and idle when the block begins."""
        async with running(controller, self.cluster, **options) as started:
            if ready:
                await started.wait_idle()
            yield started

    def recording_controller(
        self, step: Step | None = None, *relations: Relation, **options: Any
    ) -> tuple[RecordingReconciler, Controller[Web]]:
        """A controller of Webs with a recording reconciler."""
        recorded = RecordingReconciler(step)
        return recorded, Controller(Web, recorded, *relations, **options)

    async def settle(self, *controllers: RunningController[Any]) -> None:
        """Returns when all events have been processed and no request is due."""
        for _ in range(3):
            await asyncio.sleep(0.01)
            for one in controllers:
                await one.wait_idle()

    @property
    def writes(self) -> list[Call]:
        return [call for call in self.calls if call.verb in {"create", "update", "patch", "apply", "delete"}]


@asynccontextmanager
async def open_loop() -> AsyncGenerator[ControllerLoop, None]:
    """A started server with the CRD of Web, and a cluster on it."""
    calls: list[Call] = []
    faults: list[Callable[[Call, Send], Awaitable[Response | None]]] = []

    async def hook(call: Call, send: Send) -> Response:
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
            yield ControllerLoop(server, cluster, client, other, calls, faults)
    finally:
        await server.stop()
