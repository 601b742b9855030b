"""How controllers are written: what a reconciler is given, and what its context answers with."""

from collections.abc import AsyncIterator, Iterable
from typing import assert_type

from levelset import (
    Action,
    Context,
    Controller,
    GroupVersionKind,
    Object,
    ObjectMeta,
    OnlyMetadata,
    Ref,
    Resource,
    Spec,
    Status,
    Unstructured,
    await_change,
    every,
    owns,
    requeue,
    source,
    watches,
)
from levelset.objects import PartialObjectMetadata
from levelset.runtime.cache import Snapshot
from levelset.runtime.controller import Outcome, RunningController


class WebsiteSpec(Spec):
    image: str = "nginx"


class WebsiteStatus(Status):
    ready: int = 0


class Website(Resource[WebsiteSpec, WebsiteStatus], api="example.dev/v1"):
    """A site."""


class ConfigMap(Object, api="v1"):
    data: dict[str, str] = {}


DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")


async def reconcile(site: Website, ctx: Context) -> Action | None:
    settings = await ctx.apply(ConfigMap(metadata=ObjectMeta(name=site.name)), owner=site)
    assert_type(settings, ConfigMap)
    assert_type(await ctx.apply({"apiVersion": "v1", "kind": "Secret"}), Unstructured)
    assert_type(await ctx.get(Ref(ConfigMap, "c", "default")), ConfigMap)
    assert_type(await ctx.find(ConfigMap, "c", namespace="default"), ConfigMap | None)
    assert_type(await ctx.find(DEPLOYMENT, "d"), Unstructured | None)
    assert_type(await ctx.get(OnlyMetadata(ConfigMap), "c"), PartialObjectMetadata)
    assert_type(await ctx.children(ConfigMap), list[ConfigMap])
    assert_type(await ctx.children(DEPLOYMENT), list[Unstructured])
    assert_type(await ctx.children(OnlyMetadata(ConfigMap)), list[PartialObjectMetadata])
    assert_type(await ctx.list(ConfigMap), Snapshot[ConfigMap])
    assert_type(ctx.cached(Ref(Website, "blog")), Website | None)
    assert_type(await ctx.live(site.ref), Website | None)
    assert_type(await ctx.set_status(site, WebsiteStatus(ready=1)), Website)
    assert_type(await ctx.set_condition(site, "Ready", "True"), Website)
    assert_type(await ctx.save(site.with_spec(image="blog:2")), Website)
    return requeue(minutes=1) if settings.data else await_change()


async def nothing_to_say(_: Website, ctx: Context) -> None:
    ctx.log.info("seen", attempt=ctx.attempt)


def sites_of(one: PartialObjectMetadata) -> Iterable[Ref[Website]]:
    return [Ref(Website, one.name, one.namespace)]


websites = Controller(Website, reconcile, owns(ConfigMap), watches(OnlyMetadata(ConfigMap), to=sites_of))
assert_type(websites, Controller[Website])
assert_type(Controller(Website, nothing_to_say), Controller[Website])


async def calls() -> AsyncIterator[Ref[Website]]:
    yield Ref(Website, "blog", "default")


several = [owns(ConfigMap), source(calls), every(3600)]
assert_type(Controller(Website, reconcile, *several), Controller[Website])


def at_work(running: RunningController[Website]) -> None:
    assert_type(running.store.get("blog", "default"), Website | None)
    assert_type(running.history[0], Outcome[Website])
    assert_type(running.is_idle, bool)
