"""Gives up after some failed attempts, and is not reconciled again when the server is back.

Modelled on kubermatic/kubermatic#5263 (the reconcile is dropped while the API server is down, and nothing triggers it
again). The fix lets the error propagate, so that the reconcile is retried.
"""

from levelset import Context, Controller, LevelsetError, Resource, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Addon", "broken", "expected", "fixed"]

MOST = 2


class Addon(Resource[Spec, Status], api="zoo.example.dev/v1"):
    """An addon, installed as a ConfigMap."""


async def give_up(addon: Addon, ctx: Context) -> None:
    try:
        await install(addon, ctx)
    except LevelsetError as error:
        if ctx.attempt < MOST:
            raise
        ctx.log.warning("not installed", error=str(error))


async def install(addon: Addon, ctx: Context) -> None:
    await ctx.apply(config_map(addon, f"{addon.name}-addon"), owner=addon)


async def scenario(user: Cluster) -> None:
    await user.create(Addon.new("dns", Spec()))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(Addon, give_up, owns(ConfigMap))])
fixed = Exploration(scenario, lambda: [Controller(Addon, install, owns(ConfigMap))])
expected = Expected("end state", "apply", "ConfigMap")
