"""The endpoint controllers: keep the EndpointSlices and Endpoints of Services up to date with their Pods."""

from collections.abc import Hashable, Iterator, Mapping
from typing import Final

from levelset import Context, Controller, by, matches, owns
from levelset.kinds.core_v1 import Endpoints, Pod, Service
from levelset.kinds.discovery_v1 import EndpointSlice
from levelset_local.endpoints.endpoint_slices import MANAGED_BY, MANAGER, SERVICE_NAME, plan_slices
from levelset_local.endpoints.legacy_endpoints import is_same_endpoints, plan_endpoints
from levelset_local.endpoints.pod_endpoints import endpoint_inputs

__all__ = ["endpoint_slices_controller", "endpoints_controller"]


def _selector_of(service: Service) -> Mapping[str, str]:
    """The selector of a Service; empty if its endpoints are not managed here."""
    return {} if service.spec.type == "ExternalName" else service.spec.selector


def _service_label_keys(service: Service) -> Iterator[Hashable]:
    """A label of the selector with its namespace, as an index key: every Pod of the Service has it."""
    selector = _selector_of(service)
    if selector:
        yield service.namespace, min(selector.items())


def _pod_label_keys(pod: Pod) -> Iterator[Hashable]:
    """The labels of a Pod, each with its namespace, as index keys."""
    for label in pod.metadata.labels.items():
        yield pod.namespace, label


_PODS: Final = matches(Pod, ours=_service_label_keys, theirs=_pod_label_keys, when=by.value(endpoint_inputs))


def endpoint_slices_controller() -> Controller[Service]:
    """The controller that maintains the EndpointSlices of each Service with a selector.

    The slices of Services without a selector are left to the user. Slices are owned by their Service and deleted with
    it.
    """
    children = owns(EndpointSlice, metadata_only=False)
    return Controller(Service, _reconcile_slices, children, _PODS, name="endpoint-slices")


def endpoints_controller() -> Controller[Service]:
    """The controller that maintains the Endpoints object of each Service, for clients that do not read EndpointSlices.

    Unlike in Kubernetes it is owned by its Service, so that it is deleted with it even if no controller runs.
    """
    children = owns(Endpoints, metadata_only=False)
    return Controller(Service, _reconcile_endpoints, children, _PODS, name="endpoints")


async def _reconcile_slices(service: Service, ctx: Context) -> None:
    if not _selector_of(service):
        return
    labels = {SERVICE_NAME: service.name, MANAGED_BY: MANAGER}
    existing = await ctx.list(EndpointSlice, namespace=service.namespace, labels=labels)
    plan = plan_slices(service, await _pods(service, ctx), existing)
    for one in plan.stale:
        await ctx.delete(one)
    for one in plan.wanted:
        await ctx.apply(one)
    for one in plan.empty:
        await ctx.delete(one)


async def _reconcile_endpoints(service: Service, ctx: Context) -> None:
    if not _selector_of(service):
        return
    wanted = plan_endpoints(service, await _pods(service, ctx))
    existing = await ctx.find(wanted.ref)
    if is_same_endpoints(existing, wanted):
        return
    if existing is not None and _is_of_earlier_service(existing, service):
        await ctx.delete(existing)
    await ctx.apply(wanted)


async def _pods(service: Service, ctx: Context) -> list[Pod]:
    return list(await ctx.list(Pod, namespace=service.namespace, labels=dict(_selector_of(service))))


def _is_of_earlier_service(existing: Endpoints, service: Service) -> bool:
    """Whether it is owned by an earlier Service of the same name, and not garbage collected yet."""
    owners = existing.metadata.owner_references
    return any(one.kind == "Service" and one.uid != service.metadata.uid for one in owners)
