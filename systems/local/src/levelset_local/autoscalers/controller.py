"""The controller of HorizontalPodAutoscalers: measures their Pods every 15 seconds, and sets the scale as planned."""

from collections.abc import Iterable
from typing import Any, Final

from levelset import Action, Context, Controller, LabelSelector, MergePatch, Object, Ref, requeue, watches
from levelset.kinds.apps_v1 import Deployment, ReplicaSet, StatefulSet
from levelset.kinds.autoscaling_v2 import HorizontalPodAutoscaler
from levelset.kinds.core_v1 import Pod, ReplicationController
from levelset_local.autoscalers.plan import make_plan
from levelset_local.autoscalers.replica_count import History
from levelset_local.metrics import CpuUsage

__all__ = ["autoscalers_controller"]

_PERIOD: Final = 15.0
_TARGETS: Final[dict[str, type[Any]]] = {
    "Deployment": Deployment,
    "ReplicaSet": ReplicaSet,
    "ReplicationController": ReplicationController,
    "StatefulSet": StatefulSet,
}


def autoscalers_controller(usage: CpuUsage, *, concurrency: int = 4) -> Controller[HorizontalPodAutoscaler]:
    """The controller that scales Deployments, StatefulSets and the like by the processor time of their Pods.

    It remembers recommendations and changes in memory, as that of Kubernetes does: a restart loses it.
    """
    histories: dict[Ref[HorizontalPodAutoscaler], History] = {}

    async def reconcile(owner: HorizontalPodAutoscaler, ctx: Context) -> Action | None:
        reference = owner.spec.scale_target_ref
        kind = _TARGETS.get(reference.kind)
        target = None if kind is None else ctx.cached(Ref(kind, reference.name, owner.namespace))
        if target is None:
            text = f"the HPA controller was unable to get the target's current scale: {reference.kind} {reference.name}"
            ctx.record(owner, "FailedGetScale", f"{text} not found", warning=True)
            return requeue(_PERIOD)
        selector = _selector_of(target)
        found = await ctx.list(Pod, namespace=owner.namespace)
        pods = [pod for pod in found if selector.matches(pod.metadata.labels)]
        current = 1 if target.spec.replicas is None else target.spec.replicas
        history = histories.get(owner.ref, History())
        plan = make_plan(owner, pods, await usage(), current=current, history=history, now=ctx.now())
        if plan.problem:
            ctx.record(owner, "FailedGetResourceMetric", plan.problem, warning=True)
        if plan.replicas is not None:
            await ctx.patch(target.ref, MergePatch({"spec": {"replicas": plan.replicas}}))
            ctx.record(owner, "SuccessfulRescale", f"New size: {plan.replicas}; reason: {plan.reason}")
        histories[owner.ref] = plan.history
        await ctx.set_status(owner, plan.status)
        return requeue(_PERIOD)

    async def gone(ref: Ref[HorizontalPodAutoscaler], ctx: Context) -> None:  # noqa: ARG001 -- its signature
        histories.pop(ref, None)

    return Controller(
        HorizontalPodAutoscaler,
        reconcile,
        # Cached only: all are read every 15 seconds.
        watches(Deployment, to=_no_autoscalers),
        watches(ReplicaSet, to=_no_autoscalers),
        watches(ReplicationController, to=_no_autoscalers),
        watches(StatefulSet, to=_no_autoscalers),
        watches(Pod, to=_no_autoscalers),
        gone=gone,
        concurrency=concurrency,
        name="autoscalers",
    )


def _selector_of(target: Any) -> LabelSelector:
    """The selector of a target's Pods; a ReplicationController has that of the older form."""
    selector = target.spec.selector
    return LabelSelector.of(selector) if isinstance(target, ReplicationController) else selector.selector


def _no_autoscalers(_: Object) -> Iterable[Ref[HorizontalPodAutoscaler]]:
    return ()
