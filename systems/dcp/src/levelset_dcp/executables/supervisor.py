"""Supervises the processes of Executables while the controller runs: waits for exits, runs probes, stops processes.

Results are deferred changes, which the next reconcile of the Executable applies. It stops with the controller.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from functools import partial
from itertools import count
from typing import Final

import msgspec

from levelset import Ref, StateMap
from levelset.aio import Crash, Restart, Supervisor
from levelset.objects import MicroTime
from levelset_dcp.executables.host import ExecutableHost, StartedRun
from levelset_dcp.executables.state import (
    Change,
    ObservedRun,
    earlier_run_stopped,
    ended,
    probed,
    session_changed,
    stop_failed,
)
from levelset_dcp.ide import IdeRunner, RunSession, SessionState
from levelset_dcp.kinds import Executable, HealthProbeResult
from levelset_dcp.records.interface import ProcessRecord
from levelset_dcp.workloads.health_probes import is_new_result
from levelset_machine import Check, Ended, ProbeResult, ProbeSchedule, ProbeStatus, Run, StopFailed, probe_periodically

__all__ = ["ProcessSupervisor", "SupervisedRun"]

_RETRY_DELAY: Final = 5.0

log = logging.getLogger(__name__)


class SupervisedRun(msgspec.Struct, eq=False):
    """A run that is supervised, with the probes that run for it."""

    ref: Ref[Executable]
    uid: str
    started: StartedRun
    task: str = ""
    """The name of the task that waits for its end."""
    probes: dict[str, tuple[Check, ProbeSchedule]] = msgspec.field(
        default_factory=dict[str, tuple[Check, ProbeSchedule]]
    )

    @property
    def run(self) -> Run | RunSession:
        """The process, or the run session in an IDE."""
        return self.started.run


class ProcessSupervisor:
    """The tasks that supervise processes; it is open only while the source `open_source` is iterated."""

    def __init__(self, host: ExecutableHost, states: StateMap[Executable, str, ObservedRun]) -> None:
        self._host = host
        self._states = states
        self._supervised: dict[str, SupervisedRun] = {}
        self._tasks: Supervisor | None = None
        self._numbers = count(1)

    @property
    def is_open(self) -> bool:
        """Whether processes can be supervised."""
        return self._tasks is not None

    async def open_source(self) -> AsyncIterator[Ref[Executable]]:
        """A controller source that yields nothing: the supervisor is open while it is iterated."""
        async with Supervisor(name="executables", on_crash=_restart_crashed, grace=0.0) as tasks:
            self._tasks = tasks
            try:
                await asyncio.Event().wait()  # until the controller stops
            finally:
                self._tasks = None
                self._supervised.clear()
        for _ in ():
            yield _

    def find(self, uid: str) -> SupervisedRun | None:
        """The supervised run of an Executable; None if there is none."""
        return self._supervised.get(uid)

    def supervise(self, supervised: SupervisedRun) -> None:
        """Starts to supervise a run."""
        tasks = self._open()
        self._supervised[supervised.uid] = supervised
        # Numbered: the task of an attempt that has failed may not have ended when the next one starts.
        supervised.task = f"run {supervised.uid} {next(self._numbers)}"
        if not isinstance(supervised.run, RunSession):
            self._host.start_waiters.started(supervised.uid)
        tasks.start(supervised.task, partial(self._wait_for_exit, supervised))

    def start_probes(self, supervised: SupervisedRun, probes: Mapping[str, tuple[Check, ProbeSchedule]]) -> None:
        """Starts these probes of a run; probes that run already continue."""
        tasks = self._open()
        for name, (check, schedule) in probes.items():
            if name not in supervised.probes:
                supervised.probes[name] = (check, schedule)
                tasks.start(f"probe {supervised.uid} {name}", partial(self._probe, supervised, name))

    def stop(self, supervised: SupervisedRun) -> None:
        """Starts to stop a run; idempotent."""
        tasks = self._open()
        if f"stop {supervised.uid}" not in tasks.running:
            tasks.start(f"stop {supervised.uid}", partial(self._stop, supervised))

    def stop_earlier(self, exe: Executable, record: ProcessRecord, *, is_requested: bool) -> None:
        """Starts to stop the process of an earlier session, and removes its record; idempotent.

        `is_requested` means that the stop was requested; otherwise another process replaces it.
        """
        tasks, name = self._open(), f"stop earlier {exe.metadata.uid}"
        if name not in tasks.running:
            tasks.start(name, partial(self._stop_earlier, exe.ref, exe.metadata.uid, record, is_requested=is_requested))

    async def release(self, supervised: SupervisedRun) -> None:
        """Stops supervising a run, which continues."""
        tasks = self._open()
        self._supervised.pop(supervised.uid, None)
        await tasks.stop(supervised.task)
        await self._stop_probes(supervised)
        await supervised.started.closing.aclose()

    def _open(self) -> Supervisor:
        assert self._tasks is not None, "the source is iterated while the controller runs"
        return self._tasks

    async def _wait_for_exit(self, supervised: SupervisedRun) -> None:
        if isinstance(supervised.run, RunSession):
            change = session_changed(await self._follow_session(supervised, supervised.run))
        else:
            change = ended(await self._follow_process(supervised, supervised.run))
        if self._supervised.get(supervised.uid) is supervised:
            del self._supervised[supervised.uid]
        await self._stop_probes(supervised)
        await supervised.started.closing.aclose()
        self._defer(supervised.ref, supervised.uid, change)

    async def _follow_process(self, supervised: SupervisedRun, run: Run) -> Ended:
        end = await run.wait()
        try:
            await self._host.runner.stop(run, grace=0.0)  # kills the processes that it has left behind
        except StopFailed as error:
            log.warning("%s: %s", supervised.ref, error)
        return end

    async def _follow_session(self, supervised: SupervisedRun, run: RunSession) -> SessionState:
        """Reports every change of a run session; returns its last state, or that it was not started."""
        seen = run.state
        while not seen.is_over:
            if seen.id:
                self._host.start_waiters.started(supervised.uid)
                self._defer(supervised.ref, supervised.uid, session_changed(seen))
            seen = await run.wait_beyond(seen)
        if seen.error:
            self._host.runs.pop(supervised.uid, None)  # another execution type may run it
        else:
            self._host.start_waiters.started(supervised.uid)
        return seen

    async def _stop(self, supervised: SupervisedRun) -> None:
        run = supervised.run
        try:
            if not isinstance(run, RunSession):
                await self._host.runner.stop(run, grace=self._host.grace)
            elif isinstance(self._host.ide, IdeRunner):
                await self._host.ide.stop(run)
        except StopFailed as error:
            self._defer(supervised.ref, supervised.uid, stop_failed(self._host.runner.now(), str(error)))

    async def _stop_earlier(self, ref: Ref[Executable], uid: str, record: ProcessRecord, *, is_requested: bool) -> None:
        run = self._host.runner.adopt(record.identity)
        try:
            if run is not None:
                await self._host.runner.stop(run, grace=self._host.grace)
        except StopFailed as error:
            self._defer(ref, uid, stop_failed(self._host.runner.now(), str(error)))
            return
        await self._host.records.remove(record.name)
        self._defer(
            ref, uid, earlier_run_stopped(record.started_at, self._host.runner.now(), is_requested=is_requested)
        )

    async def _probe(self, supervised: SupervisedRun, name: str) -> None:
        check, schedule = supervised.probes[name]

        def report(outcome: ProbeResult, _: ProbeStatus) -> None:
            when = MicroTime.of(self._host.runner.now())
            result = HealthProbeResult(probe_name=name, outcome=outcome.outcome, timestamp=when, reason=outcome.reason)
            observed = self._states.get(supervised.ref)
            if observed is not None and is_new_result(observed.results, result):
                self._defer(supervised.ref, supervised.uid, probed(result))

        await probe_periodically(self._host.prober, check, schedule, report)

    async def _stop_probes(self, supervised: SupervisedRun) -> None:
        """Stops all probes of a run."""
        tasks = self._open()
        for name in supervised.probes:
            if f"probe {supervised.uid} {name}" in tasks.running:
                await tasks.stop(f"probe {supervised.uid} {name}")

    def _defer(self, ref: Ref[Executable], uid: str, change: Change) -> None:
        def checked(observed: ObservedRun) -> ObservedRun | None:
            return change(observed) if observed.uid == uid else None

        self._states.defer(ref, checked)


def _restart_crashed(crash: Crash) -> Restart:
    """Restarts a crashed task after a delay."""
    log.error("task %s crashed and restarts after %g s", crash.name, _RETRY_DELAY, exc_info=crash.error)
    return Restart(_RETRY_DELAY)
