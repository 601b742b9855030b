"""Controllers and runs for the tests of recordings: each uses one more of what a reconciler may do."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from levelset import (
    Context,
    Controller,
    GiveUp,
    MergePatch,
    Object,
    ObjectMeta,
    Ref,
    Resource,
    Retry,
    Spec,
    Status,
    owns,
    requeue,
)
from levelset.testing import Cluster, open_cluster, run

__all__ = [
    "Config",
    "Website",
    "WebsiteSpec",
    "WebsiteStatus",
    "config",
    "create_and_update",
    "deploy",
    "deployment",
    "many_things",
    "record",
    "site",
]


class WebsiteSpec(Spec):
    image: str = ""
    token: str = ""


class WebsiteStatus(Status):
    ready: int = 0
    seen: str = ""


class Website(Resource[WebsiteSpec, WebsiteStatus], api="example.dev/v1"):
    """A website."""


class Config(Object, api="v1", kind="ConfigMap"):
    """A ConfigMap."""

    data: dict[str, str] = {}


def site(name: str = "blog", image: str = "nginx", token: str = "") -> Website:
    return Website.new(name, WebsiteSpec(image=image, token=token))


def config(site: Website, **data: str) -> Config:
    return Config(metadata=ObjectMeta(name=site.name, namespace=site.namespace), data=data)


async def deploy(found: Website, ctx: Context) -> Any:
    """A child, a pause and a status; what differs from run to run comes from the context."""
    if not await ctx.children(Config):
        when, number = ctx.now().isoformat(), str(ctx.random.random())
        await ctx.apply(config(found, image=found.spec.image, when=when, number=number), owner=found)
    await asyncio.sleep(0.5)
    await ctx.set_status(found, WebsiteStatus(ready=1, seen=found.spec.image))
    ctx.record(found, "Deployed", f"runs {found.spec.image}")
    return requeue(60)


async def many_things(found: Website, ctx: Context) -> Any:
    """Child tasks, a timeout that fires, errors that are retried, and giving up."""
    if found.spec.image == "bad":
        raise GiveUp("no such image")
    if found.spec.image == "flaky" and ctx.attempt < 2:
        raise Retry("not yet")
    if found.spec.image == "broken" and ctx.attempt < 1:
        raise ValueError("broken")
    names = [f"{found.name}-{number}" for number in range(3)]

    async def put(name: str) -> None:
        await asyncio.sleep(0.1 if name.endswith("1") else 0.2)
        metadata = ObjectMeta(name=name, namespace=found.namespace)
        await ctx.apply(Config(metadata=metadata, data={"image": found.spec.image}), owner=found)

    await asyncio.gather(*map(put, names))
    try:
        async with asyncio.timeout(0.3):
            await asyncio.Event().wait()
    except TimeoutError:
        await ctx.set_status(found, WebsiteStatus(ready=len(await ctx.children(Config))))
    return None


def deployment(**options: Any) -> Controller[Website]:
    return Controller(Website, deploy, owns(Config), **{"name": "websites", **options})


def record(
    path: Any, *controllers: Controller[Any], use: Callable[[Cluster], Awaitable[object]], **options: Any
) -> None:
    """Runs controllers in virtual time while `use` acts as the user, and records them."""

    async def play() -> None:
        async with open_cluster() as cluster, cluster.running(*controllers, record=path, **options):
            await use(cluster)

    run(play())


async def create_and_update(cluster: Cluster, images: Sequence[str] = ("nginx", "apache", "caddy")) -> None:
    """Three websites, one of which is changed and one deleted."""
    for number, image in enumerate(images):
        await cluster.create(site(f"site-{number}", image))
    await cluster.advance(5, allow_errors=True)
    await cluster.patch(Ref(Website, "site-0"), MergePatch({"spec": {"image": "nginx:2"}}))
    await cluster.advance(5, allow_errors=True)
    await cluster.delete(Website, "site-1")
    await cluster.advance(100, allow_errors=True)
