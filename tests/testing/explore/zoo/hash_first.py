"""Writes the hash of the new configuration into its deployment before it writes the configuration.

Modelled on che-incubator/kubernetes-image-puller-operator#202 (if the second write fails, the members have started with
the old configuration, and the hash is right already, so that nothing starts them again). The fix writes the
configuration first.
"""

from levelset import Context, Controller, MergePatch, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Puller", "broken", "expected", "fixed"]


class PullerSpec(Spec):
    images: str = ""


class Puller(Resource[PullerSpec, Status], api="zoo.example.dev/v1"):
    """Pulls images; its members read the configuration when they start."""


async def write_config(puller: Puller, ctx: Context) -> None:
    await ctx.apply(config_map(puller, f"{puller.name}-config", images=puller.spec.images), owner=puller)


async def roll(puller: Puller, ctx: Context) -> None:
    """Starts the members with the configuration that is there, if they have not that of this hash."""
    members = config_map(puller, f"{puller.name}-members")
    there = await ctx.live(members.ref)
    if there is None or there.data["hash"] != puller.spec.images:
        config = await ctx.live(config_map(puller, f"{puller.name}-config").ref)
        reads = config.data["images"] if config else ""
        await ctx.apply(config_map(puller, members.name, hash=puller.spec.images, reads=reads), owner=puller)


async def roll_first(puller: Puller, ctx: Context) -> None:
    if await ctx.live(config_map(puller, f"{puller.name}-config").ref) is None:
        await write_config(puller, ctx)
    members = config_map(puller, f"{puller.name}-members")
    there = await ctx.live(members.ref)
    if there is None or there.data["hash"] != puller.spec.images:
        marked = config_map(puller, members.name, hash=puller.spec.images, reads=there.data["reads"] if there else "")
        await ctx.apply(marked, owner=puller)
        await write_config(puller, ctx)
        await ctx.patch(members.ref, MergePatch({"data": {"reads": puller.spec.images}}))


async def config_first(puller: Puller, ctx: Context) -> None:
    await write_config(puller, ctx)
    await roll(puller, ctx)


async def scenario(user: Cluster) -> None:
    puller = await user.create(Puller.new("images", PullerSpec(images="a")))
    await user.settled()
    await user.patch(puller.ref, MergePatch({"spec": {"images": "b"}}))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(Puller, roll_first)], kinds=[ConfigMap], allowed=["not watched"])
fixed = Exploration(scenario, lambda: [Controller(Puller, config_first)], kinds=[ConfigMap], allowed=["not watched"])
expected = Expected("end state", "apply", "ConfigMap")
