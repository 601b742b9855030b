"""Supervises the processes of a node while the controller runs: waits for their ends, probes and stops them.

What it observes is deferred to the next reconcile of the Pod. When the controller stops, the supervision stops too; the
processes are left to the machine, or to the next manager.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from levelset import Ref, StateMap
from levelset.aio import Crash, Restart, Supervisor, timing
from levelset.kinds.core_v1 import Pod
from levelset_local.node.container_run import ContainerRun, make_termination
from levelset_local.node.host_ports import HostPortReservations
from levelset_local.node.mounts import remove_folder
from levelset_local.node.node import Node, log_key
from levelset_local.node.pod_addresses import PodAddresses
from levelset_local.node.pod_record import PodRecord, RecordUpdate, event_pending, process_ended
from levelset_local.node.probes import run_hook, run_probes, stop_signal
from levelset_machine import ProbeResult, Run, StopFailed

__all__ = ["ProcessSupervisor"]

_RETRY_SECONDS: Final = 5.0
_COPIED_WITHIN: Final = 2.0
_LEAST_GRACE: Final = 2.0
"""The seconds that a process has to stop after its preStop hook has used up the grace period."""

log = logging.getLogger(__name__)


class ProcessSupervisor:
    """Runs the tasks that supervise a node's processes; it is open only while `run` is iterated."""

    def __init__(
        self,
        node: Node,
        states: StateMap[Pod, str, PodRecord],
        addresses: PodAddresses,
        host_ports: HostPortReservations,
    ) -> None:
        self._node = node
        self._addresses = addresses
        self._host_ports = host_ports
        self._states = states
        self._runs: dict[tuple[str, str], ContainerRun] = {}
        self._tasks: Supervisor | None = None

    @property
    def is_open(self) -> bool:
        """Whether processes can be supervised."""
        return self._tasks is not None

    async def run(self) -> AsyncIterator[Ref[Pod]]:
        """Opens the supervisor for as long as it is iterated; yields the Pods of which there are stored records."""
        async with Supervisor(name="node", on_crash=_restart_task, grace=0.0) as tasks:
            await asyncio.to_thread(self._node.records.load)
            records = list(self._node.records.all())
            self._addresses.restore(records)
            self._tasks = tasks
            try:
                for record in records:
                    yield Ref(Pod, record.name, record.namespace)
                await asyncio.Event().wait()  # until the controller stops
            finally:
                self._tasks = None
                self._runs.clear()

    def find(self, uid: str, container: str) -> ContainerRun | None:
        """The supervised run of a container, or None."""
        return self._runs.get((uid, container))

    def processes(self) -> dict[int, tuple[str, str]]:
        """The pids of the supervised processes, with the uids of their Pods and the names of their containers."""
        return {run.process.identity.pid: key for key, run in self._runs.items()}

    def supervise(self, run: ContainerRun) -> None:
        """Supervises a run until it ends."""
        assert self._tasks is not None, "supervise() before run()"
        self._runs[run.key] = run
        self._tasks.start(run.name, partial(self._supervise, run))

    async def stop(self, run: ContainerRun, within: float) -> None:
        """Begins to stop a run within so many seconds; a stop that is in progress with more time is cut short."""
        assert self._tasks is not None, "stop() before run()"
        name = f"stop {run.name}"
        if name in self._tasks.running:
            await self._tasks.stop(name)
        self._tasks.start(name, partial(self._stop, run, within))

    def clean_up(self, record: PodRecord) -> None:
        """Stops the processes of a deleted Pod, and then removes its files and its record; idempotent."""
        assert self._tasks is not None, "clean_up() before run()"
        name = f"clean up {record.uid}"
        if name not in self._tasks.running:
            self._tasks.start(name, partial(self._clean_up, record))

    async def _supervise(self, run: ContainerRun) -> None:
        node = self._node
        report = partial(self._report, run)
        async with _copying(run):
            async with asyncio.TaskGroup() as group:
                probing = group.create_task(run_probes(node, run, report))
                ended = await run.process.wait()
                probing.cancel()
            try:
                await node.runner.stop(run.process, grace=0.0)  # child processes that it has left behind
            except StopFailed as error:
                log.warning("%s: %s", run.ref, error)
        end = await make_termination(node, run, ended)
        if self._runs.get(run.key) is run:
            del self._runs[run.key]
        report(process_ended(run.container.name, run.live.identity, end))

    async def _stop(self, run: ContainerRun, within: float) -> None:
        verdict = await _stop_run(self._node, run, within)
        if verdict is not None and verdict.outcome != "Success":
            self._report(run, event_pending("FailedPreStopHook", f"PreStopHook failed: {verdict.reason}"))

    async def _clean_up(self, record: PodRecord) -> None:
        node = self._node
        async with asyncio.TaskGroup() as group:
            for process in self._processes_of(record):
                group.create_task(node.runner.stop(process, grace=1.0))
        self._addresses.free(record.uid)
        self._host_ports.free(record.uid)
        for one in record.containers:
            for restarts in range(max(0, one.restarts - 1), one.restarts + 1):
                node.logs.remove(log_key(record.uid, one.name, restarts))
        await asyncio.to_thread(remove_folder, node.pod_folder(record.uid))
        node.records.remove(record.uid)

    def _processes_of(self, record: PodRecord) -> list[Run]:
        found = list[Run]()
        for one in record.running_containers:
            run = self._runs.pop((record.uid, one.name), None)
            adopted = self._node.runner.adopt(one.live.identity) if run is None and one.live is not None else None
            found += [each for each in (adopted, run.process if run is not None else None) if each is not None]
        return found

    def _report(self, run: ContainerRun, update: RecordUpdate) -> None:
        if run.uid in self._states:  # otherwise the Pod is gone, and the update has no receiver
            self._states.defer(run.ref, update, for_key=run.uid)


@asynccontextmanager
async def _copying(run: ContainerRun) -> AsyncGenerator[None, None]:
    """Copies the output of a run with streams until its end; at the end of the block it has little time left."""
    if run.streams is None:
        yield
        return
    copying = asyncio.create_task(run.streams.copy(), name=f"copy {run.name}")
    try:
        yield
        await asyncio.wait([copying], timeout=_COPIED_WITHIN)
    finally:
        copying.cancel()
        await asyncio.gather(copying, return_exceptions=True)


async def _stop_run(node: Node, run: ContainerRun, within: float) -> ProbeResult | None:
    """Stops a run: preStop hook, signal, then kill. Returns the verdict of the hook, None if there is none.

    Raises StopFailed if a process survives.
    """
    began = timing.now()
    hook = run.container.lifecycle.pre_stop if run.container.lifecycle is not None else None
    verdict = None
    if hook is not None and within > 0:
        verdict = await run_hook(node, run, hook, within=within)
    left = within if verdict is None else max(_LEAST_GRACE, within - (timing.now() - began))
    await node.runner.stop(run.process, grace=left, signal=stop_signal(run.container))
    return verdict


def _restart_task(crash: Crash) -> Restart:
    """Restarts a crashed task after a delay, so that a bug does not leave a process unsupervised."""
    log.error("%s crashed and is restarted after %g s", crash.name, _RETRY_SECONDS, exc_info=crash.error)
    return Restart(_RETRY_SECONDS)
