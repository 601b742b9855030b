"""The controllers of ReplicaSets and ReplicationControllers: create or delete Pods as planned, and write the status."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from levelset import (
    Action,
    Context,
    Controller,
    Object,
    Ref,
    Resource,
    Retry,
    Status,
    any_of,
    by,
    owns,
    requeue,
    watches,
)
from levelset.kinds.apps_v1 import ReplicaSet, ReplicaSetStatus
from levelset.kinds.core_v1 import Pod, PodTemplateSpec, ReplicationController
from levelset.runtime.controller import SELF_CHANGES
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
from levelset_local.replicasets.replication_controllers import as_replica_set, as_replication_status
from levelset_local.slow_start import BatchResult, is_namespace_terminating, slow_start_batch

__all__ = ["replicasets_controller", "replication_controllers_controller"]

O = TypeVar("O", bound=Resource[Any, Any])  # noqa: E741  # the letter the type checker shows

_MAX_MESSAGE: Final = 512


def replicasets_controller(*, concurrency: int = 4) -> Controller[ReplicaSet]:
    """The controller that maintains the desired number of Pods of each ReplicaSet."""
    return _controller(ReplicaSet, lambda owner: owner, lambda status: status, "replicasets", concurrency)


def replication_controllers_controller(*, concurrency: int = 4) -> Controller[ReplicationController]:
    """The same for ReplicationControllers, the older kind."""
    name = "replicationcontrollers"
    return _controller(ReplicationController, as_replica_set, as_replication_status, name, concurrency)


def _controller(
    kind: type[O],
    view_of: Callable[[O], ReplicaSet],
    status_of: Callable[[ReplicaSetStatus], Status],
    name: str,
    concurrency: int,
) -> Controller[O]:
    """The controller of a kind that is planned as a ReplicaSet.

    Its only state in memory is the registry of selectors, which maps orphans to owners; all else is in the API.
    """
    selectors = SelectorRegistry()

    async def reconcile(owner: O, ctx: Context) -> Action | None:
        view = view_of(owner)
        selector = view.spec.selector.selector
        selectors.register(owner.ref, selector)
        pods = await claim(ctx, owner, Pod, selector)
        plan = plan_pods(view, pods, now=ctx.now())
        if plan.create and not await matches_server(ctx, owner):
            return requeue(CACHE_LAG_SECONDS)
        created = await _create(owner, view.spec.template, plan, ctx)
        deleted = await _delete(owner, plan, ctx)
        failure = _failure_of(created, deleted)
        pods = [*pods, *created.succeeded]
        status = make_status(view, pods, deleted=deleted.succeeded, failure=failure, now=ctx.now())
        await ctx.set_status(owner, status_of(status))
        if failure is not None:
            raise Retry(f"{failure.reason}: {failure.message}")
        return requeue_action(ctx, plan.requeue_at, has_deleted=bool(plan.delete))

    async def gone(ref: Ref[O], ctx: Context) -> None:  # noqa: ARG001 -- the signature of `gone`
        selectors.unregister(ref)

    return Controller(
        kind,
        reconcile,
        owns(Pod, metadata_only=False, indexes=CLAIM_INDEXES),
        watches(Pod, to=selectors.owners_of),
        gone=gone,
        when=any_of(SELF_CHANGES, by.value(_status)),  # a status that another client has changed is written again
        concurrency=concurrency,
        name=name,
    )


def _status(owner: Resource[Any, Any]) -> object:
    return owner.status


async def _create(owner: Object, template: PodTemplateSpec | None, plan: Plan, ctx: Context) -> BatchResult[Pod]:
    if not plan.create or template is None:
        return BatchResult()
    pod = pod_from_template(template, generate_name=f"{owner.name}-", namespace=owner.namespace)

    async def create() -> Pod:
        made = await ctx.create(pod, owner=owner)
        ctx.record(owner, "SuccessfulCreate", f"Created pod: {made.name}", action="Create", related=made)
        return made

    done = await slow_start_batch([create] * plan.create)
    if done.error is not None and is_namespace_terminating(done.error):
        return BatchResult(done.succeeded)  # no failure to report: the owner will be deleted with its namespace
    if done.error is not None:
        ctx.record(owner, "FailedCreate", f"Error creating: {done.error}"[:_MAX_MESSAGE], warning=True, action="Create")
    return done


async def _delete(owner: Object, plan: Plan, ctx: Context) -> BatchResult[Pod]:
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
