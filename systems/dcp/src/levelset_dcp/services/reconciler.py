"""The controller of Services: listens, forwards connections to Endpoints, and reports the address."""

from collections.abc import Iterator
from random import Random
from typing import Any

from levelset import (
    Action,
    Context,
    Controller,
    Index,
    Ref,
    StateMap,
    await_change,
    remembers,
    replace,
    requeue,
    watches,
)
from levelset_dcp.kinds import Endpoint, Service
from levelset_dcp.names import finalizer
from levelset_dcp.services.listeners import Listeners
from levelset_dcp.services.state import (
    ATTEMPTS,
    Attempt,
    ListenAddress,
    Step,
    endpoints_of,
    failed,
    listen_address,
    plan,
    preferred_port,
    status_of,
)
from levelset_machine import CannotListen

__all__ = ["BY_SERVICE", "service_name", "services_controller"]


def service_name(endpoint: Endpoint) -> str:
    """The name of the Service of an Endpoint."""
    return endpoint.spec.service_name


BY_SERVICE: Index[Any] = Index(Endpoint, service_name)


def services_controller(listeners: Listeners, *, random: Random | None = None) -> Controller[Service]:
    """The controller of Services; the address is that of a proxy, or without one, of the first Endpoint."""
    reconciler = _ServiceReconciler(listeners, random or Random())  # noqa: S311 - jitter of retries
    return Controller(
        Service,
        reconciler.reconcile,
        watches(Endpoint, to=_served, indexes=[BY_SERVICE]),
        remembers(reconciler.attempts),
        cleanup=reconciler.clean_up,
        gone=reconciler.forget,
        finalizer=finalizer("service-reconciler"),
        name="dcp-services",
    )


def _served(endpoint: Endpoint) -> Iterator[Ref[Service]]:
    yield Ref(Service, endpoint.spec.service_name)


class _ServiceReconciler:
    """Reconciles Services; `attempts` are the states of their listeners."""

    def __init__(self, listeners: Listeners, random: Random) -> None:
        self._listeners = listeners
        self._random = random
        self.attempts: StateMap[Service, str, Attempt] = StateMap()

    async def reconcile(self, service: Service, ctx: Context) -> Action:
        endpoints = endpoints_of(service, await ctx.list(Endpoint, index=(BY_SERVICE, service.name)))
        attempt = await self._act(plan(service, self.attempts.get(ctx.ref)), service, ctx)
        if attempt is not None and attempt.port is not None:
            self._listeners.set_targets(ctx.ref, [(one.spec.address, one.spec.port) for one in endpoints])
        before = service.status.state if service.status else ""
        status = status_of(service, attempt, endpoints, ctx.now())
        await ctx.set_status(service, status)
        if status.state != (before or "NotReady"):
            ctx.record(service, status.state, f"{status.effective_address}:{status.effective_port} is {status.state}")
        if attempt is not None and attempt.port is None and attempt.tries < ATTEMPTS:
            return requeue(seconds=2.0 + self._random.uniform(0, 0.5))
        return await_change()

    async def _act(self, step: Step, service: Service, ctx: Context) -> Attempt | None:
        """Carries out a step; returns the state of the listener, or None without one."""
        listen_on = listen_address(service)
        if step == "listen" and listen_on is not None:
            return await self._listen(service, listen_on, ctx)
        if step == "close":
            await self._close(ctx.ref)
        return self.attempts.get(ctx.ref)

    async def _listen(self, service: Service, listen_on: ListenAddress, ctx: Context) -> Attempt:
        """Opens the listener, at the previous port if possible."""
        generation = service.metadata.generation or 0
        previous = self.attempts.get(ctx.ref)
        tried = previous if previous is not None and previous.generation == generation else Attempt(generation)
        wanted = preferred_port(service)
        try:
            port = await self._listeners.open(ctx.ref, listen_on.addresses, wanted, service.spec.protocol)
        except CannotListen as error:
            if not service.spec.port and wanted and tried.tries == 0:
                return await self._listen_anywhere(service, listen_on, ctx, tried)
            if tried.tries == 0:
                ctx.record(service, "CannotListen", str(error), warning=True)
            made = failed(tried, str(error))
        else:
            made = replace(tried, port=port, advertised=listen_on.advertised, error="")
        self.attempts.put(ctx.ref, made)
        return made

    async def _listen_anywhere(
        self, service: Service, listen_on: ListenAddress, ctx: Context, tried: Attempt
    ) -> Attempt:
        """Listens on any free port, because the previous one is taken."""
        try:
            port = await self._listeners.open(ctx.ref, listen_on.addresses, 0, service.spec.protocol)
            made = replace(tried, port=port, advertised=listen_on.advertised, error="")
        except CannotListen as error:
            made = failed(tried, str(error))
        self.attempts.put(ctx.ref, made)
        return made

    async def clean_up(self, _service: Service, ctx: Context) -> None:
        await self._close(ctx.ref)

    async def forget(self, ref: Ref[Service], _ctx: Context) -> None:
        await self._close(ref)

    async def _close(self, ref: Ref[Service]) -> None:
        await self._listeners.close(ref)
        self.attempts.forget(ref)
