"""Looks for its child in a cache that does not show its own last write yet, and makes another under a made-up name.

Modelled on snapp-incubator/route-to-contour-httpproxy#11 and cryostatio/cryostat-operator#163 (two ConsoleLinks, one
made right after the other): a name that the server makes up together with a cache that is behind. Waiting a little
before the next look, as the first of them did, only makes it rarer.
"""

from levelset import AlreadyExists, Context, Controller, MergePatch, Resource, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.habitat import ConfigMap, Expected, config_map

__all__ = ["Link", "broken", "expected", "fixed"]


class LinkSpec(Spec):
    text: str


class LinkStatus(Status):
    text: str = ""


class Link(Resource[LinkSpec, LinkStatus], api="zoo.example.dev/v1"):
    """Wants one entry in a menu."""


async def peek_and_create(link: Link, ctx: Context) -> None:
    there = await ctx.list(ConfigMap, namespace=link.namespace, labels=f"link={link.name}", read="stale")
    if not there:
        await ctx.create(config_map(link, prefix=f"{link.name}-", labels={"link": link.name}), owner=link)
    await ctx.set_status(link, LinkStatus(text=link.spec.text))


async def create_by_name(link: Link, ctx: Context) -> None:
    try:
        await ctx.create(config_map(link, f"{link.name}-entry", labels={"link": link.name}), owner=link)
    except AlreadyExists:
        ctx.log.debug("the entry is there")
    await ctx.set_status(link, LinkStatus(text=link.spec.text))


async def scenario(people: Cluster) -> None:
    link = await people.create(Link.new("console", LinkSpec(text="Console")))
    await people.advance(1)
    await people.patch(link.ref, MergePatch({"spec": {"text": "The console"}}))
    await people.settled()


followed = owns(ConfigMap, metadata_only=False)
broken = Exploration(scenario, lambda: [Controller(Link, peek_and_create, followed)])
fixed = Exploration(scenario, lambda: [Controller(Link, create_by_name, followed)])
expected = Expected("created twice", "create", "ConfigMap")
