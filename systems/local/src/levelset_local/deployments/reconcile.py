"""The Deployment controller: makes, sizes and deletes ReplicaSets as planned, and tells how far it is."""

from levelset import (
    Action,
    AlreadyExists,
    ApiError,
    Context,
    Controller,
    Ref,
    Retry,
    Unreachable,
    owns,
    replace,
    requeue,
    watches,
)
from levelset.kinds.apps_v1 import Deployment, DeploymentStatus, ReplicaSet
from levelset.objects import controller_of
from levelset_local.claiming import CLAIMS, Selectors, claim
from levelset_local.deployments.plan import Plan, make_plan
from levelset_local.deployments.revisions import REVISION
from levelset_local.deployments.sizing import wanted_of
from levelset_local.deployments.status import with_failed_create
from levelset_local.deployments.templates import has_template_of
from levelset_local.presence import PATIENCE, is_as_shown, next_look

__all__ = ["deployments_controller"]


def deployments_controller(*, concurrency: int = 4) -> Controller[Deployment]:
    """The controller that keeps the ReplicaSets of each Deployment.

    What it remembers is only who selects what, so that an orphan finds its owner; all else is in the API.
    """
    selectors = Selectors()

    async def reconcile(owner: Deployment, ctx: Context) -> Action | None:
        selector = owner.spec.selector.selector
        selectors.note(owner.ref, selector)
        sets = await claim(ctx, owner, ReplicaSet, selector)
        plan = make_plan(owner, sets, now=ctx.now())
        if plan.new is not None and not await is_as_shown(ctx, owner):
            return requeue(PATIENCE)
        if plan.new is not None and (later := await _make(owner, plan.new, plan, ctx)) is not None:
            return later
        for one in plan.sets:
            await _save(owner, one, {it.name: it for it in sets}[one.name], ctx)
        for one in plan.delete:
            await ctx.delete(one)
        if plan.revision is not None:
            annotations = {**owner.metadata.annotations, REVISION: plan.revision}
            await ctx.save(owner.with_metadata(annotations=annotations))
        await ctx.set_status(owner, plan.status)
        return next_look(ctx, plan.look, has_deleted=False)

    async def forget(ref: Ref[Deployment], ctx: Context) -> None:  # noqa: ARG001 -- the shape of `gone`
        selectors.forget(ref)

    return Controller(
        Deployment,
        reconcile,
        owns(ReplicaSet, metadata_only=False, indexes=CLAIMS),
        watches(ReplicaSet, to=selectors.of),
        gone=forget,
        concurrency=concurrency,
        name="deployments",
    )


async def _make(owner: Deployment, new: ReplicaSet, plan: Plan, ctx: Context) -> Action | None:
    """Makes the new ReplicaSet, and says when to look again if that could not be."""
    try:
        made = await ctx.create(new, owner=owner)
    except AlreadyExists:
        return await _find_namesake(owner, new, ctx)
    except (ApiError, Unreachable) as error:
        ctx.record(owner, "ReplicaSetCreateError", f"{new.name}: {error}", warning=True, action="Create")
        await ctx.set_status(owner, with_failed_create(owner, plan.status, str(error), now=ctx.now()))
        raise Retry(f"ReplicaSet {new.name} cannot be made: {error}") from error
    if wanted_of(made):
        _tell(owner, made, 0, wanted_of(made), ctx)
    return None


async def _find_namesake(owner: Deployment, new: ReplicaSet, ctx: Context) -> Action:
    """Whether the name is that of the very ReplicaSet, which the cache will show; else the next one gets another."""
    found = await ctx.live(Ref(ReplicaSet, new.name, owner.namespace))
    if found is None:
        return requeue()  # it has just gone
    controller = controller_of(found)
    if controller is not None and controller.uid == owner.metadata.uid and has_template_of(found, owner):
        return requeue(PATIENCE)
    status = owner.status or DeploymentStatus()
    await ctx.set_status(owner, replace(status, collision_count=(status.collision_count or 0) + 1))
    return requeue()


async def _save(owner: Deployment, wanted: ReplicaSet, before: ReplicaSet, ctx: Context) -> None:
    await ctx.save(wanted)
    if wanted_of(wanted) != wanted_of(before):
        _tell(owner, wanted, wanted_of(before), wanted_of(wanted), ctx)


def _tell(owner: Deployment, owned: ReplicaSet, before: int, after: int, ctx: Context) -> None:
    way = "up" if after >= before else "down"
    words = f"Scaled {way} replica set {owned.name} from {before} to {after}"
    ctx.record(owner, "ScalingReplicaSet", words, action=f"Scale{way.title()}", related=owned)
