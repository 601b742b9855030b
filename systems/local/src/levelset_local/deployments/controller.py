"""The Deployment controller: creates, scales and deletes ReplicaSets as planned, and writes the status."""

from levelset import Action, ApiError, Context, Controller, Ref, Retry, owns, replace, requeue, watches
from levelset.errors import AlreadyExists, Unreachable
from levelset.kinds.apps_v1 import Deployment, DeploymentStatus, ReplicaSet
from levelset.objects import controller_of
from levelset_local.deployments.plan import Plan, make_plan
from levelset_local.deployments.revisions import REVISION, matches_template
from levelset_local.deployments.rollout import desired_replicas
from levelset_local.deployments.status import with_failed_create
from levelset_local.ownership import (
    CACHE_LAG_SECONDS,
    CLAIM_INDEXES,
    SelectorRegistry,
    claim,
    matches_server,
    requeue_action,
)

__all__ = ["deployments_controller"]


def deployments_controller(*, concurrency: int = 4) -> Controller[Deployment]:
    """The controller that manages the ReplicaSets of each Deployment.

    Its only state in memory is the registry of selectors, which maps orphans to owners; all else is in the API.
    """
    selectors = SelectorRegistry()

    async def reconcile(owner: Deployment, ctx: Context) -> Action | None:
        selector = owner.spec.selector.selector
        selectors.register(owner.ref, selector)
        sets = await claim(ctx, owner, ReplicaSet, selector)
        plan = make_plan(owner, sets, now=ctx.now())
        if plan.new is not None and not await matches_server(ctx, owner):
            return requeue(CACHE_LAG_SECONDS)
        if plan.new is not None and (later := await _create(owner, plan.new, plan, ctx)) is not None:
            return later
        for one in plan.sets:
            await _save(owner, one, {it.name: it for it in sets}[one.name], ctx)
        for one in plan.delete:
            await ctx.delete(one)
        if plan.revision is not None:
            annotations = {**owner.metadata.annotations, REVISION: plan.revision}
            await ctx.save(owner.with_metadata(annotations=annotations))
        await ctx.set_status(owner, plan.status)
        return requeue_action(ctx, plan.requeue_at, has_deleted=False)

    async def gone(ref: Ref[Deployment], ctx: Context) -> None:  # noqa: ARG001 -- the signature of `gone`
        selectors.unregister(ref)

    return Controller(
        Deployment,
        reconcile,
        owns(ReplicaSet, metadata_only=False, indexes=CLAIM_INDEXES),
        watches(ReplicaSet, to=selectors.owners_of),
        gone=gone,
        concurrency=concurrency,
        name="deployments",
    )


async def _create(owner: Deployment, new: ReplicaSet, plan: Plan, ctx: Context) -> Action | None:
    """Creates the new ReplicaSet; returns a requeue if its name is taken, and raises Retry if the create fails."""
    try:
        made = await ctx.create(new, owner=owner)
    except AlreadyExists:
        return await _handle_collision(owner, new, ctx)
    except (ApiError, Unreachable) as error:
        ctx.record(owner, "ReplicaSetCreateError", f"{new.name}: {error}", warning=True, action="Create")
        await ctx.set_status(owner, with_failed_create(owner, plan.status, str(error), now=ctx.now()))
        raise Retry(f"ReplicaSet {new.name} cannot be created: {error}") from error
    if desired_replicas(made):
        _record_scaling(owner, made, 0, desired_replicas(made), ctx)
    return None


async def _handle_collision(owner: Deployment, new: ReplicaSet, ctx: Context) -> Action:
    """Waits for the cache if the existing ReplicaSet is our own; else counts a collision, which changes the name."""
    found = await ctx.live(Ref(ReplicaSet, new.name, owner.namespace))
    if found is None:
        return requeue(0)  # it was deleted meanwhile
    controller = controller_of(found)
    if controller is not None and controller.uid == owner.metadata.uid and matches_template(found, owner):
        return requeue(CACHE_LAG_SECONDS)
    status = owner.status or DeploymentStatus()
    await ctx.set_status(owner, replace(status, collision_count=(status.collision_count or 0) + 1))
    return requeue(0)


async def _save(owner: Deployment, wanted: ReplicaSet, before: ReplicaSet, ctx: Context) -> None:
    await ctx.save(wanted)
    if desired_replicas(wanted) != desired_replicas(before):
        _record_scaling(owner, wanted, desired_replicas(before), desired_replicas(wanted), ctx)


def _record_scaling(owner: Deployment, owned: ReplicaSet, before: int, after: int, ctx: Context) -> None:
    direction = "up" if after >= before else "down"
    message = f"Scaled {direction} replica set {owned.name} from {before} to {after}"
    ctx.record(owner, "ScalingReplicaSet", message, action=f"Scale{direction.title()}", related=owned)
