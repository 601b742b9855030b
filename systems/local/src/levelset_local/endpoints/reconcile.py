"""Keeps the EndpointSlices and the Endpoints of all Services as their Pods are."""

from typing import Final

from levelset import Context, Controller, by, matches, owns
from levelset.kinds.core_v1 import Endpoints, Pod, Service
from levelset.kinds.discovery_v1 import EndpointSlice
from levelset_local.endpoints.legacy import is_same_endpoints, plan_endpoints
from levelset_local.endpoints.plan import MANAGED_BY, MANAGER, SERVICE_NAME, plan_slices
from levelset_local.endpoints.pods import footprint
from levelset_local.endpoints.selecting import selector_of, shared_by_pod, shared_by_service

__all__ = ["endpoint_slices_controller", "endpoints_controller"]

_PODS: Final = matches(Pod, ours=shared_by_service, theirs=shared_by_pod, when=by.value(footprint))


def endpoint_slices_controller() -> Controller[Service]:
    """Gives each Service with a selector the EndpointSlices of its Pods.

    Services without one are left to whoever made them. The slices go with their Service, as they are owned.
    """
    children = owns(EndpointSlice, metadata_only=False)
    return Controller(Service, _reconcile_slices, children, _PODS, name="endpoint-slices")


def endpoints_controller() -> Controller[Service]:
    """Gives each Service with a selector an Endpoints object of its name, for those who do not read EndpointSlices.

    Unlike that of Kubernetes it is owned by its Service, so that it goes with it even if nobody watches.
    """
    children = owns(Endpoints, metadata_only=False)
    return Controller(Service, _reconcile_endpoints, children, _PODS, name="endpoints")


async def _reconcile_slices(service: Service, ctx: Context) -> None:
    if not selector_of(service):
        return
    mine = {SERVICE_NAME: service.name, MANAGED_BY: MANAGER}
    existing = await ctx.list(EndpointSlice, namespace=service.namespace, labels=mine)
    plan = plan_slices(service, await _pods(service, ctx), existing)
    for one in plan.stale:
        await ctx.delete(one)
    for one in plan.wanted:
        await ctx.apply(one)
    for one in plan.empty:
        await ctx.delete(one)


async def _reconcile_endpoints(service: Service, ctx: Context) -> None:
    if not selector_of(service):
        return
    wanted = plan_endpoints(service, await _pods(service, ctx))
    existing = await ctx.find(wanted.ref)
    if is_same_endpoints(existing, wanted):
        return
    if existing is not None and _is_of_another(existing, service):
        await ctx.delete(existing)
    await ctx.apply(wanted)


async def _pods(service: Service, ctx: Context) -> list[Pod]:
    return list(await ctx.list(Pod, namespace=service.namespace, labels=dict(selector_of(service))))


def _is_of_another(existing: Endpoints, service: Service) -> bool:
    """Whether it belongs to an earlier Service of the same name, and waits for being collected."""
    owners = existing.metadata.owner_references
    return any(one.kind == "Service" and one.uid != service.metadata.uid for one in owners)
