"""The controller of PodDisruptionBudgets: writes how many Pods may be evicted, on which the server relies."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from levelset import Action, Context, Controller, Object, Ref, any_of, by, watches
from levelset.kinds.apps_v1 import Deployment, ReplicaSet, StatefulSet
from levelset.kinds.core_v1 import Pod, ReplicationController
from levelset.kinds.policy_v1 import PodDisruptionBudget
from levelset.objects import controller_of
from levelset.runtime.controller import SELF_CHANGES
from levelset_local.disruption_budgets.plan import NoScale, failed_status, make_plan
from levelset_local.ownership import SelectorRegistry, requeue_action

__all__ = ["disruption_budgets_controller"]

_SCALED: Final[dict[str, type[Any]]] = {
    "ReplicationController": ReplicationController,
    "StatefulSet": StatefulSet,
}


def disruption_budgets_controller(*, concurrency: int = 4) -> Controller[PodDisruptionBudget]:
    """The controller that maintains the status of each PodDisruptionBudget.

    Its only state in memory is the registry of selectors, which maps Pods to budgets.
    """
    selectors = SelectorRegistry()

    async def reconcile(budget: PodDisruptionBudget, ctx: Context) -> Action | None:
        selected: Sequence[Pod] = ()
        if budget.spec.selector is not None:
            selector = budget.spec.selector.selector
            selectors.register(budget.ref, selector)
            found = await ctx.list(Pod, namespace=budget.namespace)
            selected = [pod for pod in found if selector.matches(pod.metadata.labels)]
        try:
            plan = make_plan(budget, selected, _scales(selected, ctx), now=ctx.now())
        except NoScale as error:
            ctx.record(budget, "CalculateExpectedPodCountFailed", str(error), warning=True)
            await ctx.set_status(budget, failed_status(budget, str(error), now=ctx.now()))
            return None
        await ctx.set_status(budget, plan.status)
        return requeue_action(ctx, plan.requeue_at, has_deleted=False)

    async def gone(ref: Ref[PodDisruptionBudget], ctx: Context) -> None:  # noqa: ARG001 -- the signature of `gone`
        selectors.unregister(ref)

    return Controller(
        PodDisruptionBudget,
        reconcile,
        watches(Pod, to=selectors.owners_selecting),
        watches(ReplicaSet, to=selectors.owners_near),
        watches(ReplicationController, to=selectors.owners_near),
        watches(StatefulSet, to=selectors.owners_near),
        watches(Deployment, to=_no_budgets),  # cached only: a change of its scale changes its ReplicaSets
        gone=gone,
        when=any_of(SELF_CHANGES, by.value(_evictions)),
        concurrency=concurrency,
        name="disruption-budgets",
    )


def _evictions(budget: PodDisruptionBudget) -> object:
    """The evictions that the server writes into the status."""
    return None if budget.status is None else budget.status.disrupted_pods


def _no_budgets(_: Object) -> Iterable[Ref[PodDisruptionBudget]]:
    return ()


def _scales(pods: Sequence[Pod], ctx: Context) -> dict[str, int]:
    """The replicas of the controllers of these Pods, by the uid of the controller.

    A Deployment has several ReplicaSets during a rollout; its replicas are counted for one of them only.
    """
    found: dict[str, int] = {}
    deployments: dict[str, str] = {}
    for pod in pods:
        ref = controller_of(pod)
        if ref is None or ref.uid in found:
            continue
        if ref.kind in _SCALED:
            owner = ctx.cached(Ref(_SCALED[ref.kind], ref.name, pod.namespace))
            if owner is not None:
                found[ref.uid] = 1 if owner.spec.replicas is None else owner.spec.replicas
        elif ref.kind == "ReplicaSet":
            owned = ctx.cached(Ref(ReplicaSet, ref.name, pod.namespace))
            if owned is not None:
                found[ref.uid] = _replica_set_scale(owned, deployments, ctx)
    return found


def _replica_set_scale(owned: ReplicaSet, deployments: dict[str, str], ctx: Context) -> int:
    """The replicas of a ReplicaSet's Deployment, or its own; 0 if the Deployment was counted for another one."""
    ref = controller_of(owned)
    owner = None if ref is None else ctx.cached(Ref(Deployment, ref.name, owned.namespace))
    if ref is None or owner is None:
        return 1 if owned.spec.replicas is None else owned.spec.replicas
    first = deployments.setdefault(ref.uid, owned.name)
    if first != owned.name:
        return 0
    return 1 if owner.spec.replicas is None else owner.spec.replicas
