"""Deletes volumes that an old version of its object does not need.

After a restart a controller may first see an older state. Modelled on pravega/zookeeper-operator#314 and
elastic/cloud-on-k8s#5274: after a scale-down and scale-up the operator restarts, sees the smaller number again, and
deletes a volume or node that is in use. The fix reads the object from the server before it deletes what cannot be
recreated.
"""

from levelset import Context, Controller, MergePatch, Ref, Resource, Retry, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Store", "broken", "expected", "fixed"]


class StoreSpec(Spec):
    replicas: int


class StoreStatus(Status):
    replicas: int = 0


class Store(Resource[StoreSpec, StoreStatus], api="zoo.example.dev/v1"):
    """A store with one volume per replica."""


async def trust_the_cache(store: Store, ctx: Context) -> None:
    for volume in await surplus(store, ctx):
        await ctx.delete(volume)
    await grow(store, ctx)


async def read_live_first(store: Store, ctx: Context) -> None:
    for volume in await surplus(store, ctx):
        newest = await ctx.live(store.ref)
        if newest is None or newest.metadata.generation != store.metadata.generation:
            raise Retry(f"{store.name} has changed since", seconds=1)
        await ctx.delete(volume)
    await grow(store, ctx)


async def grow(store: Store, ctx: Context) -> None:
    for number in range(store.spec.replicas):
        ref = Ref(ConfigMap, f"{store.name}-{number}", store.namespace)
        if await ctx.live(ref) is None:
            await ctx.create(config_map(store, ref.name, number=number), owner=store)
    await ctx.set_status(store, StoreStatus(replicas=store.spec.replicas))


async def surplus(store: Store, ctx: Context) -> list[ConfigMap]:
    there = await ctx.list(ConfigMap, namespace=store.namespace, read="live")
    return [one for one in there if int(one.data.get("number", -1)) >= store.spec.replicas]


def is_done(store: Store) -> bool:
    return store.status is not None and store.status.replicas == store.spec.replicas


def finished_stores_have_all_volumes(state: State) -> None:
    there = {one.name for one in state.list(ConfigMap)}
    for one in filter(is_done, state.list(Store)):
        missing = {f"{one.name}-{number}" for number in range(one.spec.replicas)} - there
        assert not missing, f"{', '.join(missing)} is gone, with everything in it"


async def scenario(user: Cluster) -> None:
    store = await user.create(Store.new("db", StoreSpec(replicas=2)))
    await user.until(store.ref, is_done)
    for replicas in (1, 2):
        await user.patch(store.ref, MergePatch({"spec": {"replicas": replicas}}))
        await user.until(store.ref, is_done)


rules = [finished_stores_have_all_volumes]
broken = Exploration(scenario, lambda: [Controller(Store, trust_the_cache, owns(ConfigMap))], invariants=rules)
fixed = Exploration(scenario, lambda: [Controller(Store, read_live_first, owns(ConfigMap))], invariants=rules)
expected = Expected("finished_stores_have_all_volumes", "delete", "ConfigMap")
