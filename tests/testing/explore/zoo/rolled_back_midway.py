"""Upgrades members one by one from a stored index, and continues there when the user has changed the version since.

Modelled on pingcap/tidb-operator#5204 (a change that is reverted in the middle of an upgrade is never rolled back) and
operator-framework/operator-controller#1296. The fix compares each member with the spec.
"""

from typing import Any

from levelset import Context, Controller, MergePatch, Resource, Retry, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Shards", "broken", "expected", "fixed"]

MEMBERS = 3


class ShardsSpec(Spec):
    version: str


class ShardsStatus(Status):
    version: str = ""
    upgraded: int = 0


class Shards(Resource[ShardsSpec, ShardsStatus], api="zoo.example.dev/v1", plural="shards"):
    """A database of three members, which are upgraded one after the other."""


def member(shards: Shards, number: int) -> ConfigMap:
    return config_map(shards, f"{shards.name}-{number}", version=shards.spec.version)


async def upgrade_from_index(shards: Shards, ctx: Context) -> None:
    status = shards.status or ShardsStatus()
    if status.version == shards.spec.version:
        return
    await ctx.apply(member(shards, status.upgraded), owner=shards)
    if status.upgraded + 1 < MEMBERS:
        await ctx.set_status(shards, ShardsStatus(version=status.version, upgraded=status.upgraded + 1))
        raise Retry("the member has to become ready", seconds=1)
    await ctx.set_status(shards, ShardsStatus(version=shards.spec.version))


async def upgrade_what_differs(shards: Shards, ctx: Context) -> None:
    for number in range(MEMBERS):
        wanted = member(shards, number)
        found = await ctx.find(wanted.ref)
        if found is None or found.data != wanted.data:
            await ctx.apply(wanted, owner=shards)
            raise Retry("the member has to become ready", seconds=1)
    await ctx.set_status(shards, ShardsStatus(version=shards.spec.version))


async def scenario(user: Cluster) -> None:
    shards = await user.create(Shards.new("main", ShardsSpec(version="1")))
    await user.advance(3)
    await user.patch(shards.ref, MergePatch({"spec": {"version": "2"}}))
    await user.advance(3)
    await user.patch(shards.ref, MergePatch({"spec": {"version": "3"}}))
    await user.advance(3)


def exploration(reconcile: Any) -> Exploration:
    return Exploration(
        scenario, lambda: [Controller(Shards, reconcile, owns(ConfigMap))], allowed=["not healed: ConfigMap"]
    )


broken = exploration(upgrade_from_index)
fixed = exploration(upgrade_what_differs)
expected = Expected("end state", "apply", "ConfigMap")
