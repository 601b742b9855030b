"""Adds what the spec asks for, and never takes it back when the spec does not ask for it any more.

Modelled on pulp/pulp-operator#613 (the reconcile does not handle that a field is removed) and
stackabletech/opa-operator#265. The fix also deletes what the spec does not name.
"""

from levelset import Context, Controller, Ref, Resource, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Database", "broken", "expected", "fixed"]


class DatabaseSpec(Spec):
    metrics: bool = False
    replicas: int = 1


class Database(Resource[DatabaseSpec, Status], api="zoo.example.dev/v1"):
    """A database, with metrics if wanted."""


async def add(database: Database, ctx: Context) -> None:
    await ctx.apply(config_map(database, database.name, replicas=database.spec.replicas), owner=database)
    if database.spec.metrics:
        await ctx.apply(config_map(database, f"{database.name}-metrics"), owner=database)


async def add_and_remove(database: Database, ctx: Context) -> None:
    await add(database, ctx)
    if not database.spec.metrics:
        metrics = Ref(ConfigMap, f"{database.name}-metrics", database.namespace)
        if await ctx.live(metrics) is not None:
            await ctx.delete(metrics)


async def scenario(user: Cluster) -> None:
    await user.create(Database.new("main", DatabaseSpec(metrics=True)))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(Database, add, owns(ConfigMap))])
fixed = Exploration(scenario, lambda: [Controller(Database, add_and_remove, owns(ConfigMap))])
expected = Expected("leaked", "apply", "ConfigMap")
