"""Has Services reached on this machine: a proxy listens where they are, and leads to their endpoints."""

from collections.abc import Iterator

from levelset import Action, Context, Controller, Ref, requeue, watches
from levelset.kinds.core_v1 import Service
from levelset.kinds.discovery_v1 import EndpointSlice
from levelset_local.endpoints import SERVICE_NAME
from levelset_local.services.plan import plan_doors
from levelset_local.services.proxies import Proxies

__all__ = ["RETRY", "services_controller"]

RETRY = 2.0
"""After how many seconds an address that could not be listened on is tried again."""


def services_controller(proxies: Proxies) -> Controller[Service]:
    """Opens a door for each port of each Service that can have one, and leads it to the endpoints that are ready.

    Nothing is written to Services. If an address cannot be listened on, an event says why, once, and it is tried again
    every two seconds. Whoever runs the controller closes the `proxies` after it.
    """
    serving = _Serving(proxies)
    return Controller(
        Service,
        serving.reconcile,
        watches(EndpointSlice, to=_service_of),
        gone=serving.forget,
        name="services",
        leader_only=False,
    )


class _Serving:
    """The reconciler, with what it has told already."""

    def __init__(self, proxies: Proxies) -> None:
        self._proxies = proxies
        self._told: dict[Ref[Service], str] = {}

    async def reconcile(self, service: Service, ctx: Context) -> Action | None:
        slices = await ctx.list(EndpointSlice, namespace=service.namespace, labels={SERVICE_NAME: service.name})
        problems = await self._proxies.serve(service.ref, plan_doors(service, slices))
        self._tell(service, "; ".join(map(str, problems)), ctx)
        return requeue(RETRY) if problems else None

    async def forget(self, ref: Ref[Service], _: Context) -> None:
        self._told.pop(ref, None)
        await self._proxies.serve(ref, {})

    def _tell(self, service: Service, problem: str, ctx: Context) -> None:
        before = self._told.pop(service.ref, "")
        if problem:
            self._told[service.ref] = problem
        if problem and problem != before:
            ctx.record(service, "CannotListen", problem, warning=True, action="Listen")
        elif before and not problem:
            ctx.record(service, "Listening", "all addresses of the Service are listened on now", action="Listen")


def _service_of(one: EndpointSlice) -> Iterator[Ref[Service]]:
    name = one.metadata.labels.get(SERVICE_NAME)
    if name:
        yield Ref(Service, name, one.namespace)
