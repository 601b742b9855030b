"""The controller of Executables: adopts, starts and stops processes, and reports their status."""

import asyncio
from typing import Final

from levelset import (
    Action,
    Context,
    Controller,
    Retry,
    StateMap,
    await_change,
    owns,
    references,
    remembers,
    replace,
    requeue,
    source,
)
from levelset_dcp.executables.host import ExecutableHost
from levelset_dcp.executables.launcher import Launcher, lifecycle_key
from levelset_dcp.executables.logs import system_key
from levelset_dcp.executables.state import (
    LOST,
    ObservedRun,
    Step,
    is_final,
    observed_from_status,
    plan,
    should_stop,
    status_of,
)
from levelset_dcp.executables.supervisor import ProcessSupervisor, SupervisedRun
from levelset_dcp.kinds import Endpoint, Executable, ExecutableStatus, Service
from levelset_dcp.names import finalizer
from levelset_dcp.records.interface import ProcessRecord
from levelset_dcp.workloads.certificates import certificate_folder, remove_certificates
from levelset_dcp.workloads.health_probes import probe_check, probe_schedule
from levelset_dcp.workloads.modes import executable_policy
from levelset_dcp.workloads.service_producers import endpoint_of, producers, referenced_services, sync_endpoints
from levelset_dcp.workloads.templates import DependencyNotReady
from levelset_dcp.workloads.workload_status import state_line, write_state
from levelset_machine import Check, ProbeSchedule

__all__ = ["ExecutableReconciler", "executables_controller"]

_SOON: Final = 2.0
_LATER: Final = 5.0


def executables_controller(host: ExecutableHost, *, concurrency: int = 6) -> Controller[Executable]:
    """The controller of Executables."""
    return ExecutableReconciler(host).controller(concurrency)


