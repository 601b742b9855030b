"""Deletes the volume of a deleted cluster by a name that a new cluster uses too.

After a restart the old object may be seen once more, being deleted. Modelled on instaclustr/cassandra-operator#402,
datastax/cass-operator#412, Orange-OpenSource/casskop#316 and pravega/zookeeper-operator#312, which then delete the data
of the new cluster. The fix compares the uid of the owner.
"""

from levelset import Context, Controller, Ref, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Datacenter", "broken", "expected", "fixed"]


class DatacenterStatus(Status):
    ready: bool = False


class Datacenter(Resource[Spec, DatacenterStatus], api="zoo.example.dev/v1"):
    """A datacenter with a volume, which is deleted with it."""


async def reconcile(center: Datacenter, ctx: Context) -> None:
    ref, newest = volume_of(center), await ctx.live(center.ref)
    if newest is None or newest.metadata.uid != center.metadata.uid:
        return  # a deleted predecessor with the same name: create nothing for it
    if await ctx.live(ref) is None:
        await ctx.create(config_map(center, ref.name, labels={"uid": center.metadata.uid}))
    await ctx.set_status(center, DatacenterStatus(ready=True))


async def clean_up_by_name(center: Datacenter, ctx: Context) -> None:
    await ctx.delete(volume_of(center))


async def clean_up_by_uid(center: Datacenter, ctx: Context) -> None:
    volume = await ctx.live(volume_of(center))
    if volume is not None and volume.metadata.labels.get("uid") == center.metadata.uid:
        await ctx.delete(volume)


def volume_of(center: Datacenter) -> Ref[ConfigMap]:
    return Ref(ConfigMap, f"{center.name}-volume", center.namespace)


def is_ready(center: Datacenter) -> bool:
    return center.status is not None and center.status.ready and center.metadata.deletion_timestamp is None


def ready_datacenters_have_a_volume(state: State) -> None:
    for one in filter(is_ready, state.list(Datacenter)):
        assert state.find(volume_of(one)) is not None, f"the volume of {one.name} is gone, with everything in it"


async def scenario(user: Cluster) -> None:
    first = await user.create(Datacenter.new("east", Spec()))
    await user.until(first.ref, is_ready)
    await user.delete(first.ref)
    await user.until_gone(first.ref)
    second = await user.create(Datacenter.new("east", Spec()))
    await user.until(second.ref, is_ready)


rules = [ready_datacenters_have_a_volume]
broken = Exploration(scenario, lambda: [Controller(Datacenter, reconcile, cleanup=clean_up_by_name)], invariants=rules)
fixed = Exploration(scenario, lambda: [Controller(Datacenter, reconcile, cleanup=clean_up_by_uid)], invariants=rules)
expected = Expected("ready_datacenters_have_a_volume", "delete", "ConfigMap")
