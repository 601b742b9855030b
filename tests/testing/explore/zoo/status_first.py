"""Treats its own status as the truth: it writes "Created" before it creates.

Modelled on Orange-OpenSource/casskop#370 (the phase of the last operation decides what is done next, and a crash leaves
it ahead of or behind the real state) and coreos/etcd-operator#632 (status as the source of truth after a restart). A
status is written last, from what was observed.
"""

from levelset import Context, Controller, Resource, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Shop", "broken", "expected", "fixed"]


class ShopStatus(Status):
    phase: str = ""


class Shop(Resource[Spec, ShopStatus], api="zoo.example.dev/v1"):
    """A shop with a shelf."""


async def status_then_create(shop: Shop, ctx: Context) -> None:
    if shop.status is not None and shop.status.phase == "Created":
        return
    await ctx.set_status(shop, ShopStatus(phase="Created"))
    await ctx.create(config_map(shop, f"{shop.name}-shelf"), owner=shop)


async def apply_then_status(shop: Shop, ctx: Context) -> None:
    await ctx.apply(config_map(shop, f"{shop.name}-shelf"), owner=shop)
    await ctx.set_status(shop, ShopStatus(phase="Created"))


async def scenario(user: Cluster) -> None:
    await user.create(Shop.new("corner", Spec()))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(Shop, status_then_create)])
fixed = Exploration(scenario, lambda: [Controller(Shop, apply_then_status, owns(ConfigMap))])
expected = Expected("end state", "patch", "Shop")
