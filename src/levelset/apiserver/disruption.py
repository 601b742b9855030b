"""How many pods a PodDisruptionBudget lets go: by its status, or by the pods if nobody keeps one; pure.

In a cluster a controller writes the status. Where none runs, the pods that the budget selects are counted anew.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from typing import Any

from levelset.apiserver.members import items, part
from levelset.apiserver.served import Object
from levelset.errors import BadSelector
from levelset.objects import LabelSelector

__all__ = ["Budget", "budget_of", "is_free", "is_ready", "selects"]


@dataclass(frozen=True, slots=True)
class Budget:
    """What a budget says now."""

    allowed: int
    desired: int
    healthy: int
    is_stale: bool
    """Whether somebody keeps its status, and has not seen its last change yet."""


def budget_of(tree: Object, pods: Iterable[Object]) -> Budget:
    """What a budget says, given all pods that it selects."""
    status, generation = part(tree, "status"), tree["metadata"].get("generation") or 0
    seen = status.get("observedGeneration")
    if seen is None:
        return _counted(part(tree, "spec"), list(pods))
    allowed, desired, healthy = (
        int(status.get(word) or 0) for word in ("disruptionsAllowed", "desiredHealthy", "currentHealthy")
    )
    return Budget(allowed, desired, healthy, is_stale=seen < generation)


def selects(tree: Object, pod: Object) -> bool:
    """Whether a budget is about this pod; one without a selector is about none."""
    selector = part(tree, "spec").get("selector")
    if selector is None:
        return False
    try:
        return LabelSelector.from_tree(selector).matches(part(part(pod, "metadata"), "labels"))
    except BadSelector:
        return True  # it was refused when it was written, unless by another server: rather kept than let go


def is_free(pod: Object) -> bool:
    """Whether a pod counts for no budget: it has not begun, has ended, or is on its way out."""
    phase = part(pod, "status").get("phase")
    return phase in ("Failed", "Pending", "Succeeded") or "deletionTimestamp" in part(pod, "metadata")


def is_ready(pod: Object) -> bool:
    """Whether a pod says that it is ready."""
    conditions = items(part(pod, "status"), "conditions")
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _counted(spec: Object, pods: list[Object]) -> Budget:
    healthy = sum(is_ready(pod) and "deletionTimestamp" not in pod["metadata"] for pod in pods)
    total, least = len(pods), spec.get("minAvailable")
    desired = max(total - _share(spec.get("maxUnavailable"), total), 0) if least is None else _share(least, total)
    return Budget(max(healthy - desired, 0), desired, healthy, is_stale=False)


def _share(value: Any, total: int) -> int:
    """A number, or a part of the total such as `50%`, rounded up."""
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdigit():
        return ceil(total * int(value[:-1]) / 100)
    return value if isinstance(value, int) else 0
