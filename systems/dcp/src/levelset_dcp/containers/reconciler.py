"""The controller of Containers: adopts, starts, stops and removes them, and reports their status.

The reconciler never waits for the engine: slow operations run as background tasks, and a later reconcile sees their
results.
"""

from functools import partial
from typing import Final

from levelset import (
    Action,
    Context,
    Controller,
    Ref,
    StateMap,
    await_change,
    by,
    matches,
    owns,
    references,
    remembers,
    replace,
    requeue,
    source,
)
from levelset.aio import timing
from levelset.runtime.cache import by_owner
from levelset_dcp.containers.background_tasks import BackgroundTasks
from levelset_dcp.containers.create_request import Prepared, key_of, prepare
from levelset_dcp.containers.host import ContainerHost
from levelset_dcp.containers.launcher import RETRY_DELAY, Launcher
from levelset_dcp.containers.logs import startup_keys, system_key
from levelset_dcp.containers.owned_objects import (
    VOLUMES,
    connections_of,
    endpoints_of,
    mounted_volumes,
    referenced_networks,
    sync_connections,
    volume_names,
    volume_state,
)
from levelset_dcp.containers.state import FINAL, Change, ObservedContainer, Step, lease_of, plan, retry_later
from levelset_dcp.containers.status import observed_from_status, status_of
from levelset_dcp.containers.supervisor import ContainerSupervisor, SupervisedContainer
from levelset_dcp.kinds import (
    Container,
    ContainerNetwork,
    ContainerNetworkConnection,
    ContainerStatus,
    ContainerVolume,
    Endpoint,
    Service,
)
from levelset_dcp.names import finalizer
from levelset_dcp.workloads.health_probes import probe_check, probe_schedule
from levelset_dcp.workloads.modes import container_policy
from levelset_dcp.workloads.service_producers import producers, referenced_services, sync_endpoints
from levelset_dcp.workloads.templates import DependencyNotReady, container_context
from levelset_dcp.workloads.workload_status import state_line, write_state
from levelset_machine import Check, ProbeSchedule

__all__ = ["ContainerReconciler", "containers_controller"]

_SOON: Final = 2.0


def containers_controller(host: ContainerHost, *, concurrency: int = 6) -> Controller[Container]:
    """The controller of Containers."""
    return ContainerReconciler(host).controller(concurrency)


