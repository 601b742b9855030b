"""The Job controller: counts finished Pods, creates and deletes Pods as planned, and writes the status."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from levelset import Action, Context, Controller, Index, LabelSelector, Ref, Retry, owns, replace, requeue, watches
from levelset.kinds.batch_v1 import Job, JobStatus
from levelset.kinds.core_v1 import Pod
from levelset.objects import Head, controller_of
from levelset_local.jobs.completion_indexes import with_index
from levelset_local.jobs.plan import Plan, make_plan
from levelset_local.jobs.pod_tracking import FINALIZER, has_finalizer, may_be_stale
from levelset_local.jobs.policies import FAILURE_COUNT, failures_of_index, has_index_limit
from levelset_local.ownership import (
    CACHE_LAG_SECONDS,
    CLAIM_INDEXES,
    SelectorRegistry,
    claim,
    matches_server,
    requeue_action,
)
from levelset_local.pod_state import pod_from_template
from levelset_local.slow_start import BatchResult, is_namespace_terminating, slow_start_batch

__all__ = ["jobs_controller"]

_MANAGER: Final = "kubernetes.io/job-controller"
_UID: Final = "batch.kubernetes.io/controller-uid"
_NAME: Final = "batch.kubernetes.io/job-name"
_MAX_MESSAGE: Final = 512


def _is_tracked(head: Head) -> bool | None:
    """True for Pods with the tracking finalizer; None, which is not indexed, for all others."""
    return True if FINALIZER in head.finalizers else None


_TRACKED: Final = Index.of_head(_is_tracked, name="tracked by jobs")


def jobs_controller(*, concurrency: int = 4) -> Controller[Job]:
    """The controller that runs Jobs.

    Its only state in memory is the registry of selectors, which maps orphans to owners; all else is in the API.
    """
    selectors = SelectorRegistry()

    async def reconcile(owner: Job, ctx: Context) -> Action | None:
        if owner.spec.managed_by not in {None, _MANAGER}:
            return None
        selector = _selector(owner)
        selectors.register(owner.ref, selector)
        await _release_abandoned(owner.ref, owner.metadata.uid, ctx)
        pods = await claim(ctx, owner, Pod, selector, on_adopt=_with_finalizer, on_release=_without_finalizer)
        if may_be_stale(owner, pods):
            found = await _read_live(owner, ctx)
            if found is None:
                return None
            owner, pods = found
        plan = make_plan(owner, pods, now=ctx.now())
        if plan.create and not await matches_server(ctx, owner):
            return requeue(CACHE_LAG_SECONDS)
        return await _execute(owner, plan, pods, ctx)

    async def gone(ref: Ref[Job], ctx: Context) -> None:
        selectors.unregister(ref)
        await _release_abandoned(ref, None, ctx)

    def owners_of(pod: Pod) -> Iterator[Ref[Any]]:
        yield from selectors.owners_of(pod)
        if has_finalizer(pod) and controller_of(pod) is None and _NAME in pod.metadata.labels:
            yield Ref(Job, pod.metadata.labels[_NAME], pod.namespace)

    return Controller(
        Job,
        reconcile,
        owns(Pod, metadata_only=False, indexes=(*CLAIM_INDEXES, _TRACKED)),
        watches(Pod, to=owners_of),
        gone=gone,
        concurrency=concurrency,
        name="jobs",
    )


async def _execute(owner: Job, plan: Plan, pods: Sequence[Pod], ctx: Context) -> Action | None:
    if plan.is_expired:
        await _expire(owner, ctx)
        return None
    # Pods and outcome have to be in the status before finalizers are removed and Pods deleted: see pod_tracking.
    if plan.release or plan.status.conditions != (owner.status or JobStatus()).conditions:
        await _write_status(owner, replace(plan.status, active=plan.running), ctx)
    for pod in (*plan.release, *plan.drop):
        await ctx.save(_without_finalizer(pod))
    for pod in (*plan.drop, *plan.stop):
        await ctx.delete(pod)
        ctx.record(owner, "SuccessfulDelete", f"Deleted pod: {pod.name}", action="Delete", related=pod)
    done = await _create_pods(owner, plan, pods, ctx)
    terminating = (plan.status.terminating or 0) + len(plan.drop) + len(plan.stop)
    status = replace(plan.status, active=plan.status.active + len(done.succeeded), terminating=terminating)
    await ctx.set_status(owner, status)
    if done.error is not None and not is_namespace_terminating(done.error):
        raise Retry(f"FailedCreate: {done.error}")
    return requeue_action(ctx, plan.requeue_at, has_deleted=bool(plan.drop or plan.stop))


async def _create_pods(owner: Job, plan: Plan, pods: Sequence[Pod], ctx: Context) -> BatchResult[Pod]:
    async def create(index: int | None) -> Pod:
        made = await ctx.create(_new_pod(owner, pods, index), owner=owner)
        ctx.record(owner, "SuccessfulCreate", f"Created pod: {made.name}", action="Create", related=made)
        return made

    done = await slow_start_batch([partial(create, index) for index in plan.create])
    if done.error is not None and not is_namespace_terminating(done.error):
        ctx.record(owner, "FailedCreate", f"Error creating: {done.error}"[:_MAX_MESSAGE], warning=True, action="Create")
    return done


def _new_pod(owner: Job, pods: Sequence[Pod], index: int | None) -> Pod:
    """A Pod of the Job to create."""
    made = pod_from_template(owner.spec.template, generate_name=f"{owner.name}-", namespace=owner.namespace)
    if index is None:
        return _with_finalizer(made)
    made = with_index(owner, made, index)
    if has_index_limit(owner):
        failures = str(failures_of_index(owner, pods, index))
        made = made.with_metadata(annotations={**made.metadata.annotations, FAILURE_COUNT: failures})
    return _with_finalizer(made)


async def _write_status(owner: Job, status: JobStatus, ctx: Context) -> None:
    """Writes the status, and records an Event for each condition that has changed."""
    await ctx.set_status(owner, status)
    before = {(one.type, one.status) for one in (() if owner.status is None else owner.status.conditions)}
    for one in status.conditions:
        if (one.type, one.status) in before:
            continue
        match one.type, one.status:
            case "Complete", "True":
                ctx.record(owner, "Completed", "Job completed")
            case "Failed", "True":
                ctx.record(owner, one.reason or "Failed", one.message or "", warning=True)
            case "Suspended", "True":
                ctx.record(owner, "Suspended", "Job suspended")
            case "Suspended", _:
                ctx.record(owner, "Resumed", "Job resumed")
            case _:
                pass


async def _read_live(owner: Job, ctx: Context) -> tuple[Job, list[Pod]] | None:
    """The Job and its Pods from the server; None if the Job is gone.

    The Pods are read first, so that the status of the Job is at least as new as they are.
    """
    pods = await ctx.list(Pod, namespace=owner.namespace, read="live")
    job = await ctx.live(owner.ref)
    if job is None or job.metadata.uid != owner.metadata.uid:
        return None
    return job, [pod for pod in pods if _uid_of_controller(pod) == owner.metadata.uid]


async def _expire(owner: Job, ctx: Context) -> None:
    """Deletes a Job whose TTL has passed, after a check against the server: the TTL may have been changed."""
    found = await ctx.live(owner.ref)
    if (
        found is not None
        and found.metadata.uid == owner.metadata.uid
        and make_plan(found, (), now=ctx.now()).is_expired
    ):
        await ctx.delete(found, propagation="Foreground")


async def _release_abandoned(ref: Ref[Job], uid: str | None, ctx: Context) -> None:
    """Removes the finalizer from Pods of an earlier Job of this name: no controller would count them."""
    for pod in await ctx.list(Pod, namespace=ref.namespace, index=(_TRACKED, True)):
        controller = controller_of(pod)
        if controller is None:
            is_abandoned = uid is None and pod.metadata.labels.get(_NAME) == ref.name
        else:
            is_abandoned = (controller.kind, controller.name) == ("Job", ref.name) and controller.uid != uid
        if is_abandoned:
            await ctx.save(_without_finalizer(pod))


def _selector(owner: Job) -> LabelSelector:
    given = owner.spec.selector
    return LabelSelector.of({_UID: owner.metadata.uid}) if given is None else given.selector


def _with_finalizer(pod: Pod) -> Pod:
    others = (one for one in pod.metadata.finalizers if one != FINALIZER)
    return pod.with_metadata(finalizers=(*others, FINALIZER))


def _without_finalizer(pod: Pod) -> Pod:
    return pod.with_metadata(finalizers=tuple(one for one in pod.metadata.finalizers if one != FINALIZER))


def _uid_of_controller(pod: Pod) -> str | None:
    found = controller_of(pod)
    return None if found is None else found.uid