class ExecutableReconciler:
    """Reconciles Executables; their observed state is in `states`, by object and by process."""

    def __init__(self, host: ExecutableHost) -> None:
        self.host = host
        self.states: StateMap[Executable, str, ObservedRun] = StateMap()
        self._supervisor = ProcessSupervisor(host, self.states)
        self._launcher = Launcher(host, self.states, self._supervisor)

    def controller(self, concurrency: int = 6) -> Controller[Executable]:
        """The controller with its watches and sources."""
        return Controller(
            Executable,
            self.reconcile,
            owns(Endpoint, metadata_only=False),
            references(Service, referenced_services),
            remembers(self.states),
            source(self._supervisor.open_source),
            cleanup=self.clean_up,
            finalizer=finalizer("executable-reconciler"),
            name="dcp-executables",
            concurrency=concurrency,
        )

    async def reconcile(self, exe: Executable, ctx: Context) -> Action:
        """Takes the next step of an Executable, and writes its Endpoints and its status."""
        self._require_started(exe)
        observed, delay = await self._advance(exe, self._observed(exe), ctx)
        is_waiting = await self._sync_dependents(exe, observed, ctx)
        await self._write_status(exe, observed, ctx)
        return requeue(seconds=delay or _SOON) if delay or is_waiting else await_change()

    async def clean_up(self, exe: Executable, ctx: Context) -> Action | None:
        """Stops the process, unless its mode keeps it, and removes everything that belongs to it."""
        self._require_started(exe)
        observed, must_stop = self._observed(exe), executable_policy(exe.spec).removes
        if must_stop:
            observed, _ = await self._advance(exe, observed, ctx)
        if observed.is_stopping_earlier or observed.start_error or (observed.is_alive and must_stop):
            await self._sync_dependents(exe, observed, ctx)
            await self._write_status(exe, observed, ctx)
            if not is_final(observed.state):
                return requeue(seconds=_LATER)
        supervised = self._supervisor.find(exe.metadata.uid)
        if supervised is not None:
            await self._supervisor.release(supervised)
        await sync_endpoints(ctx, exe, ())
        await self._forget(exe)
        return None

    async def _advance(self, exe: Executable, observed: ObservedRun, ctx: Context) -> tuple[ObservedRun, float | None]:
        """Takes the next step; returns the observed state, and the delay in seconds of a requeue."""
        step = plan(exe, observed)
        if step in ("find", "start", "mark_lost"):
            await _require_fresh(exe, ctx)
        if step == "find":
            observed, step, delay = await self._find(exe, observed, ctx)
            if delay is not None:
                self._store(exe, observed)
                return observed, delay
        observed = await self._act(step, exe, observed, ctx)
        self._store(exe, observed)
        is_waiting = observed.state == "Starting" and bool(observed.message) and not observed.is_stopping_earlier
        return observed, _SOON if is_waiting else None

    async def _act(self, step: Step, exe: Executable, observed: ObservedRun, ctx: Context) -> ObservedRun:
        """Carries out a step, and returns the new observed state."""
        now = self.host.runner.now()
        match step:
            case "start":
                starting = replace(observed, state=observed.state or "Starting")
                return await self._launcher.launch(exe, starting, ctx.cached)
            case "stop":
                return self._request_stop(exe, observed)
            case "fail":
                message = "stopped before it was started"
                return observed.transition("FailedToStart", started_at=now, finished_at=now, message=message)
            case "mark_lost":
                return observed.transition("Terminated", finished_at=now, message=LOST)
            case _:
                return observed

    async def _find(
        self, exe: Executable, observed: ObservedRun, ctx: Context
    ) -> tuple[ObservedRun, Step, float | None]:
        """Looks for a process of an earlier session: adopts it, stops it, or continues without it."""
        records, policy = self.host.records, executable_policy(exe.spec)
        if not await records.lease(exe.name):
            return replace(observed, message="another session holds the lease"), "none", _SOON
        record = await records.find(exe.name)
        if record is None:
            return self._not_found(exe, observed)
        if should_stop(exe):
            return self._stop_earlier(exe, observed, record, is_requested=True)
        try:
            effective = await self._launcher.effective(exe, ctx.cached)
        except DependencyNotReady as error:
            return replace(observed, message=str(error)), "none", _SOON
        if policy.creates and record.key != lifecycle_key(exe.spec, effective):
            return self._stop_earlier(exe, observed, record, is_requested=False)
        adopted = self._launcher.adopt(exe, observed, record, effective)
        if adopted is not None:
            return adopted, "none", None
        await records.remove(exe.name)
        return self._not_found(exe, observed)

    def _not_found(self, exe: Executable, observed: ObservedRun) -> tuple[ObservedRun, Step, float | None]:
        """No process of an earlier session exists: start one, or wait for one, as the mode says."""
        if executable_policy(exe.spec).creates:
            return replace(observed, message=""), plan(exe, observed, none_found=True), None
        if exe.spec.stop:
            return observed, "fail", None
        is_over = exe.metadata.deletion_timestamp is not None
        return replace(observed.transition("NotFound"), message=""), "none", None if is_over else _SOON

    def _stop_earlier(
        self, exe: Executable, observed: ObservedRun, record: ProcessRecord, *, is_requested: bool
    ) -> tuple[ObservedRun, Step, float | None]:
        """Starts to stop the process of an earlier session in the background."""
        self._supervisor.stop_earlier(exe, record, is_requested=is_requested)
        message = f"process {record.identity.pid} of an earlier session is being stopped"
        return replace(observed, is_stopping_earlier=True, message=message), "none", None

    def _request_stop(self, exe: Executable, observed: ObservedRun) -> ObservedRun:
        supervised = self._supervisor.find(exe.metadata.uid)
        if supervised is None:
            return observed  # it has just exited, and the deferred change follows
        self._supervisor.stop(supervised)
        return replace(observed.transition("Stopping"), is_stopping=True)

    async def _sync_dependents(self, exe: Executable, observed: ObservedRun, ctx: Context) -> bool:
        """Syncs Endpoints and probes with the state; returns whether something is not ready yet."""
        supervised = self._supervisor.find(exe.metadata.uid)
        if observed.state != "Running" or supervised is None:
            await sync_endpoints(ctx, exe, ())
            return False
        ports = self._launcher.ports(exe)
        producer_ports = [(one, one.port or ports.get(one.service)) for one in producers(exe)]
        wanted = [
            endpoint_of(exe, one.service, one.address or "localhost", port) for one, port in producer_ports if port
        ]
        await sync_endpoints(ctx, exe, wanted)
        is_waiting = await self._start_probes(exe, supervised, ctx)
        return is_waiting or len(wanted) < len(producer_ports)

    async def _start_probes(self, exe: Executable, supervised: SupervisedRun, ctx: Context) -> bool:
        """Starts the probes whose templates can be evaluated; returns whether others have to wait."""
        if not exe.spec.health_probes:
            return False
        context = await self._launcher.template_context(exe, ctx.cached)
        effective = supervised.started.effective or await self._launcher.effective(exe, ctx.cached)
        ready: dict[str, tuple[Check, ProbeSchedule]] = {}
        for probe in exe.spec.health_probes:
            try:
                ready[probe.name] = (probe_check(probe, context, effective.env), probe_schedule(probe))
            except DependencyNotReady:
                continue
        self._supervisor.start_probes(supervised, ready)
        return len(ready) < len(exe.spec.health_probes)

    async def _write_status(self, exe: Executable, observed: ObservedRun, ctx: Context) -> None:
        before = exe.status or ExecutableStatus()
        status = status_of(exe, observed, ctx.now())
        message = observed.message or f"{exe.spec.executable_path} is {status.state}"
        is_warning = status.state in ("FailedToStart", "Unknown")
        is_new = await write_state(ctx, exe, status, message, is_warning=is_warning, first="Waiting")
        if is_new or status.message != before.message:
            self._log_state(exe, observed)
        if is_new and is_final(observed.state):
            self.host.runs.pop(exe.metadata.uid, None)
            if not observed.has_run:
                self.host.start_waiters.gone(exe.metadata.uid)
            await self._release_record(exe, observed)

    async def _release_record(self, exe: Executable, observed: ObservedRun) -> None:
        """Removes the record of an exited process, and releases its lease."""
        if not executable_policy(exe.spec).adopts or observed.state == "Unknown":
            return
        record = await self.host.records.find(exe.name)
        if record is not None and record.identity == observed.identity:
            await self.host.records.remove(exe.name)
        await self.host.records.release(exe.name)

    def _observed(self, exe: Executable) -> ObservedRun:
        observed = self.states.get(exe.ref)
        if observed is not None and observed.uid == exe.metadata.uid:
            return observed
        observed, started = observed_from_status(exe), self.host.runs.get(exe.metadata.uid)
        if started is None or is_final(observed.state):
            return observed
        return self._launcher.resume(exe, observed, started)

    def _store(self, exe: Executable, observed: ObservedRun) -> None:
        before = self.states.get(exe.ref)
        if before is None or before.uid != observed.uid or (before != observed and not is_final(before.state)):
            self.states.put(exe.ref, observed)

    async def _forget(self, exe: Executable) -> None:
        """Drops everything that belongs to an Executable; logs of a persistent process that still runs are kept."""
        uid, is_left = exe.metadata.uid, False
        self.states.forget(exe.ref)
        self._launcher.forget(uid)
        self.host.runs.pop(uid, None)
        self.host.start_waiters.gone(uid)
        self.host.logs.remove(system_key(uid))
        if executable_policy(exe.spec).adopts:
            is_left = await self.host.records.find(exe.name) is not None
            await self.host.records.release(exe.name)
        if is_left:
            return
        self._launcher.log_location(exe).remove()
        if exe.spec.pem_certificates is not None:
            await asyncio.to_thread(remove_certificates, certificate_folder(self.host.folder, uid))

    def _log_state(self, exe: Executable, observed: ObservedRun) -> None:
        """Appends the state to the system log of the Executable."""
        sink = self.host.logs.open(system_key(exe.metadata.uid))
        running_as = f"process {observed.pid}" if observed.pid is not None else ""
        state = observed.state or "waiting"
        sink.write(
            state_line(exe.name, state, running_as=running_as, exit_code=observed.exit_code, message=observed.message)
        )
        sink.close()

    def _require_started(self, exe: Executable) -> None:
        if not self._supervisor.is_open:
            raise Retry(f"{exe.ref}: the supervisor has not started yet", seconds=0.5)


async def _require_fresh(exe: Executable, ctx: Context) -> None:
    """Raises Retry if the cached object is stale: a process that was started cannot be un-started."""
    live = await ctx.live(ctx.ref)
    if live is None or live.metadata.uid != exe.metadata.uid:
        raise Retry(f"{exe.ref}: deleted in the meantime", seconds=_SOON)
    state, seen = (one.status.state if one.status else "" for one in (live, exe))
    if live.metadata.generation != exe.metadata.generation or state != seen:
        raise Retry(f"{exe.ref}: changed in the meantime", seconds=_SOON)
