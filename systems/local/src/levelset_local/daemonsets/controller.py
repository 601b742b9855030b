"""The DaemonSet controller: writes revisions and Pods as planned, and the status."""

from functools import partial
from typing import Final

from levelset import Action, Context, Controller, Ref, Retry, by, owns, replace, requeue, watches
from levelset.kinds.apps_v1 import ControllerRevision, DaemonSet, DaemonSetStatus
from levelset.kinds.core_v1 import Node, Pod
from levelset_local.controller_revisions import (
    DAEMON_SET_HASH,
    POD_REVISION,
    plan_history,
    revisions_to_prune,
    write_history,
)
from levelset_local.daemonsets.plan import Plan, make_plan, new_pod
from levelset_local.ownership import (
    CACHE_LAG_SECONDS,
    CLAIM_INDEXES,
    SelectorRegistry,
    claim,
    matches_server,
    requeue_action,
)
from levelset_local.slow_start import is_namespace_terminating, slow_start_batch

__all__ = ["daemonsets_controller"]

_MAX_MESSAGE: Final = 512


def daemonsets_controller(*, concurrency: int = 4) -> Controller[DaemonSet]:
    """The controller that runs a Pod of each DaemonSet on every node that should have one.

    Its only state in memory is the registry of selectors, which maps orphans and nodes to owners.
    """
    selectors = SelectorRegistry()

    async def reconcile(owner: DaemonSet, ctx: Context) -> Action | None:
        selector = owner.spec.selector.selector
        selectors.register(owner.ref, selector)
        revisions = await claim(ctx, owner, ControllerRevision, selector)
        pods = await claim(ctx, owner, Pod, selector)
        history = plan_history(owner, revisions, hash_label=DAEMON_SET_HASH)
        if owner.metadata.deletion_timestamp is None:
            later = await write_history(ctx, owner, history, with_collision=_with_collision)
            if later is not None:
                return later
        revision = history.update.metadata.labels.get(DAEMON_SET_HASH, history.update.name)
        plan = make_plan(owner, pods, await ctx.list(Node), revision, now=ctx.now())
        if plan.create and not await matches_server(ctx, owner):
            return requeue(CACHE_LAG_SECONDS)
        await _act(owner, plan, revision, ctx)
        in_use = {pod.metadata.labels.get(POD_REVISION) for pod in pods}
        live = [one.name for one in revisions if one.metadata.labels.get(DAEMON_SET_HASH) in in_use]
        limit = owner.spec.revision_history_limit
        for one in revisions_to_prune(revisions, live=[*live, history.update.name], limit=limit):
            await ctx.delete(one)
        return requeue_action(ctx, plan.requeue_at, has_deleted=bool(plan.delete))

    async def gone(ref: Ref[DaemonSet], ctx: Context) -> None:  # noqa: ARG001 -- the signature of `gone`
        selectors.unregister(ref)

    return Controller(
        DaemonSet,
        reconcile,
        owns(Pod, metadata_only=False, indexes=CLAIM_INDEXES),
        owns(ControllerRevision, metadata_only=False, indexes=CLAIM_INDEXES),
        watches(Pod, to=selectors.owners_of),
        watches(ControllerRevision, to=selectors.owners_of),
        watches(Node, to=selectors.all_owners, when=by.labels),
        gone=gone,
        concurrency=concurrency,
        name="daemonsets",
    )


def _with_collision(owner: DaemonSet) -> DaemonSetStatus:
    empty = DaemonSetStatus(
        current_number_scheduled=0, desired_number_scheduled=0, number_misscheduled=0, number_ready=0
    )
    status = owner.status or empty
    return replace(status, collision_count=(status.collision_count or 0) + 1)


async def _act(owner: DaemonSet, plan: Plan, revision: str, ctx: Context) -> None:
    """Executes a plan and writes the status, also if a write fails; raises Retry then."""
    created = await slow_start_batch([partial(_create, owner, node, revision, ctx) for node in plan.create])
    deleted = await slow_start_batch([partial(_delete, owner, pod, ctx) for pod in plan.delete])
    await ctx.set_status(owner, plan.status)
    error = created.error or deleted.error
    if error is not None and not is_namespace_terminating(error):
        word = "creating" if created.error is not None else "deleting"
        ctx.record(owner, "FailedCreate", f"Error {word}: {error}"[:_MAX_MESSAGE], warning=True)
        raise Retry(f"{owner.ref}: {error}") from error


async def _create(owner: DaemonSet, node: str, revision: str, ctx: Context) -> Pod:
    made = await ctx.create(new_pod(owner, node, revision), owner=owner)
    ctx.record(owner, "SuccessfulCreate", f"Created pod: {made.name}", action="Create", related=made)
    return made


async def _delete(owner: DaemonSet, pod: Pod, ctx: Context) -> Pod:
    await ctx.delete(pod)
    ctx.record(owner, "SuccessfulDelete", f"Deleted pod: {pod.name}", action="Delete", related=pod)
    return pod
