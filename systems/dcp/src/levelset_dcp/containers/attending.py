"""Looks after containers while the controller runs: hears what happens to them, looks at them, and asks them.

What is found is deferred to the next look at the Container. When the controller stops, so does this.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from levelset import Ref, StateMap
from levelset.aio import timing
from levelset.objects import MicroTime
from levelset_dcp.containers.errands import Errands
from levelset_dcp.containers.known import Change, ContainerKnown, inspected, probed, vanished, waits
from levelset_dcp.containers.watching import Watching
from levelset_dcp.containers.world import Containers
from levelset_dcp.engines.errors import EngineError, EngineNotFound, RuntimeNotHealthy
from levelset_dcp.engines.models import EngineEvent
from levelset_dcp.executables.known import is_news
from levelset_dcp.kinds import Container, HealthProbeResult
from levelset_machine import Check, Pace, Tally, Verdict, keep_probing

__all__ = ["Attendants", "Charge"]

_AGAIN: Final = 5.0


@dataclass(eq=False)
class Charge:
    """A container that is attended to."""

    ref: Ref[Container]
    uid: str
    container_id: str
    probes: dict[str, tuple[Check, Pace]] = field(default_factory=dict[str, tuple[Check, Pace]])


class Attendants:
    """Those who look after containers; there are some only while `attend_all` is followed."""

    def __init__(
        self,
        world: Containers,
        states: StateMap[Container, str, ContainerKnown],
        errands: Errands[ContainerKnown],
    ) -> None:
        self._world = world
        self._states = states
        self._errands = errands
        self._charges: dict[str, Charge] = {}
        self.watching = Watching(world, name="containers", concerns=self._concerned, look=self._look)

    async def attend_all(self) -> AsyncIterator[Ref[Container]]:
        """Opens for as long as it is followed; names nobody by itself."""
        try:
            async for ref in self.watching.follow():
                yield ref
        finally:
            self._charges.clear()

    def follow(self, ref: Ref[Container], uid: str, container_id: str) -> None:
        """Looks after a container from now on; one that is looked after already goes on."""
        charge = self._charges.get(uid)
        if charge is None or charge.container_id != container_id:
            self._charges[uid] = Charge(ref, uid, container_id)

    def attend(self, ref: Ref[Container], uid: str, container_id: str) -> Charge:
        """Looks after a container, and at it if that is new: nobody knows what has happened meanwhile."""
        charge = self._charges.get(uid)
        if charge is None or charge.container_id != container_id:
            self.follow(ref, uid, container_id)
            self.watching.look_soon(container_id)
        return self._charges[uid]

    def ask(self, charge: Charge, probes: Mapping[str, tuple[Check, Pace]]) -> None:
        """Makes these probes from now on; those that are made already go on."""
        tasks = self.watching.tasks
        for name, (check, pace) in probes.items():
            if tasks is not None and name not in charge.probes:
                charge.probes[name] = (check, pace)
                tasks.start(f"probe {charge.uid} {name}", partial(self._ask, charge, name))

    async def hush(self, uid: str) -> None:
        """Asks a container no more."""
        charge, tasks = self._charges.get(uid), self.watching.tasks
        if charge is None or tasks is None:
            return
        names, charge.probes = tuple(charge.probes), {}
        for name in names:
            if f"probe {uid} {name}" in tasks.running:
                await tasks.stop(f"probe {uid} {name}")

    async def release(self, uid: str) -> None:
        """Looks after a container no longer."""
        await self.hush(uid)
        self._charges.pop(uid, None)

    def _concerned(self, event: EngineEvent) -> Iterable[str]:
        """The IDs of the containers that an event is about; all of them if some may have been missed."""
        if event.kind == "engine":
            for ref, known in self._states.items():
                if known.state == "RuntimeUnhealthy" or (known.again_at and not known.is_over):
                    self._errands.tell(ref, known.uid, waits(known.message, 0.0))
            return [one.container_id for one in self._charges.values()]
        return [one.container_id for one in self._charges.values() if one.container_id == event.container]

    async def _look(self, container_id: str) -> None:
        """Looks at a container, and tells those whose it is."""
        while True:
            try:
                info = await self._world.ready_engine.inspect_container(container_id)
                change = inspected(info, self._world.now())
            except EngineNotFound:
                change = vanished(self._world.now())
            except RuntimeNotHealthy:
                return  # the engine tells when it can be asked again
            except EngineError:
                await timing.sleep(_AGAIN)
                continue
            break
        for charge in tuple(self._charges.values()):
            if charge.container_id == container_id:
                self._tell(charge, change)

    def _tell(self, charge: Charge, change: Change) -> None:
        """Defers news; what changes nothing wakes nobody."""
        known = self._states.borrow(charge.ref)
        is_old = known is not None and not self._states.has_deferred(charge.ref) and change(known) in (None, known)
        if not is_old:
            self._errands.tell(charge.ref, charge.uid, change)

    async def _ask(self, charge: Charge, name: str) -> None:
        check, pace = charge.probes[name]

        def tell(verdict: Verdict, _: Tally) -> None:
            when = MicroTime.of(self._world.now())
            result = HealthProbeResult(probe_name=name, outcome=verdict.outcome, timestamp=when, reason=verdict.reason)
            known = self._states.borrow(charge.ref)
            if known is not None and is_news(known.results, result):
                self._tell(charge, probed(result))

        await keep_probing(self._world.prober, check, pace, tell)
