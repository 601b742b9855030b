"""The ReplicaSet controller: reads the Pods of a set, makes or deletes some, and tells how it is."""

from functools import partial
from typing import Final

from levelset import (
    Action,
    Context,
    Controller,
    Ref,
    Retry,
    owns,
    requeue,
    watches,
)
from levelset.kinds.apps_v1 import ReplicaSet
from levelset.kinds.core_v1 import Pod
from levelset_local.batches import Done, do_in_batches
from levelset_local.claiming import CLAIMS, Selectors, claim
from levelset_local.podstates import pod_of_template
from levelset_local.presence import PATIENCE, is_as_shown, next_look
from levelset_local.refusals import is_ending
from levelset_local.replicasets.plan import Plan, Trouble, make_status, plan_pods

__all__ = ["replicasets_controller"]

_MOST_WORDS: Final = 512


def replicasets_controller(*, concurrency: int = 4) -> Controller[ReplicaSet]:
    """The controller that keeps as many Pods as each ReplicaSet wants.

    What it remembers is only who selects what, so that an orphan finds its owner; all else is in the API.
    """
    selectors = Selectors()

    async def reconcile(owner: ReplicaSet, ctx: Context) -> Action | None:
        selector = owner.spec.selector.selector
        selectors.note(owner.ref, selector)
        pods = await claim(ctx, owner, Pod, selector)
        plan = plan_pods(owner, pods, now=ctx.now())
        if plan.create and not await is_as_shown(ctx, owner):
            return requeue(PATIENCE)
        made, gone = await _make(owner, plan, ctx), await _delete(owner, plan, ctx)
        trouble = _trouble(made, gone)
        status = make_status(owner, [*pods, *made.made], deleted=gone.made, trouble=trouble, now=ctx.now())
        await ctx.set_status(owner, status)
        if trouble is not None:
            raise Retry(f"{trouble.reason}: {trouble.message}")
        return next_look(ctx, plan.look, has_deleted=bool(plan.delete))

    async def forget(ref: Ref[ReplicaSet], ctx: Context) -> None:  # noqa: ARG001 -- the shape of `gone`
        selectors.forget(ref)

    return Controller(
        ReplicaSet,
        reconcile,
        owns(Pod, metadata_only=False, indexes=CLAIMS),
        watches(Pod, to=selectors.of),
        gone=forget,
        concurrency=concurrency,
        name="replicasets",
    )


async def _make(owner: ReplicaSet, plan: Plan, ctx: Context) -> Done[Pod]:
    if not plan.create or owner.spec.template is None:
        return Done()
    draft = pod_of_template(owner.spec.template, generate_name=f"{owner.name}-", namespace=owner.namespace)

    async def make() -> Pod:
        made = await ctx.create(draft, owner=owner)
        ctx.record(owner, "SuccessfulCreate", f"Created pod: {made.name}", action="Create", related=made)
        return made

    done = await do_in_batches([make] * plan.create)
    if done.error is not None and is_ending(done.error):
        return Done(done.made)  # everything in it goes, and so will the set
    if done.error is not None:
        ctx.record(owner, "FailedCreate", f"Error creating: {done.error}"[:_MOST_WORDS], warning=True, action="Create")
    return done


async def _delete(owner: ReplicaSet, plan: Plan, ctx: Context) -> Done[Pod]:
    async def delete(pod: Pod) -> Pod:
        await ctx.delete(pod)
        ctx.record(owner, "SuccessfulDelete", f"Deleted pod: {pod.name}", action="Delete", related=pod)
        return pod

    done = await do_in_batches([partial(delete, pod) for pod in plan.delete], first=max(1, len(plan.delete)))
    if done.error is not None:
        ctx.record(owner, "FailedDelete", f"Error deleting: {done.error}"[:_MOST_WORDS], warning=True, action="Delete")
    return done


def _trouble(made: Done[Pod], gone: Done[Pod]) -> Trouble | None:
    if made.error is not None:
        return Trouble("FailedCreate", str(made.error))
    return None if gone.error is None else Trouble("FailedDelete", str(gone.error))
