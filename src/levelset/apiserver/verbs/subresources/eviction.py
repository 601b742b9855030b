"""The `eviction` subresource of pods: deletes a pod unless its PodDisruptionBudget forbids it.

The allowed disruptions come from the status of the budget, which the disruption controller writes in a cluster. Without
such a controller there is no status, and the selected pods are counted for each eviction.
"""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from math import ceil
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from levelset.apiserver.authz.access_reviews import MAX_REVIEW_BYTES
from levelset.apiserver.registry import strategy
from levelset.apiserver.registry.metadata import format_timestamp
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.schema import builtin_kind
from levelset.apiserver.verbs import create_and_update, delete
from levelset.apiserver.verbs.get_and_list import get_item
from levelset.apiserver.verbs.write_admission import admit_posted
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.negotiation import read_posted
from levelset.apiserver.wire.request_options import DeleteOptions, WriteOptions, read_delete_options
from levelset.apiserver.wire.request_paths import RequestPath
from levelset.apiserver.wire.status_errors import method_not_allowed, too_large
from levelset.errors import BadRequest, BadSelector, Cause, Forbidden, ServerFailed, TooManyRequests
from levelset.http import Request
from levelset.objects import LabelSelector
from levelset.storage import Item

__all__ = ["Budget", "Evictions", "budget_of", "is_exempt", "is_ready", "selects"]


GROUP: Final = "policy"
_MAX_DISRUPTED_PODS: Final = 2000
_REJECTED_MESSAGE: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_EVICTION: Final = ServedResource(
    *(GROUP, "v1", "Eviction", "evictions", "eviction", "EvictionList"),
    namespaced=True,
    storage_version="v1",
    schema=partial(builtin_kind, GROUP, "v1", "Eviction"),
)


