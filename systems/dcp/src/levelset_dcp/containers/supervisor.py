"""Supervises containers while the controller runs: follows engine events, inspects containers, and runs probes.

Results are deferred changes, which the next reconcile of the Container applies. It stops with the controller.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from functools import partial
from typing import Final

import msgspec

from levelset import Ref, StateMap
from levelset.aio import timing
from levelset.objects import MicroTime
from levelset_dcp.containers.background_tasks import BackgroundTasks
from levelset_dcp.containers.engine_watcher import EngineWatcher
from levelset_dcp.containers.host import ContainerHost
from levelset_dcp.containers.state import Change, ObservedContainer, inspected, probed, removed_externally, retry_later
from levelset_dcp.engines.errors import EngineError, EngineNotFound, RuntimeNotHealthy
from levelset_dcp.engines.models import EngineEvent
from levelset_dcp.kinds import Container, HealthProbeResult
from levelset_dcp.workloads.health_probes import is_new_result
from levelset_machine import Check, ProbeResult, ProbeSchedule, ProbeStatus, probe_periodically

__all__ = ["ContainerSupervisor", "SupervisedContainer"]

_RETRY_DELAY: Final = 5.0


class SupervisedContainer(msgspec.Struct, eq=False):
    """A container that is supervised, with the probes that run for it."""

    ref: Ref[Container]
    uid: str
    container_id: str
    probes: dict[str, tuple[Check, ProbeSchedule]] = msgspec.field(
        default_factory=dict[str, tuple[Check, ProbeSchedule]]
    )


class ContainerSupervisor:
    """Inspects and probes containers; it is open only while the source `open_source` is iterated."""

    def __init__(
        self,
        host: ContainerHost,
        states: StateMap[Container, str, ObservedContainer],
        background: BackgroundTasks[ObservedContainer],
    ) -> None:
        self._host = host
        self._states = states
        self._background = background
        self._supervised: dict[str, SupervisedContainer] = {}
        self.watcher = EngineWatcher(host, name="containers", affected=self._affected, inspect=self._inspect)

    async def open_source(self) -> AsyncIterator[Ref[Container]]:
        """A controller source that yields nothing: the supervisor is open while it is iterated."""
        try:
            async for ref in self.watcher.open_source():
                yield ref
        finally:
            self._supervised.clear()

    def follow(self, ref: Ref[Container], uid: str, container_id: str) -> None:
        """Starts to supervise a container; does nothing if it is supervised already."""
        supervised = self._supervised.get(uid)
        if supervised is None or supervised.container_id != container_id:
            self._supervised[uid] = SupervisedContainer(ref, uid, container_id)

    def supervise(self, ref: Ref[Container], uid: str, container_id: str) -> SupervisedContainer:
        """Supervises a container, and inspects it if that is new, because earlier events were missed."""
        supervised = self._supervised.get(uid)
        if supervised is None or supervised.container_id != container_id:
            self.follow(ref, uid, container_id)
            self.watcher.inspect_soon(container_id)
        return self._supervised[uid]

    def start_probes(self, supervised: SupervisedContainer, probes: Mapping[str, tuple[Check, ProbeSchedule]]) -> None:
        """Starts these probes; probes that run already continue."""
        tasks = self.watcher.tasks
        for name, (check, schedule) in probes.items():
            if tasks is not None and name not in supervised.probes:
                supervised.probes[name] = (check, schedule)
                tasks.start(f"probe {supervised.uid} {name}", partial(self._probe, supervised, name))

    async def stop_probes(self, uid: str) -> None:
        """Stops all probes of a container."""
        supervised, tasks = self._supervised.get(uid), self.watcher.tasks
        if supervised is None or tasks is None:
            return
        names, supervised.probes = tuple(supervised.probes), {}
        for name in names:
            if f"probe {uid} {name}" in tasks.running:
                await tasks.stop(f"probe {uid} {name}")

    async def release(self, uid: str) -> None:
        """Stops supervising a container."""
        await self.stop_probes(uid)
        self._supervised.pop(uid, None)

    def _affected(self, event: EngineEvent) -> Iterable[str]:
        """The IDs of the containers that an event is about; all of them if events may have been missed."""
        if event.kind == "engine":
            for ref, observed in self._states.items():
                if observed.state == "RuntimeUnhealthy" or (observed.retry_at and not observed.is_over):
                    self._background.defer(ref, observed.uid, retry_later(observed.message, 0.0))
            return [one.container_id for one in self._supervised.values()]
        return [one.container_id for one in self._supervised.values() if one.container_id == event.container]

    async def _inspect(self, container_id: str) -> None:
        """Inspects a container, and reports the result to the Containers that it belongs to."""
        while True:
            try:
                info = await self._host.ready_engine.inspect_container(container_id)
                change = inspected(info, self._host.now())
            except EngineNotFound:
                change = removed_externally(self._host.now())
            except RuntimeNotHealthy:
                return  # an `engine connected` event follows when the engine is back
            except EngineError:
                await timing.sleep(_RETRY_DELAY)
                continue
            break
        for supervised in tuple(self._supervised.values()):
            if supervised.container_id == container_id:
                self._defer(supervised, change)

    def _defer(self, supervised: SupervisedContainer, change: Change) -> None:
        """Defers a change, unless it would change nothing and only cause a needless reconcile."""
        observed = self._states.get(supervised.ref)
        is_old = (
            observed is not None
            and not self._states.has_deferred(supervised.ref)
            and change(observed) in (None, observed)
        )
        if not is_old:
            self._background.defer(supervised.ref, supervised.uid, change)

    async def _probe(self, supervised: SupervisedContainer, name: str) -> None:
        check, schedule = supervised.probes[name]

        def report(outcome: ProbeResult, _: ProbeStatus) -> None:
            when = MicroTime.of(self._host.now())
            result = HealthProbeResult(probe_name=name, outcome=outcome.outcome, timestamp=when, reason=outcome.reason)
            observed = self._states.get(supervised.ref)
            if observed is not None and is_new_result(observed.results, result):
                self._defer(supervised, probed(result))

        await probe_periodically(self._host.prober, check, schedule, report)
