"""Looks after the processes of Executables while the controller runs: waits for their ends, asks them, stops them.

What is found is deferred to the next look at the Executable. When the controller stops, so does this.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from levelset import Ref, StateMap
from levelset.aio import Crash, Restart, Supervisor
from levelset.objects import MicroTime
from levelset_dcp.executables.known import Change, RunKnown, earlier_ended, ended, is_news, probed, stop_failed
from levelset_dcp.executables.world import Executables, Started
from levelset_dcp.kinds import Executable, HealthProbeResult
from levelset_dcp.records.records import ProcessRecord
from levelset_machine import Check, Pace, Run, StopFailed, Tally, Verdict, keep_probing

__all__ = ["Attendants", "Charge"]

_AGAIN: Final = 5.0

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Charge:
    """A run that is attended to."""

    ref: Ref[Executable]
    uid: str
    started: Started
    probes: dict[str, tuple[Check, Pace]] = field(default_factory=dict[str, tuple[Check, Pace]])

    @property
    def run(self) -> Run:
        """The process."""
        return self.started.run


class Attendants:
    """The tasks that look after processes; there are some only while `attend_all` is followed."""

    def __init__(self, world: Executables, states: StateMap[Executable, str, RunKnown]) -> None:
        self._world = world
        self._states = states
        self._charges: dict[str, Charge] = {}
        self._tasks: Supervisor | None = None

    @property
    def is_open(self) -> bool:
        """Whether somebody could look after a process."""
        return self._tasks is not None

    async def attend_all(self) -> AsyncIterator[Ref[Executable]]:
        """Opens for as long as it is followed; names nobody by itself."""
        async with Supervisor(name="executables", on_crash=_judge, grace=0.0) as tasks:
            self._tasks = tasks
            try:
                await asyncio.Event().wait()  # until the controller stops
            finally:
                self._tasks = None
                self._charges.clear()
        for _ in ():
            yield _

    def charge(self, uid: str) -> Charge | None:
        """The run of an Executable that is attended to."""
        return self._charges.get(uid)

    def attend(self, charge: Charge) -> None:
        """Looks after a run from now on."""
        tasks = self._open()
        self._charges[charge.uid] = charge
        tasks.start(f"run {charge.uid}", partial(self._attend, charge))

    def ask(self, charge: Charge, probes: Mapping[str, tuple[Check, Pace]]) -> None:
        """Makes these probes of a run from now on; those that it makes already go on."""
        tasks = self._open()
        for name, (check, pace) in probes.items():
            if name not in charge.probes:
                charge.probes[name] = (check, pace)
                tasks.start(f"probe {charge.uid} {name}", partial(self._ask, charge, name))

    def stop(self, charge: Charge) -> None:
        """Begins to stop a run; a second call is the same."""
        tasks = self._open()
        if f"stop {charge.uid}" not in tasks.running:
            tasks.start(f"stop {charge.uid}", partial(self._stop, charge))

    def end(self, exe: Executable, record: ProcessRecord, *, is_wanted: bool) -> None:
        """Begins to stop the program of an earlier session, and forgets its record; a second call is the same.

        `is_wanted` says that it was all to be done; otherwise another program takes its place.
        """
        tasks, name = self._open(), f"end {exe.metadata.uid}"
        if name not in tasks.running:
            tasks.start(name, partial(self._end, exe.ref, exe.metadata.uid, record, is_wanted=is_wanted))

    async def release(self, charge: Charge) -> None:
        """Looks after a run no longer; it goes on by itself."""
        tasks = self._open()
        self._charges.pop(charge.uid, None)
        await tasks.stop(f"run {charge.uid}")
        await self._still(charge)
        await charge.started.closing.aclose()

    def _open(self) -> Supervisor:
        assert self._tasks is not None, "the controller runs, so there is somebody"
        return self._tasks

    async def _attend(self, charge: Charge) -> None:
        end = await charge.run.wait()
        try:
            await self._world.runner.stop(charge.run, grace=0.0)  # what it has left behind
        except StopFailed as error:
            log.warning("%s: %s", charge.ref, error)
        if self._charges.get(charge.uid) is charge:
            del self._charges[charge.uid]
        await self._still(charge)
        await charge.started.closing.aclose()
        self._tell(charge.ref, charge.uid, ended(end))

    async def _stop(self, charge: Charge) -> None:
        try:
            await self._world.runner.stop(charge.run, grace=self._world.grace)
        except StopFailed as error:
            self._tell(charge.ref, charge.uid, stop_failed(self._world.runner.now(), str(error)))

    async def _end(self, ref: Ref[Executable], uid: str, record: ProcessRecord, *, is_wanted: bool) -> None:
        run = self._world.runner.adopt(record.identity)
        try:
            if run is not None:
                await self._world.runner.stop(run, grace=self._world.grace)
        except StopFailed as error:
            self._tell(ref, uid, stop_failed(self._world.runner.now(), str(error)))
            return
        await self._world.records.remove(record.name)
        self._tell(ref, uid, earlier_ended(record.started_at, self._world.runner.now(), is_wanted=is_wanted))

    async def _ask(self, charge: Charge, name: str) -> None:
        check, pace = charge.probes[name]

        def tell(verdict: Verdict, _: Tally) -> None:
            when = MicroTime.of(self._world.runner.now())
            result = HealthProbeResult(probe_name=name, outcome=verdict.outcome, timestamp=when, reason=verdict.reason)
            known = self._states.borrow(charge.ref)
            if known is not None and is_news(known.results, result):
                self._tell(charge.ref, charge.uid, probed(result))

        await keep_probing(self._world.prober, check, pace, tell)

    async def _still(self, charge: Charge) -> None:
        """Asks a run no more."""
        tasks = self._open()
        for name in charge.probes:
            if f"probe {charge.uid} {name}" in tasks.running:
                await tasks.stop(f"probe {charge.uid} {name}")

    def _tell(self, ref: Ref[Executable], uid: str, change: Change) -> None:
        def checked(known: RunKnown) -> RunKnown | None:
            return change(known) if known.uid == uid else None

        self._states.defer(ref, checked)


def _judge(crash: Crash) -> Restart:
    """Nobody is left alone because of a mistake: whoever fails is called again."""
    log.error("%s has failed and is tried again after %g s", crash.name, _AGAIN, exc_info=crash.error)
    return Restart(_AGAIN)
