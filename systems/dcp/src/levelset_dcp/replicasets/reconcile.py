"""The controller of ExecutableReplicaSets: makes replicas, and lets go of those that are too many."""

from datetime import datetime
from random import Random

from levelset import Action, Context, Controller, MergePatch, NotFound, Ref, await_change, owns, requeue
from levelset_dcp.kinds import Executable, ExecutableReplicaSet
from levelset_dcp.naming import REPLICA_STATE, finalizer
from levelset_dcp.replicasets.plan import active_of, replica_of, scale, status_of

__all__ = ["replicasets_controller"]


def replicasets_controller(*, random: Random | None = None) -> Controller[ExecutableReplicaSet]:
    """Keeps as many replicas as each set wants; `random` makes up their names."""
    chance = random or Random()  # noqa: S311 - for names that must differ, not for secrets

    async def reconcile(owner: ExecutableReplicaSet, ctx: Context) -> Action:
        return await _reconcile(owner, ctx, chance)

    return Controller(
        ExecutableReplicaSet,
        reconcile,
        owns(Executable, metadata_only=False),
        cleanup=_clean_up,
        finalizer=finalizer("executable-replica-set-reconciler"),
        name="dcp-replicasets",
    )


async def _reconcile(owner: ExecutableReplicaSet, ctx: Context, random: Random) -> Action:
    children = await ctx.children(Executable)
    active = active_of(children)
    last = owner.status.last_scale_time if owner.status else None
    step = scale(owner, active, last, ctx.now())
    scaled: datetime | None = ctx.now() if step.make or step.surplus else None
    for number in range(step.make):
        await ctx.create(replica_of(owner, len(children) + number + 1, random), owner=owner)
    for one in step.surplus:
        await _let_go(owner, one, ctx)
    if scaled is not None:
        ctx.record(owner, "Scaled", f"made {step.make} replicas, let go of {len(step.surplus)}")
        active = active_of(await ctx.children(Executable))
    await ctx.set_status(owner, status_of(owner, active, scaled, ctx.now()))
    return await_change() if step.wait is None else requeue(seconds=step.wait)


async def _let_go(owner: ExecutableReplicaSet, one: Executable, ctx: Context) -> None:
    """Deletes a replica, or, if the set says so, stops it and puts it aside."""
    ref = Ref(Executable, one.name)
    if not owner.spec.stop_on_scale_down:
        await ctx.delete(ref, propagation="Background")
        return
    change = {"metadata": {"annotations": {REPLICA_STATE: "inactive"}}, "spec": {"stop": True}}
    try:
        await ctx.patch(ref, MergePatch(change))
    except NotFound:
        return  # it is gone, which is all the better


async def _clean_up(owner: ExecutableReplicaSet, ctx: Context) -> Action | None:
    """All replicas go first, those that were put aside too; the set stays until they have."""
    children = await ctx.children(Executable)
    for one in children:
        if one.metadata.deletion_timestamp is None:
            await ctx.delete(Ref(Executable, one.name), propagation="Background")
    left = await ctx.children(Executable)
    await ctx.set_status(owner, status_of(owner, active_of(left), None, ctx.now()))
    return requeue(seconds=5.0) if left else None
