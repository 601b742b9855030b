"""Cleans up by first deleting the list of what is to be cleaned up.

A cleanup runs again from its beginning when it was interrupted, and must find what it left. Modelled on
Orange-OpenSource/casskop#370 (a crash between the two halves of a scale-down leaves the volume for ever, since what
told the operator to delete it is gone) and on the leaks of trunks and ports in
kubernetes-sigs/cluster-api-provider-openstack#1085.
"""

from levelset import Context, Controller, Ref, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.habitat import ConfigMap, Expected, config_map

__all__ = ["Backup", "broken", "expected", "fixed"]


class BackupSpec(Spec):
    parts: int


class Backup(Resource[BackupSpec, Status], api="zoo.example.dev/v1"):
    """Some parts, and an index of them; they may lie where no owner reference reaches."""


async def reconcile(backup: Backup, ctx: Context) -> None:
    parts = [f"{backup.name}-{number}" for number in range(backup.spec.parts)]
    await ctx.apply(config_map(backup, index_of(backup).name, parts=" ".join(parts)))
    for part in parts:
        await ctx.apply(config_map(backup, part))


async def clean_up_index_first(backup: Backup, ctx: Context) -> None:
    index = await ctx.live(index_of(backup))
    if index is None:
        return
    await ctx.delete(index)
    await delete_parts(index, ctx)


async def clean_up_index_last(backup: Backup, ctx: Context) -> None:
    index = await ctx.live(index_of(backup))
    if index is None:
        return
    await delete_parts(index, ctx)
    await ctx.delete(index)


async def delete_parts(index: ConfigMap, ctx: Context) -> None:
    for part in index.data["parts"].split():
        await ctx.delete(Ref(ConfigMap, part, index.namespace))


def index_of(backup: Backup) -> Ref[ConfigMap]:
    return Ref(ConfigMap, f"{backup.name}-index", backup.namespace)


async def scenario(people: Cluster) -> None:
    backup = await people.create(Backup.new("nightly", BackupSpec(parts=2)))
    await people.settled()
    await people.delete(backup.ref)
    await people.until_gone(backup.ref)


# Without an owner reference, parts are safe only because a cache begins with the newest state.
broken = Exploration(scenario, lambda: [Controller(Backup, reconcile, cleanup=clean_up_index_first)], older=False)
fixed = Exploration(scenario, lambda: [Controller(Backup, reconcile, cleanup=clean_up_index_last)], older=False)
expected = Expected("leaked", "delete", "ConfigMap")
