"""The ReplicaSet controller: creates or deletes Pods as planned, and writes the status."""

from functools import partial
from typing import Final

from levelset import Action, Context, Controller, Ref, Retry, owns, requeue, watches
from levelset.kinds.apps_v1 import ReplicaSet
from levelset.kinds.core_v1 import Pod
from levelset_local.ownership import (
    CACHE_LAG_SECONDS,
    CLAIM_INDEXES,
    SelectorRegistry,
    claim,
    matches_server,
    requeue_action,
)
from levelset_local.pod_state import pod_from_template
from levelset_local.replicasets.plan import Plan, ReplicaFailure, make_status, plan_pods
from levelset_local.slow_start import BatchResult, is_namespace_terminating, slow_start_batch

__all__ = ["replicasets_controller"]

_MAX_MESSAGE: Final = 512


def replicasets_controller(*, concurrency: int = 4) -> Controller[ReplicaSet]:
    """The controller that maintains the desired number of Pods of each ReplicaSet.

    Its only state in memory is the registry of selectors, which maps orphans to owners; all else is in the API.
    """
    selectors = SelectorRegistry()

    async def reconcile(owner: ReplicaSet, ctx: Context) -> Action | None:
        selector = owner.spec.selector.selector
        selectors.register(owner.ref, selector)
        pods = await claim(ctx, owner, Pod, selector)
        plan = plan_pods(owner, pods, now=ctx.now())
        if plan.create and not await matches_server(ctx, owner):
            return requeue(CACHE_LAG_SECONDS)
        created, deleted = await _create(owner, plan, ctx), await _delete(owner, plan, ctx)
        failure = _failure_of(created, deleted)
        pods = [*pods, *created.succeeded]
        status = make_status(owner, pods, deleted=deleted.succeeded, failure=failure, now=ctx.now())
        await ctx.set_status(owner, status)
        if failure is not None:
            raise Retry(f"{failure.reason}: {failure.message}")
        return requeue_action(ctx, plan.requeue_at, has_deleted=bool(plan.delete))

    async def gone(ref: Ref[ReplicaSet], ctx: Context) -> None:  # noqa: ARG001 -- the signature of `gone`
        selectors.unregister(ref)

    return Controller(
        ReplicaSet,
        reconcile,
        owns(Pod, metadata_only=False, indexes=CLAIM_INDEXES),
        watches(Pod, to=selectors.owners_of),
        gone=gone,
        concurrency=concurrency,
        name="replicasets",
    )


async def _create(owner: ReplicaSet, plan: Plan, ctx: Context) -> BatchResult[Pod]:
    if not plan.create or owner.spec.template is None:
        return BatchResult()
    pod = pod_from_template(owner.spec.template, generate_name=f"{owner.name}-", namespace=owner.namespace)

    async def create() -> Pod:
        made = await ctx.create(pod, owner=owner)
        ctx.record(owner, "SuccessfulCreate", f"Created pod: {made.name}", action="Create", related=made)
        return made

    done = await slow_start_batch([create] * plan.create)
    if done.error is not None and is_namespace_terminating(done.error):
        return BatchResult(done.succeeded)  # no failure to report: the ReplicaSet will be deleted with its namespace
    if done.error is not None:
        ctx.record(owner, "FailedCreate", f"Error creating: {done.error}"[:_MAX_MESSAGE], warning=True, action="Create")
    return done


async def _delete(owner: ReplicaSet, plan: Plan, ctx: Context) -> BatchResult[Pod]:
    async def delete(pod: Pod) -> Pod:
        await ctx.delete(pod)
        ctx.record(owner, "SuccessfulDelete", f"Deleted pod: {pod.name}", action="Delete", related=pod)
        return pod

    done = await slow_start_batch([partial(delete, pod) for pod in plan.delete], first=max(1, len(plan.delete)))
    if done.error is not None:
        ctx.record(owner, "FailedDelete", f"Error deleting: {done.error}"[:_MAX_MESSAGE], warning=True, action="Delete")
    return done


def _failure_of(created: BatchResult[Pod], deleted: BatchResult[Pod]) -> ReplicaFailure | None:
    if created.error is not None:
        return ReplicaFailure("FailedCreate", str(created.error))
    return None if deleted.error is None else ReplicaFailure("FailedDelete", str(deleted.error))
