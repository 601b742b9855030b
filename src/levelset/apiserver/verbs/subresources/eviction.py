"""The `eviction` subresource of pods: deletes a pod unless a PodDisruptionBudget needs it, as `kubectl drain` wants.

How many pods a PodDisruptionBudget lets go: by its status, or by the pods if nobody keeps one; pure.

In a cluster a controller writes the status. Where none runs, the pods that the budget selects are counted anew.
"""

import asyncio
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from msgspec.structs import replace

from levelset.apiserver.admission.chain import Asking
from levelset.apiserver.authn.users import OWNER
from levelset.apiserver.authz.access_reviews import LARGEST
from levelset.apiserver.registry import strategy
from levelset.apiserver.registry.metadata import time_text
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.schema import builtin_kind
from levelset.apiserver.verbs import create_and_update, delete, write_admission
from levelset.apiserver.verbs.create_and_update import get_item
from levelset.apiserver.verbs.response_format import JSON_HEADERS
from levelset.apiserver.wire import status_errors
from levelset.apiserver.wire.negotiation import read_object
from levelset.apiserver.wire.request_options import DeleteOptions, WriteOptions, read_delete_options, write_options
from levelset.apiserver.wire.request_paths import Address
from levelset.apiserver.wire.status_errors import method_not_allowed, too_large
from levelset.errors import BadRequest, BadSelector, Cause, Forbidden, ServerFailed, TooManyRequests
from levelset.http import Request, Response
from levelset.objects import LabelSelector, encode_tree

__all__ = ["Budget", "Evictions", "budget_of", "is_free", "is_ready", "selects"]


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


GROUP: Final = "policy"
_MOST_DISRUPTED: Final = 2000
_REFUSED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_EVICTION: Final = ServedResource(
    *(GROUP, "v1", "Eviction", "evictions", "eviction", "EvictionList"),
    namespaced=True,
    storage_version="v1",
    schema=functools.partial(builtin_kind, GROUP, "v1", "Eviction"),
)


class Evictions:
    """Answers the requests, one at a time: what a budget allows is counted and used up in one step."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def answer(self, world: World, served: ServedResource, address: Address, request: Request) -> Response:
        """Deletes the pod; raises NotFound, and TooManyRequests if a budget does not allow it now.

        A handler of `World.special`.
        """
        if request.method != "POST" or address.name is None or address.namespace is None:
            raise method_not_allowed(request.method, request.path)
        options, how = await _read(world, served, address, request)
        how = replace(how, dry_run=how.dry_run or options.dry_run)
        name, namespace = address.name, address.namespace
        async with self._turn:
            item = await get_item(world, served.key(namespace, name))
            if item is None:
                raise status_errors.object_not_found(served, name)
            pod = served_tree(served, item)
            if not is_free(pod):
                await _charge(world, served, pod, dry_run=how.dry_run)
            await delete.delete(world, served, namespace, name, how)
        told: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        return Response(201, JSON_HEADERS, encode_tree(told))


async def _read(
    world: World, served: ServedResource, address: Address, request: Request
) -> tuple[WriteOptions, DeleteOptions]:
    """The eviction as its sender wants it, once all who are asked about such things have agreed."""
    if len(request.body) > LARGEST:
        raise too_large(LARGEST)
    body = read_object(request)
    options = write_options(request, "CreateOptions", subresource="eviction", duplicates=body.duplicates)
    if body.tree.get("apiVersion") == "policy/v1beta1":
        body.tree["apiVersion"] = "policy/v1"  # they are the same
    decoded = strategy.begin_create(_EVICTION, address.namespace, body.tree, options)
    if decoded.causes:
        raise status_errors.invalid(_EVICTION, "", decoded.causes)
    given = body.tree["metadata"].get("name")
    if given and given != address.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    body.tree["metadata"] |= {"name": address.name, "namespace": address.namespace}
    chain = world.admission
    if chain is not None and chain.concerns(served, "eviction", world.catalog):
        caller = OWNER if world.access is None else world.access.caller(request)
        asking = Asking(chain, caller, options.warnings, None, {} if request.remarks is None else request.remarks)
        await write_admission.check_part(world, served, body.tree, replace(options, asking=asking))
    return options, read_delete_options(part(body.tree, "deleteOptions"))


async def _charge(world: World, served: ServedResource, pod: Object, *, dry_run: bool) -> None:
    """Takes one disruption from the budget of the pod, if it has one; raises TooManyRequests."""
    kind = world.catalog.find(GROUP, "v1", "poddisruptionbudgets")
    assert kind is not None  # built in
    namespace = pod["metadata"]["namespace"]
    page = await world.storage.list(kind.prefix_in(namespace))
    found = [tree for tree in (served_tree(kind, item) for item in page.items) if selects(tree, pod)]
    if len(found) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ServerFailed(text)
    if not found:
        return
    pods = [served_tree(served, item) for item in (await world.storage.list(served.prefix_in(namespace))).items]

    def charge(tree: Object) -> Object | None:
        return _charged(tree, [one for one in pods if selects(tree, one)], pod, time_text(world.now()))

    if dry_run:
        charge(found[0])
    else:
        await create_and_update.mutate(world, kind, namespace, found[0]["metadata"]["name"], charge)


def _charged(tree: Object, pods: list[Object], pod: Object, now: str) -> Object | None:
    """The budget with one disruption less, None if it does not count this one; raises TooManyRequests."""
    budget, name = budget_of(tree, pods), tree["metadata"]["name"]
    unready = part(tree, "spec").get("unhealthyPodEvictionPolicy")
    if not is_ready(pod) and (unready == "AlwaysAllow" or 0 < budget.desired <= budget.healthy):
        return None
    if budget.is_stale:
        raise _refused(f"The disruption budget {name} is still being processed by the server.", retry_after=10)
    status = part(tree, "status")
    disrupted = part(status, "disruptedPods")
    if budget.allowed < 0 or len(disrupted) > _MOST_DISRUPTED:
        problem = "pdb disruptions allowed is negative" if budget.allowed < 0 else "DisruptedPods map too big"
        raise Forbidden(f'poddisruptionbudgets.{GROUP} "{name}" is forbidden: {problem}')
    if budget.allowed == 0:
        needed = f"needs {budget.desired} healthy pods and has {budget.healthy} currently"
        raise _refused(f"The disruption budget {name} {needed}")
    if status.get("observedGeneration") is None:
        return None  # nobody keeps its status: the pods are counted anew the next time
    left = {"disruptionsAllowed": budget.allowed - 1, "disruptedPods": {**disrupted, pod["metadata"]["name"]: now}}
    return {**tree, "status": {**status, **left}}


def _refused(message: str, *, retry_after: int | None = None) -> TooManyRequests:
    causes = [Cause("", "DisruptionBudget", message)]
    return TooManyRequests(_REFUSED, retry_after=retry_after, causes=causes)
