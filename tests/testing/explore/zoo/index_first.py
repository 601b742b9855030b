"""Deletes the index of its parts before the parts when it cleans up.

An interrupted cleanup runs again from the start and needs the index. Modelled on Orange-OpenSource/casskop#370 (a crash
between the two halves of a scale-down leaks the volume) and the leaked trunks and ports of
kubernetes-sigs/cluster-api-provider-openstack#1085.
"""

from levelset import Context, Controller, Ref, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Backup", "broken", "expected", "fixed"]


class BackupSpec(Spec):
    parts: int


class Backup(Resource[BackupSpec, Status], api="zoo.example.dev/v1"):
    """A backup with parts and an index, without owner references."""


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


async def scenario(user: Cluster) -> None:
    backup = await user.create(Backup.new("nightly", BackupSpec(parts=2)))
    await user.settled()
    await user.delete(backup.ref)
    await user.until_gone(backup.ref)


# Without owner references, parts are safe only because caches start with the newest state.
broken = Exploration(
    scenario, lambda: [Controller(Backup, reconcile, cleanup=clean_up_index_first)], stale_restarts=False
)
fixed = Exploration(
    scenario, lambda: [Controller(Backup, reconcile, cleanup=clean_up_index_last)], stale_restarts=False
)
expected = Expected("leaked", "delete", "ConfigMap")
