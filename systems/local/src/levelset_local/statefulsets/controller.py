"""The StatefulSet controller: writes revisions, claims and Pods as planned, and the status."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from levelset import (
    Action,
    ApiError,
    Context,
    Controller,
    Object,
    Ref,
    Retry,
    owns,
    replace,
    requeue,
    watches,
)
from levelset.errors import AlreadyExists, Unreachable
from levelset.kinds.apps_v1 import ControllerRevision, StatefulSet, StatefulSetStatus
from levelset.kinds.core_v1 import PersistentVolumeClaim, Pod
from levelset_local.controller_revisions import (
    POD_REVISION,
    STATEFUL_SET_HASH,
    plan_history,
    revisions_to_prune,
    write_history,
)
from levelset_local.ownership import (
    CACHE_LAG_SECONDS,
    CLAIM_INDEXES,
    SelectorRegistry,
    claim,
    matches_server,
    requeue_action,
)
from levelset_local.slow_start import is_namespace_terminating, slow_start_batch
from levelset_local.statefulsets.identity import claims_of, is_member, ordinal_of, ordinals
from levelset_local.statefulsets.plan import NewPod, Plan, make_plan

__all__ = ["statefulsets_controller"]

_MAX_MESSAGE: Final = 512


def statefulsets_controller(*, concurrency: int = 4) -> Controller[StatefulSet]:
    """The controller that runs the Pods of each StatefulSet, in order.

    Its only state in memory is the registry of selectors, which maps orphans to owners; all else is in the API.
    """
    selectors = SelectorRegistry()

    async def reconcile(owner: StatefulSet, ctx: Context) -> Action | None:
        selector = owner.spec.selector.selector
        selectors.register(owner.ref, selector)
        revisions = await claim(ctx, owner, ControllerRevision, selector)
        pods = await claim(ctx, owner, Pod, selector, accepts=partial(is_member, owner))
        current = None if owner.status is None else owner.status.current_revision
        history = plan_history(owner, revisions, hash_label=STATEFUL_SET_HASH, current=current)
        if owner.metadata.deletion_timestamp is None:
            later = await write_history(ctx, owner, history, with_collision=_with_collision)
            if later is not None:
                return later
        plan = make_plan(owner, pods, _existing_claims(owner, pods, ctx), history, now=ctx.now())
        if plan.create and not await matches_server(ctx, owner):
            return requeue(CACHE_LAG_SECONDS)
        await _act(owner, plan, ctx)
        status = plan.status
        live = [status.current_revision or "", status.update_revision or "", *(_revision_of(pod) for pod in pods)]
        for one in revisions_to_prune(revisions, live=live, limit=owner.spec.revision_history_limit):
            await ctx.delete(one)
        return requeue_action(ctx, plan.requeue_at, has_deleted=bool(plan.delete) or plan.is_waiting_for_claim)

    async def gone(ref: Ref[StatefulSet], ctx: Context) -> None:  # noqa: ARG001 -- the signature of `gone`
        selectors.unregister(ref)

    return Controller(
        StatefulSet,
        reconcile,
        owns(Pod, metadata_only=False, indexes=CLAIM_INDEXES),
        owns(ControllerRevision, metadata_only=False, indexes=CLAIM_INDEXES),
        watches(Pod, to=selectors.owners_of),
        watches(ControllerRevision, to=selectors.owners_of),
        watches(PersistentVolumeClaim, to=_no_owners),  # cached only: they are read when Pods are planned
        gone=gone,
        concurrency=concurrency,
        name="statefulsets",
    )


def _no_owners(_: Object) -> Sequence[Ref[StatefulSet]]:
    return ()


def _with_collision(owner: StatefulSet) -> StatefulSetStatus:
    status = owner.status or StatefulSetStatus(replicas=0)
    return replace(status, collision_count=(status.collision_count or 0) + 1)


def _existing_claims(owner: StatefulSet, pods: Sequence[Pod], ctx: Context) -> dict[str, PersistentVolumeClaim]:
    """The claims of all Pods that exist or should exist, by name."""
    if not owner.spec.volume_claim_templates:
        return {}
    numbers = {*ordinals(owner), *map(ordinal_of, pods)}
    names = [one.name for number in numbers for one in claims_of(owner, number)]
    found = (ctx.cached(Ref(PersistentVolumeClaim, name, owner.namespace)) for name in names)
    return {one.name: one for one in found if one is not None}


async def _act(owner: StatefulSet, plan: Plan, ctx: Context) -> None:
    """Executes a plan and writes the status, also if a write fails; raises Retry then."""
    error = await _write(owner, plan, ctx)
    await ctx.set_status(owner, plan.status)
    if error is not None and not is_namespace_terminating(error):
        raise Retry(f"{owner.ref}: {error}") from error


async def _write(owner: StatefulSet, plan: Plan, ctx: Context) -> ApiError | Unreachable | None:
    """Makes the writes of a plan, and returns the first error."""
    try:
        for one in plan.retained:
            await ctx.save(one)
        for pod in plan.relabeled:
            await ctx.save(pod)
        for one in plan.claims:
            await _create_claim(owner, one, ctx)
    except (ApiError, Unreachable) as error:
        return error
    done = await slow_start_batch([partial(_create, owner, one, ctx) for one in plan.create])
    if done.error is not None:
        return done.error
    return (await slow_start_batch([partial(_delete, owner, pod, ctx) for pod in plan.delete])).error


async def _create(owner: StatefulSet, new: NewPod, ctx: Context) -> Pod | None:
    try:
        for one in new.claims:
            await _create_claim(owner, one, ctx)
        made = await ctx.create(new.pod, owner=owner)
    except (ApiError, Unreachable) as error:
        if not is_namespace_terminating(error):
            message = f"create Pod {new.pod.name} in StatefulSet {owner.name} failed: {error}"
            _record(owner, "FailedCreate", message, ctx)
        raise
    message = f"create Pod {made.name} in StatefulSet {owner.name} successful"
    ctx.record(owner, "SuccessfulCreate", message, action="Create", related=made)
    return made


async def _create_claim(owner: StatefulSet, new: PersistentVolumeClaim, ctx: Context) -> None:
    """Creates a claim without an owner: it outlives the StatefulSet, unless the retention policy says otherwise."""
    try:
        await ctx.create(new)
    except AlreadyExists:
        return  # the cache is stale, or another StatefulSet of this name had it
    ctx.record(owner, "SuccessfulCreate", f"create Claim {new.name} in StatefulSet {owner.name} success")


async def _delete(owner: StatefulSet, pod: Pod, ctx: Context) -> Pod:
    await ctx.delete(pod)
    message = f"delete Pod {pod.name} in StatefulSet {owner.name} successful"
    ctx.record(owner, "SuccessfulDelete", message, action="Delete", related=pod)
    return pod


def _record(owner: StatefulSet, reason: str, message: str, ctx: Context) -> None:
    ctx.record(owner, reason, message[:_MAX_MESSAGE], warning=True, action="Create")


def _revision_of(pod: Pod) -> str:
    return pod.metadata.labels.get(POD_REVISION, "")
