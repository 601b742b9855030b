"""Uses a lock object that is not released when its holder crashes.

Modelled on pravega/pravega-operator#581 and pravega/bookkeeper-operator#175 (the lock of a failed pod blocks every new
pod): after a crash the next process has another name, finds the lock held, and waits for ever. A Lease expires; and for
one object a controller needs no lock, since it is never reconciled twice at the same time.
"""

from itertools import count
from typing import Any

from levelset import Context, Controller, Ref, Resource, Spec, Status, owns, requeue
from levelset.errors import AlreadyExists
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Migration", "broken", "expected", "fixed"]


class MigrationStatus(Status):
    steps: int = 0


class Migration(Resource[Spec, MigrationStatus], api="zoo.example.dev/v1"):
    """A migration with two steps, run by one process at a time."""


def locking(names: "count[int]") -> list[Controller[Any]]:
    me = f"process-{next(names)}"

    async def reconcile(migration: Migration, ctx: Context) -> Any:
        lock = Ref(ConfigMap, f"{migration.name}-lock", migration.namespace)
        try:
            held = await ctx.create(config_map(migration, lock.name, holder=me))
        except AlreadyExists:
            held = await ctx.get(lock, read="live")
        if held.data["holder"] != me:
            return requeue(10)
        await take_steps(migration, ctx)
        await ctx.delete(lock)
        return None

    return [Controller(Migration, reconcile)]


async def take_steps(migration: Migration, ctx: Context) -> None:
    for number in (1, 2):
        await ctx.apply(config_map(migration, f"{migration.name}-{number}"), owner=migration)
    await ctx.set_status(migration, MigrationStatus(steps=2))


def plain(names: "count[int]") -> list[Controller[Any]]:
    return [Controller(Migration, take_steps, owns(ConfigMap))]


async def scenario(user: Cluster) -> None:
    await user.create(Migration.new("schema", Spec()))
    await user.settled()


broken = Exploration(scenario, locking, outside=count)
fixed = Exploration(scenario, plain, outside=count)
expected = Expected("end state", "create", "ConfigMap")
