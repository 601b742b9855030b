"""Searches for its child in a cache that does not show its own last write yet, and creates another one.

Modelled on snapp-incubator/route-to-contour-httpproxy#11 and cryostatio/cryostat-operator#163 (two ConsoleLinks,
created one right after the other): generated names together with a stale cache. A delay before the next reconcile, as
in the first of them, only makes it rarer.
"""

from levelset import Context, Controller, MergePatch, Resource, Spec, Status, owns
from levelset.errors import AlreadyExists
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Link", "broken", "expected", "fixed"]


class LinkSpec(Spec):
    text: str


class LinkStatus(Status):
    text: str = ""


class Link(Resource[LinkSpec, LinkStatus], api="zoo.example.dev/v1"):
    """A link with one menu entry."""


async def list_and_create(link: Link, ctx: Context) -> None:
    there = await ctx.list(ConfigMap, namespace=link.namespace, labels=f"link={link.name}", read="stale")
    if not there:
        await ctx.create(config_map(link, prefix=f"{link.name}-", labels={"link": link.name}), owner=link)
    await ctx.set_status(link, LinkStatus(text=link.spec.text))


async def create_by_name(link: Link, ctx: Context) -> None:
    try:
        await ctx.create(config_map(link, f"{link.name}-entry", labels={"link": link.name}), owner=link)
    except AlreadyExists:
        ctx.log.debug("the entry exists")
    await ctx.set_status(link, LinkStatus(text=link.spec.text))


async def scenario(user: Cluster) -> None:
    link = await user.create(Link.new("console", LinkSpec(text="Console")))
    await user.advance(1)
    await user.patch(link.ref, MergePatch({"spec": {"text": "The console"}}))
    await user.settled()


owned = owns(ConfigMap, metadata_only=False)
broken = Exploration(scenario, lambda: [Controller(Link, list_and_create, owned)])
fixed = Exploration(scenario, lambda: [Controller(Link, create_by_name, owned)])
expected = Expected("created twice", "create", "ConfigMap")
