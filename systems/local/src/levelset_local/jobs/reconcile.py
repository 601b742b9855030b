"""The Job controller: counts the Pods that have ended, starts and stops others, and tells how far it is."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from levelset import Action, Context, Controller, Index, LabelSelector, Ref, Retry, owns, replace, requeue, watches
from levelset.kinds.batch_v1 import Job, JobStatus
from levelset.kinds.core_v1 import Pod
from levelset.objects import Head, controller_of
from levelset_local.batches import Done, do_in_batches
from levelset_local.claiming import CLAIMS, Selectors, claim
from levelset_local.jobs import conditions as conditions_
from levelset_local.jobs.counting import FINALIZER, has_finalizer, is_doubtful
from levelset_local.jobs.indexes import with_index
from levelset_local.jobs.plan import Plan, make_plan
from levelset_local.podstates import pod_of_template
from levelset_local.presence import PATIENCE, is_as_shown, next_look
from levelset_local.refusals import is_ending

__all__ = ["jobs_controller"]

_MANAGER: Final = "kubernetes.io/job-controller"
_UID: Final = "batch.kubernetes.io/controller-uid"
_NAME: Final = "batch.kubernetes.io/job-name"
_MOST_WORDS: Final = 512


def _is_tracked(head: Head) -> bool | None:
    """True for what has the finalizer, or no value at all."""
    return True if FINALIZER in head.finalizers else None


_TRACKED: Final = Index.of_head(_is_tracked, name="tracked by jobs")


def jobs_controller(*, concurrency: int = 4) -> Controller[Job]:
    """The controller that runs Jobs.

    What it remembers is only who selects what, so that an orphan finds its owner; all else is in the API.
    """
    selectors = Selectors()

    async def reconcile(owner: Job, ctx: Context) -> Action | None:
        if owner.spec.managed_by not in {None, _MANAGER}:
            return None
        selector = _selector(owner)
        selectors.note(owner.ref, selector)
        await _let_go_strangers(owner.ref, owner.metadata.uid, ctx)
        pods = await claim(ctx, owner, Pod, selector, adopting=_with_finalizer, releasing=_without_finalizer)
        if is_doubtful(owner, pods):
            found = await _read_live(owner, ctx)
            if found is None:
                return None
            owner, pods = found
        plan = make_plan(owner, pods, now=ctx.now())
        if plan.make and not await is_as_shown(ctx, owner):
            return requeue(PATIENCE)
        _warn(owner, ctx)
        return await _carry_out(owner, plan, ctx)

    async def forget(ref: Ref[Job], ctx: Context) -> None:
        selectors.forget(ref)
        await _let_go_strangers(ref, None, ctx)

    def concerned(pod: Pod) -> Iterator[Ref[Any]]:
        yield from selectors.of(pod)
        if has_finalizer(pod) and controller_of(pod) is None and _NAME in pod.metadata.labels:
            yield Ref(Job, pod.metadata.labels[_NAME], pod.namespace)

    return Controller(
        Job,
        reconcile,
        owns(Pod, metadata_only=False, indexes=(*CLAIMS, _TRACKED)),
        watches(Pod, to=concerned),
        gone=forget,
        concurrency=concurrency,
        name="jobs",
    )


def _warn(owner: Job, ctx: Context) -> None:
    """Tells once, when a Job begins, what of it is not heeded here."""
    spec = owner.spec
    given = {
        "podFailurePolicy": spec.pod_failure_policy,
        "successPolicy": spec.success_policy,
        "backoffLimitPerIndex": spec.backoff_limit_per_index,
    }
    ignored = [name for name, value in given.items() if value is not None]
    if ignored and (owner.status is None or owner.status.start_time is None):
        words = f"spec.{', spec.'.join(ignored)}: not heeded on this machine; every failed Pod counts the same"
        ctx.record(owner, "FieldIgnored", words, warning=True)


async def _carry_out(owner: Job, plan: Plan, ctx: Context) -> Action | None:
    if plan.is_expired:
        await _expire(owner, ctx)
        return None
    # Whoever is let go must be in the status before, and so must be what was decided.
    if plan.release or plan.status.conditions != (owner.status or JobStatus()).conditions:
        await _tell(owner, replace(plan.status, active=plan.running), ctx)
    for pod in (*plan.release, *plan.drop):
        await ctx.save(_without_finalizer(pod))
    for pod in (*plan.drop, *plan.stop):
        await ctx.delete(pod)
        ctx.record(owner, "SuccessfulDelete", f"Deleted pod: {pod.name}", action="Delete", related=pod)
    done = await _make(owner, plan, ctx)
    ending = (plan.status.terminating or 0) + len(plan.drop) + len(plan.stop)
    status = replace(plan.status, active=plan.status.active + len(done.made), terminating=ending)
    await ctx.set_status(owner, status)
    if done.error is not None and not is_ending(done.error):
        raise Retry(f"FailedCreate: {done.error}")
    return next_look(ctx, plan.look, has_deleted=bool(plan.drop or plan.stop))


async def _make(owner: Job, plan: Plan, ctx: Context) -> Done[Pod]:
    async def make(index: int | None) -> Pod:
        made = await ctx.create(_draft(owner, index), owner=owner)
        ctx.record(owner, "SuccessfulCreate", f"Created pod: {made.name}", action="Create", related=made)
        return made

    done = await do_in_batches([partial(make, index) for index in plan.make])
    if done.error is not None and not is_ending(done.error):
        ctx.record(owner, "FailedCreate", f"Error creating: {done.error}"[:_MOST_WORDS], warning=True, action="Create")
    return done


def _draft(owner: Job, index: int | None) -> Pod:
    """A Pod of the Job, not made yet."""
    made = pod_of_template(owner.spec.template, generate_name=f"{owner.name}-", namespace=owner.namespace)
    return _with_finalizer(made if index is None else with_index(owner, made, index))


async def _tell(owner: Job, status: JobStatus, ctx: Context) -> None:
    """Writes the status, and an Event for each condition that has turned."""
    await ctx.set_status(owner, status)
    before = {(one.type, one.status) for one in (() if owner.status is None else owner.status.conditions)}
    for one in status.conditions:
        if (one.type, one.status) in before:
            continue
        match one.type, one.status:
            case conditions_.COMPLETE, "True":
                ctx.record(owner, "Completed", "Job completed")
            case conditions_.FAILED, "True":
                ctx.record(owner, one.reason or "Failed", one.message or "", warning=True)
            case conditions_.SUSPENDED, "True":
                ctx.record(owner, "Suspended", "Job suspended")
            case conditions_.SUSPENDED, _:
                ctx.record(owner, "Resumed", "Job resumed")
            case _:
                pass


async def _read_live(owner: Job, ctx: Context) -> tuple[Job, list[Pod]] | None:
    """The Job and its Pods as the server has them; the Pods first, so that the Job knows at least of these."""
    everybody = await ctx.list(Pod, namespace=owner.namespace, read="live")
    job = await ctx.live(owner.ref)
    if job is None or job.metadata.uid != owner.metadata.uid:
        return None
    return job, [pod for pod in everybody if _uid_of_controller(pod) == owner.metadata.uid]


async def _expire(owner: Job, ctx: Context) -> None:
    """Deletes a Job that has been finished for long enough, also by what the server says."""
    found = await ctx.live(owner.ref)
    if (
        found is not None
        and found.metadata.uid == owner.metadata.uid
        and make_plan(found, (), now=ctx.now()).is_expired
    ):
        await ctx.delete(found, propagation="Foreground")


async def _let_go_strangers(ref: Ref[Job], uid: str | None, ctx: Context) -> None:
    """Takes the finalizer off Pods that were of a Job of this name and are not any more: nobody would count them."""
    for pod in await ctx.list(Pod, namespace=ref.namespace, index=(_TRACKED, True)):
        controller = controller_of(pod)
        if controller is None:
            is_stranger = uid is None and pod.metadata.labels.get(_NAME) == ref.name
        else:
            is_stranger = (controller.kind, controller.name) == ("Job", ref.name) and controller.uid != uid
        if is_stranger:
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