class Evictions:
    """Handles evictions one at a time, because checking a budget and charging it must be atomic."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def handle(
        self, state: ServerState, served: ServedResource, path: RequestPath, request: Request, warnings: list[str]
    ) -> Object:
        """Evicts the pod; raises NotFound, and TooManyRequests if its budget does not allow it now.

        A handler of `ServerState.subresource_handlers`.
        """
        if request.method != "POST" or path.name is None or path.namespace is None:
            raise method_not_allowed()
        options, delete_options = await _read(state, served, path, request, warnings)
        delete_options = replace(delete_options, dry_run=delete_options.dry_run or options.dry_run)
        name, namespace = path.name, path.namespace
        async with self._lock:
            pod = served_tree(served, get_item(state, served, namespace, name))
            if not is_exempt(pod):
                await _take_disruption(state, served, pod, dry_run=delete_options.dry_run)
            if not delete_options.dry_run:
                await create_and_update.mutate(state, served, namespace, name, lambda pod: _disrupted(pod, state.now()))
            # Another one of this name may have been made meanwhile; its budget was not asked.
            delete_options = replace(delete_options, uid=delete_options.uid or pod["metadata"].get("uid"))
            await delete.delete(state, served, namespace, name, delete_options)
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _disrupted(pod: Object, now: datetime) -> Object:
    """The pod with the condition that says why it ends, for controllers that do not count it as failed."""
    status = map_member(pod, "status")
    others = [one for one in list_member(status, "conditions") if one.get("type") != "DisruptionTarget"]
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastProbeTime": None,
        "lastTransitionTime": format_timestamp(now),
    }
    return {**pod, "status": {**status, "conditions": [*others, condition]}}


class Budget(msgspec.Struct, frozen=True):
    """The current numbers of a PodDisruptionBudget."""

    allowed: int
    desired: int
    healthy: int
    is_stale: bool
    """Whether a controller writes the status, and has not observed the last change of the spec yet."""


def budget_of(tree: Object, pods: Iterable[Object]) -> Budget:
    """Returns the numbers of a budget, given all pods that it selects."""
    status, generation = map_member(tree, "status"), tree["metadata"].get("generation") or 0
    seen = status.get("observedGeneration")
    if seen is None:
        return _count_pods(map_member(tree, "spec"), list(pods))
    allowed, desired, healthy = (
        int(status.get(word) or 0) for word in ("disruptionsAllowed", "desiredHealthy", "currentHealthy")
    )
    return Budget(allowed, desired, healthy, is_stale=seen < generation)


def selects(tree: Object, pod: Object) -> bool:
    """Whether a budget selects this pod; one without a selector selects none."""
    selector = map_member(tree, "spec").get("selector")
    if selector is None:
        return False
    try:
        return LabelSelector.from_tree(selector).matches(map_member(map_member(pod, "metadata"), "labels"))
    except BadSelector:
        return True  # rejected at its write, unless another server stored it: be safe


def is_exempt(pod: Object) -> bool:
    """Whether a pod can be evicted without regard to budgets: it is pending, finished or terminating."""
    phase = map_member(pod, "status").get("phase")
    return phase in ("Failed", "Pending", "Succeeded") or "deletionTimestamp" in map_member(pod, "metadata")


def is_ready(pod: Object) -> bool:
    """Whether the Ready condition of a pod is True."""
    conditions = list_member(map_member(pod, "status"), "conditions")
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _count_pods(spec: Object, pods: list[Object]) -> Budget:
    healthy = sum(is_ready(pod) and "deletionTimestamp" not in pod["metadata"] for pod in pods)
    total, min_available = len(pods), spec.get("minAvailable")
    if min_available is None:
        desired = max(total - _count(spec.get("maxUnavailable"), total), 0)
    else:
        desired = _count(min_available, total)
    return Budget(max(healthy - desired, 0), desired, healthy, is_stale=False)


def _count(value: Any, total: int) -> int:
    """Returns a number, or a percentage of the total such as `50%`, rounded up."""
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdigit():
        return ceil(total * int(value[:-1]) / 100)
    return value if isinstance(value, int) else 0


async def _read(
    state: ServerState, served: ServedResource, path: RequestPath, request: Request, warnings: list[str]
) -> tuple[WriteOptions, DeleteOptions]:
    """Decodes and admits the eviction; returns its write options and delete options."""
    if len(request.body) > MAX_REVIEW_BYTES:
        raise too_large(MAX_REVIEW_BYTES)
    body, options = read_posted(request, "eviction")
    if body.tree.get("apiVersion") == "policy/v1beta1":
        body.tree["apiVersion"] = "policy/v1"  # identical versions
    decoded = strategy.decode_new(_EVICTION, path.namespace, body.tree, options)
    warnings += options.warnings
    if decoded.causes:
        raise status_errors.invalid(_EVICTION, "", decoded.causes)
    given = body.tree["metadata"].get("name")
    if given != path.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    body.tree["metadata"] |= {"name": path.name, "namespace": path.namespace}
    await admit_posted(state, served, body.tree, options, request, kind=_EVICTION, warnings=warnings)
    return options, read_delete_options(map_member(body.tree, "deleteOptions"))


async def _take_disruption(state: ServerState, served: ServedResource, pod: Object, *, dry_run: bool) -> None:
    """Takes one disruption from the budget of the pod, if there is one; raises TooManyRequests."""
    kind = state.catalog.find(GROUP, "v1", "poddisruptionbudgets")
    assert kind is not None  # built in
    namespace = pod["metadata"]["namespace"]
    budgets = state.reader.list_nowait(kind.prefix_in(namespace)).items
    if not budgets:
        return
    # In a thread, as there may be thousands of either. The lock of evictions is held: no other one counts meanwhile.
    found = await state.expensive_work.run(partial(_budgets_of, kind, budgets, pod))
    if len(found) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ServerFailed(text)
    if not found:
        return
    stored = state.reader.list_nowait(served.prefix_in(namespace)).items
    pods = await state.expensive_work.run(partial(_selected_pods, served, stored, found[0]))

    def change(tree: Object) -> Object | None:
        return _with_disruption(tree, pods, pod, format_timestamp(state.now()))

    if dry_run:
        change(found[0])
    else:
        await create_and_update.mutate(state, kind, namespace, found[0]["metadata"]["name"], change)


def _budgets_of(kind: ServedResource, items: Sequence[Item], pod: Object) -> list[Object]:
    """Returns the budgets that select a pod."""
    return [tree for tree in (served_tree(kind, item) for item in items) if selects(tree, pod)]


def _selected_pods(served: ServedResource, items: Sequence[Item], budget: Object) -> list[Object]:
    """Returns the pods that a budget counts; none if a controller counts them and writes the status."""
    if map_member(budget, "status").get("observedGeneration") is not None:
        return []
    return [pod for pod in (served_tree(served, item) for item in items) if selects(budget, pod)]


def _with_disruption(tree: Object, pods: list[Object], pod: Object, now: str) -> Object | None:
    """Returns the budget with one disruption less; None if it need not be changed. Raises TooManyRequests."""
    budget, name = budget_of(tree, pods), tree["metadata"]["name"]
    unready = map_member(tree, "spec").get("unhealthyPodEvictionPolicy")
    if not is_ready(pod) and (unready == "AlwaysAllow" or 0 < budget.desired <= budget.healthy):
        return None
    if budget.is_stale:
        raise _rejected(f"The disruption budget {name} is still being processed by the server.", retry_after=10)
    status = map_member(tree, "status")
    disrupted = map_member(status, "disruptedPods")
    if budget.allowed < 0 or len(disrupted) > _MAX_DISRUPTED_PODS:
        problem = "pdb disruptions allowed is negative" if budget.allowed < 0 else "DisruptedPods map too big"
        raise Forbidden(f'poddisruptionbudgets.{GROUP} "{name}" is forbidden: {problem}')
    if budget.allowed == 0:
        needed = f"needs {budget.desired} healthy pods and has {budget.healthy} currently"
        raise _rejected(f"The disruption budget {name} {needed}")
    if status.get("observedGeneration") is None:
        return None  # no controller writes the status: the pods are counted again next time
    left = {"disruptionsAllowed": budget.allowed - 1, "disruptedPods": {**disrupted, pod["metadata"]["name"]: now}}
    return {**tree, "status": {**status, **left}}


def _rejected(message: str, *, retry_after: int | None = None) -> TooManyRequests:
    causes = [Cause("", "DisruptionBudget", message)]
    return TooManyRequests(_REJECTED_MESSAGE, retry_after=retry_after, causes=causes)
