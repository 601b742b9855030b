"""The `eviction` subresource of pods: deletes a pod unless a PodDisruptionBudget needs it, as `kubectl drain` wants."""

import asyncio
import functools
from typing import Final

from msgspec.structs import replace

from levelset.apiserver import admitting, deleting, refusals, strategy, writing
from levelset.apiserver.addresses import Address
from levelset.apiserver.admission import Asking
from levelset.apiserver.callers import OWNER
from levelset.apiserver.disruption import budget_of, is_free, is_ready, selects
from levelset.apiserver.members import part
from levelset.apiserver.metadata import time_text
from levelset.apiserver.negotiation import read_object
from levelset.apiserver.objects import served_tree
from levelset.apiserver.options import DeleteOptions, WriteOptions, read_delete_options, write_options
from levelset.apiserver.rendering import JSON_HEADERS
from levelset.apiserver.reviews import LARGEST
from levelset.apiserver.schemas import builtin_kind
from levelset.apiserver.served import Object, Served
from levelset.apiserver.statuses import method_not_allowed, too_large
from levelset.apiserver.world import World
from levelset.apiserver.writing import get_item
from levelset.errors import BadRequest, Cause, Forbidden, ServerFailed, TooManyRequests
from levelset.objects import encode_tree
from levelset.web import Request, Response

__all__ = ["Evictions"]

GROUP: Final = "policy"
_MOST_DISRUPTED: Final = 2000
_REFUSED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_EVICTION: Final = Served(
    *(GROUP, "v1", "Eviction", "evictions", "eviction", "EvictionList"),
    namespaced=True,
    storage_version="v1",
    schema=functools.partial(builtin_kind, GROUP, "v1", "Eviction"),
)


class Evictions:
    """Answers the requests, one at a time: what a budget allows is counted and used up in one step."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def answer(self, world: World, served: Served, address: Address, request: Request) -> Response:
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
                raise refusals.not_found(served, name)
            pod = served_tree(served, item)
            if not is_free(pod):
                await _charge(world, served, pod, dry_run=how.dry_run)
            await deleting.delete(world, served, namespace, name, how)
        told: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
        return Response(201, JSON_HEADERS, encode_tree(told))


async def _read(world: World, served: Served, address: Address, request: Request) -> tuple[WriteOptions, DeleteOptions]:
    """The eviction as its sender wants it, once all who are asked about such things have agreed."""
    if len(request.body) > LARGEST:
        raise too_large(LARGEST)
    body = read_object(request)
    options = write_options(request, "CreateOptions", subresource="eviction", duplicates=body.duplicates)
    if body.tree.get("apiVersion") == "policy/v1beta1":
        body.tree["apiVersion"] = "policy/v1"  # they are the same
    decoded = strategy.begin_create(_EVICTION, address.namespace, body.tree, options)
    if decoded.causes:
        raise refusals.invalid(_EVICTION, "", decoded.causes)
    given = body.tree["metadata"].get("name")
    if given and given != address.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    body.tree["metadata"] |= {"name": address.name, "namespace": address.namespace}
    chain = world.admission
    if chain is not None and chain.concerns(served, "eviction", world.catalog):
        caller = OWNER if world.access is None else world.access.caller(request)
        asking = Asking(chain, caller, options.warnings, None, {} if request.remarks is None else request.remarks)
        await admitting.check_part(world, served, body.tree, replace(options, asking=asking))
    return options, read_delete_options(part(body.tree, "deleteOptions"))


async def _charge(world: World, served: Served, pod: Object, *, dry_run: bool) -> None:
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
        await writing.mutate(world, kind, namespace, found[0]["metadata"]["name"], charge)


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
