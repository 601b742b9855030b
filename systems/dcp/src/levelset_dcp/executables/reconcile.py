"""The controller of Executables: finds, starts, stops and shows programs, and leaves nothing behind."""

import asyncio
from dataclasses import replace
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
    requeue,
    source,
)
from levelset_dcp.endpoints import endpoint_of, sync_endpoints
from levelset_dcp.executables.attending import Attendants, Charge
from levelset_dcp.executables.certificates import certificate_folder, remove_certificates
from levelset_dcp.executables.known import RunKnown
from levelset_dcp.executables.launching import Launcher
from levelset_dcp.executables.lifecycle import lifecycle_key
from levelset_dcp.executables.places import system_key
from levelset_dcp.executables.plan import LOST, Step, habits_of, plan, should_stop
from levelset_dcp.executables.probes import check_of, pace_of
from levelset_dcp.executables.status import known_of, status_of
from levelset_dcp.executables.transitions import is_final
from levelset_dcp.executables.world import Executables
from levelset_dcp.kinds import Endpoint, Executable, ExecutableStatus, Service
from levelset_dcp.named import producers, services_named
from levelset_dcp.naming import finalizer
from levelset_dcp.records.records import ProcessRecord
from levelset_dcp.templates import NotYet
from levelset_machine import Check, Pace

__all__ = ["ExecutableKeeper", "executables_controller"]

_SOON: Final = 2.0
_LATER: Final = 5.0


def executables_controller(world: Executables, *, concurrency: int = 6) -> Controller[Executable]:
    """The controller that runs Executables in this world."""
    return ExecutableKeeper(world).controller(concurrency)


