"""The controller of Services: listens, leads to the endpoints, and says so in the status."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

from levelset import Action, Context, Controller, Index, Ref, StateMap, await_change, remembers, requeue, watches
from levelset_dcp.kinds import Endpoint, Service
from levelset_dcp.naming import finalizer
from levelset_dcp.services.listeners import Listeners
from levelset_dcp.services.plan import (
    ATTEMPTS,
    Attempt,
    Place,
    endpoints_of,
    failed,
    places_of,
    preferred_port,
    status_of,
)
from levelset_machine import CannotListen

__all__ = ["BY_SERVICE", "service_name", "services_controller"]


def service_name(endpoint: Endpoint) -> str:
    """The Service that an endpoint belongs to."""
    return endpoint.spec.service_name


BY_SERVICE: Index[Any] = Index(Endpoint, service_name)


def services_controller(listeners: Listeners, *, random: Random | None = None) -> Controller[Service]:
    """Gives each Service an address: that of a proxy, or without one, that of its first endpoint."""
    look = _Look(listeners, random or Random())  # noqa: S311 - spreads tries, protects nothing
    return Controller(
        Service,
        look.reconcile,
        watches(Endpoint, to=_served, indexes=[BY_SERVICE]),
        remembers(look.attempts),
        cleanup=look.clean_up,
        gone=look.forget,
        finalizer=finalizer("service-reconciler"),
        name="dcp-services",
    )


def _served(endpoint: Endpoint) -> Iterator[Ref[Service]]:
    yield Ref(Service, endpoint.spec.service_name)


class _Look:
    """One look at a Service, with what is remembered between two of them."""

    def __init__(self, listeners: Listeners, random: Random) -> None:
        self._listeners = listeners
        self._random = random
        self.attempts: StateMap[Service, str, Attempt] = StateMap()

    async def reconcile(self, service: Service, ctx: Context) -> Action:
        place = places_of(service)
        endpoints = endpoints_of(service, await ctx.list(Endpoint, index=(BY_SERVICE, service.name)))
        attempt = None if place is None else await self._listen(service, place, ctx)
        if place is None:
            await self._close(ctx.ref)
        elif attempt is not None and attempt.port is not None:
            self._listeners.lead(ctx.ref, [(one.spec.address, one.spec.port) for one in endpoints])
        before = service.status.state if service.status else ""
        status = status_of(service, attempt, endpoints, ctx.now())
        await ctx.set_status(service, status)
        if status.state != (before or "NotReady"):
            ctx.record(service, status.state, f"{status.effective_address}:{status.effective_port} is {status.state}")
        if attempt is not None and attempt.port is None and attempt.tries < ATTEMPTS:
            return requeue(seconds=2.0 + self._random.uniform(0, 0.5))
        return await_change()

    async def _listen(self, service: Service, place: Place, ctx: Context) -> Attempt:
        """Listens, unless it does, or has tried often enough."""
        generation = service.metadata.generation or 0
        known = self.attempts.borrow(ctx.ref)
        if known is not None and known.generation == generation and (known.port or known.tries >= ATTEMPTS):
            return known
        tried = known if known is not None and known.generation == generation else Attempt(generation)
        wanted = preferred_port(service)
        try:
            port = await self._listeners.open(ctx.ref, place.addresses, wanted, service.spec.protocol)
        except CannotListen as error:
            if not service.spec.port and wanted and tried.tries == 0:
                return await self._listen_anywhere(service, place, ctx, tried)
            if tried.tries == 0:
                ctx.record(service, "CannotListen", str(error), warning=True)
            made = failed(tried, str(error))
        else:
            made = replace(tried, port=port, told=place.told, trouble="")
        self.attempts.keep(ctx.ref, made)
        return made

    async def _listen_anywhere(self, service: Service, place: Place, ctx: Context, tried: Attempt) -> Attempt:
        """The port that it had is taken by now: any other one."""
        try:
            port = await self._listeners.open(ctx.ref, place.addresses, 0, service.spec.protocol)
            made = replace(tried, port=port, told=place.told, trouble="")
        except CannotListen as error:
            made = failed(tried, str(error))
        self.attempts.keep(ctx.ref, made)
        return made

    async def clean_up(self, _service: Service, ctx: Context) -> None:
        await self._close(ctx.ref)

    async def forget(self, ref: Ref[Service], _ctx: Context) -> None:
        await self._close(ref)

    async def _close(self, ref: Ref[Service]) -> None:
        await self._listeners.close(ref)
        self.attempts.forget(ref)
