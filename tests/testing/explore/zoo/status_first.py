"""Takes its own status for the truth: it says "created" before it creates, and believes that ever after.

Modelled on Orange-OpenSource/casskop#370 (the phase of the last operation decides what is done next, and a crash leaves
it ahead of, or behind, what was done) and on coreos/etcd-operator#632 (status as the source of truth after a restart).
A status is what was seen, written last; what is to be done is found out by looking.
"""

from levelset import Context, Controller, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.habitat import Expected, config_map

__all__ = ["Shop", "broken", "expected", "fixed"]


class ShopStatus(Status):
    phase: str = ""


class Shop(Resource[Spec, ShopStatus], api="zoo.example.dev/v1"):
    """Wants a shelf."""


async def say_and_do(shop: Shop, ctx: Context) -> None:
    if shop.status is not None and shop.status.phase == "Created":
        return
    await ctx.set_status(shop, ShopStatus(phase="Created"))
    await ctx.create(config_map(shop, f"{shop.name}-shelf"), owner=shop)


async def do_and_say(shop: Shop, ctx: Context) -> None:
    await ctx.apply(config_map(shop, f"{shop.name}-shelf"), owner=shop)
    await ctx.set_status(shop, ShopStatus(phase="Created"))


async def scenario(people: Cluster) -> None:
    await people.create(Shop.new("corner", Spec()))
    await people.settled()


broken = Exploration(scenario, lambda: [Controller(Shop, say_and_do)])
fixed = Exploration(scenario, lambda: [Controller(Shop, do_and_say)])
expected = Expected("end state", "patch", "Shop")