class ExecutableKeeper:
    """Runs Executables; what it knows of them is in `states`, by the object and by the process."""

    def __init__(self, world: Executables) -> None:
        self.world = world
        self.states: StateMap[Executable, str, RunKnown] = StateMap()
        self._attendants = Attendants(world, self.states)
        self._launcher = Launcher(world, self.states, self._attendants)

    def controller(self, concurrency: int = 6) -> Controller[Executable]:
        """The controller, with everything it follows."""
        return Controller(
            Executable,
            self.reconcile,
            owns(Endpoint, metadata_only=False),
            references(Service, services_named),
            remembers(self.states),
            source(self._attendants.attend_all),
            cleanup=self.clean_up,
            finalizer=finalizer("executable-reconciler"),
            name="dcp-executables",
            concurrency=concurrency,
        )

    async def reconcile(self, exe: Executable, ctx: Context) -> Action:
        """Looks at an Executable, and does what is next."""
        self._require_open(exe)
        known, again = await self._advance(exe, self._known(exe), ctx)
        waits = await self._accompany(exe, known, ctx)
        await self._show(exe, known, ctx)
        return requeue(seconds=again or _SOON) if again or waits else await_change()

    async def clean_up(self, exe: Executable, ctx: Context) -> Action | None:
        """Ends the program, unless it is to outlive its object, and removes what belongs to it."""
        self._require_open(exe)
        known = self._known(exe)
        if habits_of(exe.spec).ends:
            known, _ = await self._advance(exe, known, ctx)
        if known.is_ending or known.doom or (known.is_alive and habits_of(exe.spec).ends):
            await self._accompany(exe, known, ctx)
            await self._show(exe, known, ctx)
            if not is_final(known.state):
                return requeue(seconds=_LATER)
        charge = self._attendants.charge(exe.metadata.uid)
        if charge is not None:
            await self._attendants.release(charge)
        await sync_endpoints(ctx, exe, ())
        await self._forget(exe)
        return None

    async def _advance(self, exe: Executable, known: RunKnown, ctx: Context) -> tuple[RunKnown, float | None]:
        """Takes the next step; what is known then, and after how many seconds to look again."""
        step = plan(exe, known)
        if step in ("find", "launch", "mourn"):
            await _require_fresh(exe, ctx)
        if step == "find":
            known, step, again = await self._find(exe, known, ctx)
            if again is not None:
                self._keep(exe, known)
                return known, again
        match step:
            case "launch":
                known = await self._launcher.launch(exe, replace(known, state=known.state or "Starting"), ctx.cached)
            case "halt":
                known = self._halt(exe, known)
            case "refuse":
                now = self.world.runner.now()
                words = "it was stopped before it was started"
                known = known.moved("FailedToStart", started_at=now, finished_at=now, message=words)
            case "mourn":
                known = known.moved("Terminated", finished_at=self.world.runner.now(), message=LOST)
            case _:
                pass
        self._keep(exe, known)
        return known, _SOON if known.state == "Starting" and known.message and not known.is_ending else None

    async def _find(self, exe: Executable, known: RunKnown, ctx: Context) -> tuple[RunKnown, Step, float | None]:
        """Looks for what an earlier session has left: takes it over, has it ended, or goes on without it."""
        records, habits = self.world.records, habits_of(exe.spec)
        if not await records.lease(exe.name):
            return replace(known, message="another session has it"), "rest", _SOON
        record = await records.find(exe.name)
        if record is None:
            return self._not_found(exe, known)
        if should_stop(exe):
            return self._end(exe, known, record, is_wanted=True)
        try:
            effective = await self._launcher.effective(exe, ctx.cached)
        except NotYet as error:
            return replace(known, message=str(error)), "rest", _SOON
        if habits.makes and record.key != lifecycle_key(exe.spec, effective):
            return self._end(exe, known, record, is_wanted=False)
        adopted = self._launcher.adopt(exe, known, record, effective)
        if adopted is not None:
            return adopted, "rest", None
        await records.remove(exe.name)
        return self._not_found(exe, known)

    def _not_found(self, exe: Executable, known: RunKnown) -> tuple[RunKnown, Step, float | None]:
        """Nothing was left: it is started, or waited for."""
        if habits_of(exe.spec).makes:
            return replace(known, message=""), plan(exe, known, was_sought=True), None
        if exe.spec.stop:
            return known, "refuse", None
        is_over = exe.metadata.deletion_timestamp is not None
        return replace(known.moved("NotFound"), message=""), "rest", None if is_over else _SOON

    def _end(
        self, exe: Executable, known: RunKnown, record: ProcessRecord, *, is_wanted: bool
    ) -> tuple[RunKnown, Step, float | None]:
        """Has a program of an earlier session stopped, which takes its time."""
        self._attendants.end(exe, record, is_wanted=is_wanted)
        words = f"process {record.identity.pid} of an earlier session is being stopped"
        return replace(known, is_ending=True, message=words), "rest", None

    def _halt(self, exe: Executable, known: RunKnown) -> RunKnown:
        charge = self._attendants.charge(exe.metadata.uid)
        if charge is None:
            return known  # it has ended just now, and the news is on its way
        self._attendants.stop(charge)
        return replace(known.moved("Stopping"), is_stopping=True)

    async def _accompany(self, exe: Executable, known: RunKnown, ctx: Context) -> bool:
        """Endpoints and probes while it runs, and none of them otherwise; whether something has to wait."""
        charge = self._attendants.charge(exe.metadata.uid)
        if known.state != "Running" or charge is None:
            await sync_endpoints(ctx, exe, ())
            return False
        ports = self._launcher.ports(exe)
        places = [(one, one.port or ports.get(one.service)) for one in producers(exe)]
        wanted = [endpoint_of(exe, one.service, one.address or "localhost", port) for one, port in places if port]
        await sync_endpoints(ctx, exe, wanted)
        waits = await self._ask(exe, charge, ctx)
        return waits or len(wanted) < len(places)

    async def _ask(self, exe: Executable, charge: Charge, ctx: Context) -> bool:
        """Has the probes made whose templates can be evaluated; whether there are others."""
        if not exe.spec.health_probes:
            return False
        scene = await self._launcher.scene(exe, ctx.cached)
        effective = charge.started.effective or await self._launcher.effective(exe, ctx.cached)
        ready: dict[str, tuple[Check, Pace]] = {}
        for probe in exe.spec.health_probes:
            try:
                ready[probe.name] = (check_of(probe, scene, effective.env), pace_of(probe))
            except NotYet:
                continue
        self._attendants.ask(charge, ready)
        return len(ready) < len(exe.spec.health_probes)

    async def _show(self, exe: Executable, known: RunKnown, ctx: Context) -> None:
        before = exe.status or ExecutableStatus()
        status = status_of(exe, known, ctx.now())
        await ctx.set_status(exe, status)
        if (status.state, status.message) != (before.state, before.message):
            self._tell(exe, known)
        if status.state == before.state:
            return
        words = known.message or f"{exe.spec.executable_path} is {status.state}"
        ctx.record(exe, status.state or "Waiting", words, warning=status.state in ("FailedToStart", "Unknown"))
        if is_final(known.state):
            self.world.runs.pop(exe.metadata.uid, None)
            if known.identity is None:
                self.world.waiting.gone(exe.metadata.uid)
            await self._give_back(exe, known)

    async def _give_back(self, exe: Executable, known: RunKnown) -> None:
        """Forgets the record of a program that has ended, and lets others have its name."""
        if not habits_of(exe.spec).finds or known.state == "Unknown":
            return
        record = await self.world.records.find(exe.name)
        if record is not None and record.identity == known.identity:
            await self.world.records.remove(exe.name)
        await self.world.records.release(exe.name)

    def _known(self, exe: Executable) -> RunKnown:
        known = self.states.borrow(exe.ref)
        if known is not None and known.uid == exe.metadata.uid:
            return known
        known, started = known_of(exe), self.world.runs.get(exe.metadata.uid)
        return known if started is None or is_final(known.state) else self._launcher.resume(exe, known, started)

    def _keep(self, exe: Executable, known: RunKnown) -> None:
        before = self.states.borrow(exe.ref)
        if before is None or before.uid != known.uid or (before != known and not is_final(before.state)):
            self.states.keep(exe.ref, known)

    async def _forget(self, exe: Executable) -> None:
        """Lets go of everything; the logs of a program that goes on stay."""
        uid, is_left = exe.metadata.uid, False
        self.states.forget(exe.ref)
        self._launcher.forget(uid)
        self.world.runs.pop(uid, None)
        self.world.waiting.gone(uid)
        self.world.logs.remove(system_key(uid))
        if habits_of(exe.spec).finds:
            is_left = await self.world.records.find(exe.name) is not None
            await self.world.records.release(exe.name)
        if is_left:
            return
        self._launcher.place(exe).remove()
        if exe.spec.pem_certificates is not None:
            await asyncio.to_thread(remove_certificates, certificate_folder(self.world.folder, uid))

    def _tell(self, exe: Executable, known: RunKnown) -> None:
        """Writes into the log of the Executable itself what became of it."""
        sink = self.world.logs.open(system_key(exe.metadata.uid))
        pid = f", process {known.identity.pid}" if known.identity is not None else ""
        code = f", exit code {known.exit_code}" if known.exit_code is not None else ""
        words = f": {known.message}" if known.message else ""
        sink.write(f"{exe.name} is {known.state or 'waiting'}{pid}{code}{words}\n".encode())
        sink.close()

    def _require_open(self, exe: Executable) -> None:
        if not self._attendants.is_open:
            raise Retry(f"{exe.ref}: nobody can look after its process yet", seconds=0.5)


async def _require_fresh(exe: Executable, ctx: Context) -> None:
    """Raises Retry if the object is seen as it was some time ago: what is started cannot be taken back."""
    live = await ctx.live(ctx.ref)
    if live is None or live.metadata.uid != exe.metadata.uid:
        raise Retry(f"{exe.ref}: it is gone", seconds=_SOON)
    state, seen = (one.status.state if one.status else "" for one in (live, exe))
    if live.metadata.generation != exe.metadata.generation or state != seen:
        raise Retry(f"{exe.ref}: it has changed since", seconds=_SOON)
