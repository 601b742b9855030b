"""Reads claims page by page, then volumes, and deletes volumes whose claim was created in the meantime.

All pages of a list show the moment of the first one. Modelled on mlrun/mlrun#6360 (the pages of a large list are read
minutes apart, until the continue token expires) and kyverno/kyverno#17263. The fix lists the volumes first: a volume is
created after its claim, so the later list of claims has it.
"""

from typing import Any

from levelset import Context, Controller, Object, Ref, Resource, Spec, Status, watches
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Lot", "Pool", "broken", "expected", "fixed"]


class LotStatus(Status):
    bound: bool = False


class Lot(Resource[Spec, LotStatus], api="zoo.example.dev/v1"):
    """A claim of a volume."""


class Pool(Resource[Spec, Status], api="zoo.example.dev/v1"):
    """A pool of volumes, from which unclaimed ones are removed."""


async def bind(lot: Lot, ctx: Context) -> None:
    if lot.status is None:
        await ctx.apply(config_map(lot, lot.name, labels={"lot": lot.name}), owner=lot)
        await ctx.set_status(lot, LotStatus(bound=True))


async def claimed_names(pool: Pool, ctx: Context) -> set[str]:
    return {one.name async for one in ctx.client.each(Lot, namespace=pool.namespace, page_size=1)}


async def volumes_of(pool: Pool, ctx: Context) -> list[ConfigMap]:
    return [one async for one in ctx.client.each(ConfigMap, namespace=pool.namespace, labels="lot", page_size=1)]


async def sweep_by_older_claims(pool: Pool, ctx: Context) -> None:
    claimed = await claimed_names(pool, ctx)
    for volume in await volumes_of(pool, ctx):
        if volume.name not in claimed:
            await ctx.delete(volume)


async def sweep_by_newer_claims(pool: Pool, ctx: Context) -> None:
    volumes = await volumes_of(pool, ctx)
    claimed = await claimed_names(pool, ctx)
    for volume in volumes:
        if volume.name not in claimed:
            await ctx.delete(volume)


def both(sweep: Any) -> list[Controller[Any]]:
    def pools(lot: Object) -> list[Ref[Pool]]:
        return [Ref(Pool, "pool", lot.namespace)]

    return [Controller(Lot, bind), Controller(Pool, sweep, watches(Lot, to=pools))]


def bound_claims_have_their_volume(state: State) -> None:
    volumes = {one.name for one in state.list(ConfigMap)}
    lost = [one.name for one in state.list(Lot) if one.status and one.status.bound and one.name not in volumes]
    assert not lost, f"no volume: {lost}"


async def scenario(user: Cluster) -> None:
    await user.create(Pool.new("pool", Spec()))
    for name in ("a", "c", "b"):
        await user.create(Lot.new(name, Spec()))
        await user.advance(2)
    await user.delete(Ref(Lot, "c"))
    await user.advance(2)


def exploration(sweep: Any) -> Exploration:
    # A volume is not restored, since its data is lost.
    allowed = ["not watched: ConfigMap"]
    return Exploration(scenario, lambda: both(sweep), invariants=[bound_claims_have_their_volume], allowed=allowed)


broken = exploration(sweep_by_older_claims)
fixed = exploration(sweep_by_newer_claims)
expected = Expected("bound_claims_have_their_volume", "list", "Lot")