class ContainerReconciler:
    """Reconciles Containers; their observed state is in `states`."""

    def __init__(self, host: ContainerHost) -> None:
        self.host = host
        self.states: StateMap[Container, str, ObservedContainer] = StateMap()
        self._background: BackgroundTasks[ObservedContainer] = BackgroundTasks(self.states, _retry)
        self._supervisor = ContainerSupervisor(host, self.states, self._background)
        self._launcher = Launcher(host, self._supervisor.follow)

    def controller(self, concurrency: int = 6) -> Controller[Container]:
        """The controller with its watches and sources."""
        return Controller(
            Container,
            self.reconcile,
            owns(Endpoint, metadata_only=False, indexes=[by_owner()]),
            owns(ContainerNetworkConnection, metadata_only=False, indexes=[by_owner()]),
            references(Service, referenced_services),
            references(ContainerNetwork, referenced_networks),
            matches(
                ContainerVolume,
                ours=mounted_volumes,
                theirs=volume_names,
                when=by.value(volume_state),
                indexes=[VOLUMES],
            ),
            remembers(self.states),
            source(self._supervisor.open_source),
            cleanup=self.clean_up,
            finalizer=finalizer("container-reconciler"),
            name="dcp-containers",
            concurrency=concurrency,
        )

    async def reconcile(self, container: Container, ctx: Context) -> Action:
        """Starts the next operation of a Container, and writes its owned objects and its status."""
        self._supervisor.watcher.require_open(container.ref)
        observed = await self._advance(container, self._observed(container), ctx)
        is_waiting = await self._sync_dependents(container, observed, ctx)
        await self._write_status(container, observed, ctx)
        if observed.retry_at > timing.now():
            return requeue(seconds=observed.retry_at - timing.now())
        return requeue(seconds=_SOON) if is_waiting or _needs_polling(observed) else await_change()

    async def clean_up(self, container: Container, ctx: Context) -> Action | None:
        """Removes the container, unless its mode keeps it, and everything that belongs to it."""
        self._supervisor.watcher.require_open(container.ref)
        observed, policy = self._observed(container), container_policy(container.spec)
        if self._background.is_busy(ctx.ref):
            return requeue(seconds=RETRY_DELAY)  # a container that is being started is removed after the start
        if policy.removes and not observed.is_removed and not self._cannot_remove(observed):
            if observed.state in ("Running", "Paused"):
                observed = replace(observed, state="Stopping", is_stopping=True)
                self.states.put(ctx.ref, observed)
            await self._sync_dependents(container, observed, ctx)
            await self._write_status(container, observed, ctx)
            if timing.now() >= observed.retry_at:
                found = observed.container_id
                self._background.start(ctx, observed.uid, "remove", lambda: self._launcher.remove(container, found))
            return requeue(seconds=max(observed.retry_at - timing.now(), RETRY_DELAY))
        await sync_endpoints(ctx, container, ())
        await sync_connections(ctx, container, ())
        await self._forget(container, ctx)
        return None

    async def _advance(self, container: Container, observed: ObservedContainer, ctx: Context) -> ObservedContainer:
        """Starts the next step, unless a task is running or a delay has not passed."""
        step = plan(container, observed)
        if step == "none" or self._background.is_busy(ctx.ref) or timing.now() < observed.retry_at:
            return observed
        try:
            observed = await self._act(step, container, observed, ctx)
        except DependencyNotReady as error:
            state = "Starting" if step == "start" else observed.state
            observed = replace(observed, state=state, message=str(error))
        self.states.put(ctx.ref, observed)
        return observed

    async def _act(
        self, step: Step, container: Container, observed: ObservedContainer, ctx: Context
    ) -> ObservedContainer:
        """Starts the background task of a step, and returns the new observed state; raises DependencyNotReady."""
        uid = observed.uid
        if step == "find":
            key: str | None = None
            if container_policy(container.spec).adopts and not container.spec.stop:
                effective, key = await key_of(container, ctx)
                observed = replace(observed, key=key, env=effective.shown, args=effective.args)
            self._background.start(ctx, uid, "find", lambda: self._launcher.find(container, key))
        elif step == "start":
            prepared = await prepare(container, ctx)
            observed = self._begin(container, observed, prepared)
            report = partial(self._background.defer, ctx.ref, uid)
            self._background.start(ctx, uid, "start", lambda: self._launcher.start(container, prepared, report))
        elif step == "stop":
            observed = replace(observed, state="Stopping", is_stopping=True, message="")
            self._background.start(ctx, uid, "stop", lambda: self._launcher.stop(observed.container_id))
        else:
            now, message = self.host.now(), "stopped before it was started"
            observed = replace(observed, state="FailedToStart", started_at=now, finished_at=now, message=message)
        return observed

    def _begin(self, container: Container, observed: ObservedContainer, prepared: Prepared) -> ObservedContainer:
        files = [self.host.logs.path(key) for key in startup_keys(observed.uid)]
        return replace(
            observed,
            state="Building" if container.spec.build is not None else "Starting",
            message="",
            env=prepared.effective.shown,
            args=prepared.effective.args,
            key=prepared.key,
            files=(str(files[0] or ""), str(files[1] or "")),
        )

    async def _sync_dependents(self, container: Container, observed: ObservedContainer, ctx: Context) -> bool:
        """Syncs Endpoints, connections and probes with the state; returns whether something is not ready yet."""
        uid, is_there = observed.uid, bool(observed.container_id) and observed.state not in FINAL
        supervised = self._supervisor.supervise(ctx.ref, uid, observed.container_id) if is_there else None
        if observed.is_unresolved:
            return False
        wanted = connections_of(container, observed.container_id) if is_there else ()
        await sync_connections(ctx, container, wanted)
        if observed.state != "Running" or supervised is None:
            await self._supervisor.stop_probes(uid)
            await sync_endpoints(ctx, container, ())
            return False
        endpoints = endpoints_of(container, observed.ports)
        await sync_endpoints(ctx, container, endpoints)
        return self._start_probes(container, supervised, ctx) or len(endpoints) < len(producers(container))

    def _start_probes(self, container: Container, supervised: SupervisedContainer, ctx: Context) -> bool:
        """Starts the probes whose templates can be evaluated; returns whether others have to wait."""
        probes = container.spec.health_probes
        if not probes:
            return False
        context, ready = container_context(container, ctx.cached), dict[str, tuple[Check, ProbeSchedule]]()
        for probe in probes:
            try:
                ready[probe.name] = (probe_check(probe, context, self.host.ambient), probe_schedule(probe))
            except DependencyNotReady:
                continue
        self._supervisor.start_probes(supervised, ready)
        return len(ready) < len(probes)

    async def _write_status(self, container: Container, observed: ObservedContainer, ctx: Context) -> None:
        before = container.status or ContainerStatus()
        status = status_of(container, observed, self._networks(container, observed, ctx), ctx.now())
        message = observed.message or f"{container.spec.image or container.name} is {status.state}"
        is_warning = observed.state in (*FINAL, "RuntimeUnhealthy")
        is_new = await write_state(ctx, container, status, message, is_warning=is_warning)
        if is_new or status.message != before.message:
            self._log_state(container, observed)
        if is_new and observed.state in FINAL:
            self.host.gone(observed.uid)

    def _networks(self, container: Container, observed: ObservedContainer, ctx: Context) -> tuple[str, ...]:
        """The ContainerNetworks of the spec that it is attached to; unchanged until it was inspected."""
        if not observed.is_inspected and observed.state not in FINAL:
            return container.status.networks if container.status is not None else ()
        found: list[str] = []
        for one in container.spec.networks or ():
            network = ctx.cached(Ref(ContainerNetwork, one.name))
            status = None if network is None else network.status
            if status is not None and not {status.id, status.network_name}.isdisjoint(observed.attached):
                found.append(one.name)
        return tuple(found)

    def _cannot_remove(self, observed: ObservedContainer) -> bool:
        """Whether removal must be skipped: there is no engine, or it is down and most likely created nothing."""
        return self.host.engine is None or (observed.state == "RuntimeUnhealthy" and not observed.container_id)

    def _observed(self, container: Container) -> ObservedContainer:
        return self._background.observed(container, lambda: observed_from_status(container))

    async def _forget(self, container: Container, ctx: Context) -> None:
        """Drops state, logs and leases of a Container."""
        uid = container.metadata.uid
        await self._supervisor.release(uid)
        self._background.forget(ctx.ref)
        if self.host.terminals is not None:
            await self.host.terminals.close(uid)
        self.host.gone(uid)
        for key in (*startup_keys(uid), system_key(uid), f"{uid}_monitor"):
            self.host.logs.remove(key)
        if container_policy(container.spec).adopts:
            await self.host.records.release(lease_of(container))

    def _log_state(self, container: Container, observed: ObservedContainer) -> None:
        """Appends the state to the system log of the Container."""
        sink = self.host.logs.open(system_key(observed.uid))
        running_as = f"container {observed.container_id[:12]}" if observed.container_id else ""
        code, message = observed.exit_code, observed.message
        sink.write(state_line(container.name, observed.state, running_as=running_as, exit_code=code, message=message))
        sink.close()


def _needs_polling(observed: ObservedContainer) -> bool:
    """Whether it waits for something that causes no event, so that it must be polled."""
    return observed.state in ("Starting", "NotFound", "Pending") and bool(observed.message)


def _retry(message: str) -> Change:
    return retry_later(message, timing.now() + RETRY_DELAY)
