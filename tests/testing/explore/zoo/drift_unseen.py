"""Compares only whether its child exists: what another writer changes in it, stays.

Modelled on open-feature/open-feature-operator#24 (ConfigMaps are not reconciled when they are modified). The fix
applies the whole child each time.
"""

from levelset import Context, Controller, MergePatch, Ref, Resource, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Flags", "broken", "expected", "fixed"]


class FlagsSpec(Spec):
    color: str


class FlagsStatus(Status):
    color: str = ""


class Flags(Resource[FlagsSpec, FlagsStatus], api="zoo.example.dev/v1", plural="flags"):
    """Feature flags, published as a ConfigMap."""


async def publish_changes(flags: Flags, ctx: Context) -> None:
    there = await ctx.find(Ref(ConfigMap, flags.name, flags.namespace))
    if there is None or flags.status is None or flags.status.color != flags.spec.color:
        await ctx.apply(config_map(flags, flags.name, color=flags.spec.color), owner=flags)
        await ctx.set_status(flags, FlagsStatus(color=flags.spec.color))


async def publish(flags: Flags, ctx: Context) -> None:
    await ctx.apply(config_map(flags, flags.name, color=flags.spec.color), owner=flags)
    await ctx.set_status(flags, FlagsStatus(color=flags.spec.color))


async def scenario(user: Cluster) -> None:
    flags = await user.create(Flags.new("shop", FlagsSpec(color="red")))
    await user.settled()
    await user.patch(flags.ref, MergePatch({"spec": {"color": "blue"}}))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(Flags, publish_changes, owns(ConfigMap))])
fixed = Exploration(scenario, lambda: [Controller(Flags, publish, owns(ConfigMap))])
expected = Expected("not healed", "end", "scenario")
