"""Deletes a volume when it sees its member being deleted, and misses deletions that it does not observe.

Between two reconciles an object may be marked as deleted and be removed. Modelled on
instaclustr/cassandra-operator#398, where the deletion overtakes the deletion timestamp and the volume leaks, and
pravega/zookeeper-operator#513, where such a volume breaks the next scale-up. The fix uses a finalizer.
"""

from levelset import Context, Controller, MergePatch, Ref, Resource, Spec, Status
from levelset.objects import ObjectMeta
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Member", "broken", "expected", "fixed"]


class Member(Resource[Spec, Status], api="zoo.example.dev/v1"):
    """A member that another controller drains; this controller manages its volume."""


async def act_on_deletion_timestamp(member: Member, ctx: Context) -> None:
    if member.metadata.deletion_timestamp is not None:
        await ctx.delete(volume_of(member.ref))
    else:
        await ctx.apply(config_map(member, volume_of(member.ref).name))


async def apply_volume(member: Member, ctx: Context) -> None:
    await ctx.apply(config_map(member, volume_of(member.ref).name))


async def delete_volume(member: Member, ctx: Context) -> None:
    await ctx.delete(volume_of(member.ref))


def volume_of(member: Ref[Member]) -> Ref[ConfigMap]:
    return Ref(ConfigMap, f"{member.name}-volume", member.namespace)


async def scenario(user: Cluster) -> None:
    metadata = ObjectMeta(name="blue", finalizers=("zoo.example.dev/drain",))
    member = await user.create(Member(metadata=metadata, spec=Spec()))
    await user.settled()
    await user.delete(member.ref)
    await user.advance(0.5)
    drained = [one for one in (await user.get(member.ref)).metadata.finalizers if "drain" not in one]
    await user.patch(member.ref, MergePatch({"metadata": {"finalizers": drained}}))
    await user.until_gone(member.ref)


# Without owner references, volumes are safe only because caches start with the newest state.
broken = Exploration(scenario, lambda: [Controller(Member, act_on_deletion_timestamp)], stale_restarts=False)
fixed = Exploration(scenario, lambda: [Controller(Member, apply_volume, cleanup=delete_volume)], stale_restarts=False)
expected = Expected("leaked", "apply", "ConfigMap")
