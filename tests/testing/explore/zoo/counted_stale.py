"""Makes as many children as a list says are missing, under made-up names, and believes the list.

Modelled on ray-project/kuberay#715 (more pods than wanted are made, then some are deleted at random, with what they
hold), kubernetes-sigs/cluster-api#13649 (three MachineSets for one deployment while the cache is behind) and
scylladb/scylla-operator#2492. A child whose name says which of them it is cannot be made twice, however old the list.
"""

from levelset import Context, Controller, Resource, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.habitat import ConfigMap, Expected, config_map

__all__ = ["Pool", "broken", "expected", "fixed"]


class PoolSpec(Spec):
    size: int


class Pool(Resource[PoolSpec, Status], api="zoo.example.dev/v1"):
    """Wants so many workers."""


async def make_what_is_missing(pool: Pool, ctx: Context) -> None:
    there = await ctx.list(ConfigMap, namespace=pool.namespace, labels=f"pool={pool.name}")
    for _ in range(pool.spec.size - len(there)):
        await ctx.create(config_map(pool, prefix=f"{pool.name}-", labels={"pool": pool.name}), owner=pool)


async def make_each(pool: Pool, ctx: Context) -> None:
    for number in range(pool.spec.size):
        await ctx.apply(config_map(pool, f"{pool.name}-{number}", labels={"pool": pool.name}), owner=pool)


async def scenario(people: Cluster) -> None:
    await people.create(Pool.new("workers", PoolSpec(size=2)))
    await people.settled()


followed = owns(ConfigMap, metadata_only=False)
broken = Exploration(scenario, lambda: [Controller(Pool, make_what_is_missing, followed)])
fixed = Exploration(scenario, lambda: [Controller(Pool, make_each, followed)])
expected = Expected("created twice", "create", "ConfigMap")
