"""Deletes a volume when it sees its member being deleted; who is not looking at that moment never does.

Between two looks an object may begin to be deleted and be gone. Modelled on instaclustr/cassandra-operator#398, where
the mark of deletion is overtaken by the deletion itself and the volume stays, and on pravega/zookeeper-operator#513,
where such a volume breaks the next scale-up. What to delete is found by comparing what is there with who is there.
"""

from levelset import Context, Controller, MergePatch, Ref, Resource, Spec, Status
from levelset.objects import ObjectMeta
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.habitat import ConfigMap, Expected, config_map

__all__ = ["Member", "broken", "expected", "fixed"]


class Member(Resource[Spec, Status], api="zoo.example.dev/v1"):
    """Somebody else drains it before it goes; its volume is ours."""


async def act_on_the_mark(member: Member, ctx: Context) -> None:
    if member.metadata.deletion_timestamp is not None:
        await ctx.delete(volume_of(member.ref))
    else:
        await ctx.apply(config_map(member, volume_of(member.ref).name))


async def keep_it(member: Member, ctx: Context) -> None:
    await ctx.apply(config_map(member, volume_of(member.ref).name))


async def let_it_go(member: Member, ctx: Context) -> None:
    await ctx.delete(volume_of(member.ref))


def volume_of(member: Ref[Member]) -> Ref[ConfigMap]:
    return Ref(ConfigMap, f"{member.name}-volume", member.namespace)


async def scenario(people: Cluster) -> None:
    metadata = ObjectMeta(name="blue", finalizers=("zoo.example.dev/drain",))
    member = await people.create(Member(metadata=metadata, spec=Spec()))
    await people.settled()
    await people.delete(member.ref)
    await people.advance(0.5)
    drained = [one for one in (await people.get(member.ref)).metadata.finalizers if "drain" not in one]
    await people.patch(member.ref, MergePatch({"metadata": {"finalizers": drained}}))
    await people.until_gone(member.ref)


# Without an owner reference, volumes are safe only because a cache begins with the newest state.
broken = Exploration(scenario, lambda: [Controller(Member, act_on_the_mark)], older=False)
fixed = Exploration(scenario, lambda: [Controller(Member, keep_it, cleanup=let_it_go)], older=False)
expected = Expected("leaked", "apply", "ConfigMap")
