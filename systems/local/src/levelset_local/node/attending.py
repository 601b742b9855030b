"""Looks after the processes of a node while the controller runs: waits for their ends, probes them, and stops them.

What they find is deferred to the next look at the Pod. When the controller stops, so does this; the processes are left
to the machine, or to the next manager.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from levelset import Ref, StateMap
from levelset.aio import Crash, Restart, Supervisor
from levelset.kinds.core_v1 import Pod
from levelset_local.node import changes
from levelset_local.node.agent import Node, log_key
from levelset_local.node.changes import Change
from levelset_local.node.charges import Charge, stop_run, the_end
from levelset_local.node.housing import Housing
from levelset_local.node.known import PodKnown
from levelset_local.node.mounting import remove_folder
from levelset_local.node.watching import watch_container
from levelset_machine import Run, StopFailed

__all__ = ["Attendants"]

_AGAIN: Final = 5.0

log = logging.getLogger(__name__)


class Attendants:
    """The tasks that look after a node's processes; there are some only while `attend_all` is followed."""

    def __init__(self, node: Node, states: StateMap[Pod, str, PodKnown], housing: Housing) -> None:
        self._node = node
        self._housing = housing
        self._states = states
        self._charges: dict[tuple[str, str], Charge] = {}
        self._tasks: Supervisor | None = None

    @property
    def is_open(self) -> bool:
        """Whether somebody could look after a process."""
        return self._tasks is not None

    async def attend_all(self) -> AsyncIterator[Ref[Pod]]:
        """Opens for as long as it is followed; names the Pods that an earlier manager has left."""
        async with Supervisor(name="node", on_crash=_judge, grace=0.0) as tasks:
            await asyncio.to_thread(self._node.records.load)
            found = list(self._node.records.all())
            self._housing.settle(found)
            self._tasks = tasks
            try:
                for known in found:
                    yield Ref(Pod, known.name, known.namespace)
                await asyncio.Event().wait()  # until the controller stops
            finally:
                self._tasks = None
                self._charges.clear()

    def charge(self, uid: str, container: str) -> Charge | None:
        """What is attended to of a container."""
        return self._charges.get((uid, container))

    def attend(self, charge: Charge) -> None:
        """Looks after a run from now on."""
        assert self._tasks is not None, "attend without attend_all"
        self._charges[charge.key] = charge
        self._tasks.start(charge.name, partial(self._attend, charge))

    async def stop(self, charge: Charge, within: float) -> None:
        """Begins to end a run within so many seconds; an end that has begun with more time is cut short."""
        assert self._tasks is not None, "stop without attend_all"
        name = f"stop {charge.name}"
        if name in self._tasks.running:
            await self._tasks.stop(name)
        self._tasks.start(name, partial(self._stop, charge, within))

    def bury(self, known: PodKnown) -> None:
        """Ends whatever is left of a Pod that is gone, and removes its files; a second call is the same."""
        assert self._tasks is not None, "bury without attend_all"
        name = f"bury {known.uid}"
        if name not in self._tasks.running:
            self._tasks.start(name, partial(self._bury, known))

    async def _attend(self, charge: Charge) -> None:
        node = self._node
        tell = partial(self._tell, charge)
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(watch_container(node, charge, tell))
            ended = await charge.run.wait()
            watching.cancel()
        try:
            await node.runner.stop(charge.run, grace=0.0)  # what it has left behind
        except StopFailed as error:
            log.warning("%s: %s", charge.ref, error)
        end = await the_end(node, charge, ended)
        if self._charges.get(charge.key) is charge:
            del self._charges[charge.key]
        tell(changes.ended(charge.container.name, charge.live.identity, end))

    async def _stop(self, charge: Charge, within: float) -> None:
        said = await stop_run(self._node, charge, within)
        if said is not None and said.outcome != "Success":
            self._tell(charge, changes.news("FailedPreStopHook", f"PreStopHook failed: {said.reason}"))

    async def _bury(self, known: PodKnown) -> None:
        node = self._node
        async with asyncio.TaskGroup() as group:
            for run in self._runs_of(known):
                group.create_task(node.runner.stop(run, grace=1.0))
        self._housing.free(known.uid)
        for one in known.containers:
            for restarts in range(max(0, one.restarts - 1), one.restarts + 1):
                node.logs.remove(log_key(known.uid, one.name, restarts))
        await asyncio.to_thread(remove_folder, node.pod_folder(known.uid))
        node.records.remove(known.uid)

    def _runs_of(self, known: PodKnown) -> list[Run]:
        found = list[Run]()
        for one in known.living:
            charge = self._charges.pop((known.uid, one.name), None)
            run = self._node.runner.adopt(one.live.identity) if charge is None and one.live is not None else None
            found += [each for each in (run, charge.run if charge is not None else None) if each is not None]
        return found

    def _tell(self, charge: Charge, change: Change) -> None:
        if charge.uid in self._states:  # else the Pod is gone, and nobody wants to know
            self._states.defer(charge.ref, change, for_key=charge.uid)


def _judge(crash: Crash) -> Restart:
    """Nobody is left alone because of a mistake: whoever fails is called again."""
    log.error("%s has failed and is tried again after %g s", crash.name, _AGAIN, exc_info=crash.error)
    return Restart(_AGAIN)
