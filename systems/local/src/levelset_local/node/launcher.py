"""Starts and stops the containers of a Pod, and adopts those that an earlier manager has started."""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from levelset import Context, replace
from levelset.kinds.core_v1 import Container, Pod, Service
from levelset_local.node.config_sources import ConfigSources
from levelset_local.node.container_command import StartBlocked, check_command, container_command, set_up_volumes
from levelset_local.node.container_run import ContainerRun, ContainerStreams
from levelset_local.node.namespaces import entering
from levelset_local.node.node import Node, log_key
from levelset_local.node.plan import Stop
from levelset_local.node.pod_record import ContainerRecord, PodRecord, RunningProcess, Termination, mark_lost
from levelset_local.node.process_supervisor import ProcessSupervisor
from levelset_local.node.volumes import BadVolume
from levelset_machine import CannotStart, Command, LogSink, Run

__all__ = ["Launcher", "PodInputs"]

_CANNOT_START: Final = 128


class PodInputs(Struct, frozen=True):
    """A Pod, and the objects from which its environment and volumes are made."""

    pod: Pod
    sources: ConfigSources
    services: tuple[Service, ...] = ()


class Launcher:
    """Starts and stops containers; every method returns the updated record of the Pod."""

    def __init__(self, node: Node, supervisor: ProcessSupervisor) -> None:
        self._node = node
        self._supervisor = supervisor

    def adopt(self, inputs: PodInputs, record: PodRecord, now: datetime) -> PodRecord:
        """Supervises the processes of an earlier manager; those that no longer exist are recorded as ended."""
        for one in record.running_containers:
            if one.live is None or self._supervisor.find(record.uid, one.name) is not None:
                continue
            container = _find(inputs.pod, one.name)
            process = self._node.runner.adopt(one.live.identity)
            if process is None or container is None:
                record = record.with_container(mark_lost(one, now))
                continue
            live = replace(one.live, stopping=False, stopping_within=None)
            record = record.with_container(replace(one, live=live))
            info = self._node.pod_info(inputs.pod, record)
            command = check_command(self._node, info, container, inputs.sources, inputs.services)
            self._supervisor.supervise(self._container_run(inputs, record, container, process, command))
        return record

    async def mount(self, inputs: PodInputs, record: PodRecord, ctx: Context) -> PodRecord:
        """Sets up the volumes of a Pod, or updates them; volumes that are set up stay as they are if that fails."""
        if inputs.pod.metadata.deletion_timestamp is not None or (record.is_mounted and not inputs.pod.spec.volumes):
            return record
        info = self._node.pod_info(inputs.pod, record)
        try:
            await asyncio.to_thread(set_up_volumes, self._node, info, inputs.sources)
        except BadVolume as error:
            if not record.is_mounted and record.unmounted != str(error):
                ctx.record(inputs.pod, "FailedMount", str(error), warning=True)
            return record if record.is_mounted else replace(record, unmounted=str(error))
        return replace(record, is_mounted=True, unmounted="")

    async def start(self, inputs: PodInputs, record: PodRecord, container: Container, ctx: Context) -> PodRecord:
        """Starts a container; if it cannot be started, the record has the reason."""
        if not record.is_mounted:
            return record
        one = record.container(container.name)
        try:
            command = await asyncio.to_thread(self._command, inputs, record, container)
        except StartBlocked as error:
            return record.with_container(replace(one, wait=error.wait))
        record = record.with_container(_next_run(one, self._node))
        return self._run(inputs, record, container, command, ctx)

    def _command(self, inputs: PodInputs, record: PodRecord, container: Container) -> Command:
        """The command of a container, with its volumes set up; writes files, so call it in a thread."""
        info = self._node.pod_info(inputs.pod, record)
        try:
            volumes: Mapping[str, Path] = set_up_volumes(self._node, info, inputs.sources)
        except BadVolume as error:
            raise StartBlocked("CreateContainerConfigError", str(error)) from error
        return container_command(self._node, info, container, inputs.sources, services=inputs.services, volumes=volumes)

    def _run(
        self, inputs: PodInputs, record: PodRecord, container: Container, command: Command, ctx: Context
    ) -> PodRecord:
        """Starts a process, stores its record and supervises it.

        Nothing may be awaited in between: a cancellation there would leave a process that no record names.
        """
        node, now, one = self._node, ctx.now(), record.container(container.name)
        node.logs.remove(log_key(record.uid, one.name, one.restarts - 2))
        sink = node.logs.open(log_key(record.uid, one.name, one.restarts))
        streams = ContainerStreams(container, sink) if container.stdin or container.tty else None
        try:
            process = _start(node, command, sink, streams)
        except CannotStart as error:
            sink.write(f"{error}\n".encode())
            sink.close()
            return record.with_container(replace(one, ended=_start_error(str(error), now)))
        record = record.with_container(replace(one, live=_new_process(container, process, now)))
        node.records.save(replace(record, pending_events=()))
        run = self._container_run(inputs, record, container, process, command)
        self._supervisor.supervise(replace(run, streams=streams))
        ctx.record(inputs.pod, "Started", f"Started container {one.name}")
        return record

    def _container_run(
        self, inputs: PodInputs, record: PodRecord, container: Container, process: Run, command: Command
    ) -> ContainerRun:
        one = record.container(container.name)
        assert one.live is not None, "a run without a process"
        return ContainerRun(
            ref=inputs.pod.ref,
            uid=record.uid,
            container=container,
            process=process,
            live=one.live,
            command=command,
            address=record.address,
            root=self._node.mount_root(record.uid, container.name),
            log=log_key(record.uid, container.name, one.restarts),
            enter=entering(process.identity.pid) if self._node.namespaces else (),
        )

    async def stop(self, inputs: PodInputs, record: PodRecord, step: Stop, ctx: Context) -> PodRecord:
        """Begins to stop a container."""
        one = record.container(step.container.name)
        run = self._supervisor.find(record.uid, one.name)
        if one.live is None or run is None:
            return record  # the process has ended, and the update of the record is on its way
        if not one.live.stopping:
            ctx.record(inputs.pod, "Killing", f"Stopping container {one.name}: {step.why}")
        await self._supervisor.stop(run, step.within)
        return record.with_container(
            replace(one, live=replace(one.live, stopping=True, stopping_within=step.grace, is_ready=False))
        )


def _start(node: Node, command: Command, sink: LogSink, streams: ContainerStreams | None) -> Run:
    runner: Any = node.runner
    run: Run = runner.start(command, out=sink) if streams is None else runner.start_session(streams.session, command)
    return run


def _find(pod: Pod, name: str) -> Container | None:
    return next((one for one in (*pod.spec.init_containers, *pod.spec.containers) if one.name == name), None)


def _next_run(one: ContainerRecord, node: Node) -> ContainerRecord:
    """The record of a container that is about to be started; a restart is counted."""
    if one.ended is None:
        return replace(one, wait=None)
    return replace(
        one,
        wait=None,
        ended=None,
        before=one.ended,
        restarts=one.restarts + 1,
        streak=node.restart_backoff.streak(one) + 1,
    )


def _new_process(container: Container, process: Run, now: datetime) -> RunningProcess:
    lifecycle = container.lifecycle
    return RunningProcess(
        identity=process.identity,
        started_at=now,
        image=container.image or "",
        is_posted=lifecycle is None or lifecycle.post_start is None,
        is_started=container.startup_probe is None,
        is_ready=container.readiness_probe is None,
    )


def _start_error(message: str, now: datetime) -> Termination:
    return Termination(code=_CANNOT_START, reason="StartError", message=message, started_at=now, finished_at=now)
