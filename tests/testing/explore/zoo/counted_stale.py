"""Creates as many children as a stale list is missing, with generated names.

Modelled on ray-project/kuberay#715 (too many pods are created, then some are deleted at random),
kubernetes-sigs/cluster-api#13649 (three MachineSets for one deployment with a stale cache) and
scylladb/scylla-operator#2492. The fix derives the name of each child from its number, so that it cannot be created
twice.
"""

from levelset import Context, Controller, Resource, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Pool", "broken", "expected", "fixed"]


class PoolSpec(Spec):
    size: int


class Pool(Resource[PoolSpec, Status], api="zoo.example.dev/v1"):
    """A pool of workers."""


async def create_missing(pool: Pool, ctx: Context) -> None:
    there = await ctx.list(ConfigMap, namespace=pool.namespace, labels=f"pool={pool.name}")
    for _ in range(pool.spec.size - len(there)):
        await ctx.create(config_map(pool, prefix=f"{pool.name}-", labels={"pool": pool.name}), owner=pool)


async def apply_each(pool: Pool, ctx: Context) -> None:
    wanted = [f"{pool.name}-{number}" for number in range(pool.spec.size)]
    for name in wanted:
        await ctx.apply(config_map(pool, name, labels={"pool": pool.name}), owner=pool)
    for one in await ctx.list(ConfigMap, namespace=pool.namespace, labels=f"pool={pool.name}"):
        if one.name not in wanted:
            await ctx.delete(one)


async def scenario(user: Cluster) -> None:
    await user.create(Pool.new("workers", PoolSpec(size=2)))
    await user.settled()


owned = owns(ConfigMap, metadata_only=False)
broken = Exploration(scenario, lambda: [Controller(Pool, create_missing, owned)])
fixed = Exploration(scenario, lambda: [Controller(Pool, apply_each, owned)])
expected = Expected("created twice", "create", "ConfigMap")
