"""Takes a lock of its own making, which nobody takes off when its holder dies.

Modelled on pravega/pravega-operator#581 and pravega/bookkeeper-operator#175 (a lock that belongs to a pod which failed
keeps every new pod waiting): after a crash the next process has another name, finds the lock held, and waits for ever.
A Lease runs out; and for one object a controller needs no lock, since it never looks at it twice at the same time.
"""

from itertools import count
from typing import Any

from levelset import AlreadyExists, Context, Controller, Ref, Resource, Spec, Status, requeue
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.habitat import ConfigMap, Expected, config_map

__all__ = ["Migration", "broken", "expected", "fixed"]


class MigrationStatus(Status):
    steps: int = 0


class Migration(Resource[Spec, MigrationStatus], api="zoo.example.dev/v1"):
    """Wants two steps to be done, by one process at a time."""


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
    return [Controller(Migration, take_steps)]


async def scenario(people: Cluster) -> None:
    await people.create(Migration.new("schema", Spec()))
    await people.settled()


broken = Exploration(scenario, locking, outside=count)
fixed = Exploration(scenario, plain, outside=count)
expected = Expected("end state", "create", "ConfigMap")
