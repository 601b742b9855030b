"""The Service controller: opens a proxy for each address of a Service, and routes it to the ready endpoints."""

from collections.abc import Iterator

from levelset import Action, Context, Controller, Ref, requeue, watches
from levelset.kinds.core_v1 import Service
from levelset.kinds.discovery_v1 import EndpointSlice
from levelset_local.endpoints import SERVICE_NAME
from levelset_local.services.proxies import Proxies, plan_listeners

__all__ = ["RETRY_SECONDS", "services_controller"]

RETRY_SECONDS = 2.0
"""The seconds until an address that could not be listened on is tried again."""


def services_controller(proxies: Proxies, *, all_addresses: bool = False) -> Controller[Service]:
    """Listens on each port of each Service that is reachable here, and forwards to the ready endpoints.

    Services are not written to. If an address cannot be listened on, an event has the reason, once, and it is tried
    again every two seconds. The caller closes `proxies` after the controller has stopped. `all_addresses` is that of
    `plan_listeners`.
    """
    reconciler = _ServiceReconciler(proxies, all_addresses)
    return Controller(
        Service,
        reconciler.reconcile,
        watches(EndpointSlice, to=_service_of),
        gone=reconciler.gone,
        name="services",
        leader_only=False,
    )


class _ServiceReconciler:
    """Reconciles Services, and remembers the last error that was recorded for each."""

    def __init__(self, proxies: Proxies, all_addresses: bool) -> None:
        self._proxies = proxies
        self._all_addresses = all_addresses
        self._recorded: dict[Ref[Service], str] = {}

    async def reconcile(self, service: Service, ctx: Context) -> Action | None:
        slices = await ctx.list(EndpointSlice, namespace=service.namespace, labels={SERVICE_NAME: service.name})
        wanted = plan_listeners(service, slices, all_addresses=self._all_addresses)
        errors = await self._proxies.serve(service.ref, wanted)
        self._record(service, "; ".join(map(str, errors)), ctx)
        return requeue(RETRY_SECONDS) if errors else None

    async def gone(self, ref: Ref[Service], _: Context) -> None:
        self._recorded.pop(ref, None)
        await self._proxies.serve(ref, {})

    def _record(self, service: Service, error: str, ctx: Context) -> None:
        before = self._recorded.pop(service.ref, "")
        if error:
            self._recorded[service.ref] = error
        if error and error != before:
            ctx.record(service, "CannotListen", error, warning=True, action="Listen")
        elif before and not error:
            ctx.record(service, "Listening", "all addresses of the Service are listened on now", action="Listen")


def _service_of(one: EndpointSlice) -> Iterator[Ref[Service]]:
    name = one.metadata.labels.get(SERVICE_NAME)
    if name:
        yield Ref(Service, name, one.namespace)
