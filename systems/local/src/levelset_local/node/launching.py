"""Starts and stops the containers of a Pod, and takes over those that an earlier manager has started."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from levelset import Context
from levelset.kinds.core_v1 import Container, Pod, Service
from levelset_local.node.agent import Node, log_key
from levelset_local.node.attending import Attendants
from levelset_local.node.charges import Charge
from levelset_local.node.known import ContainerKnown, End, Live, PodKnown
from levelset_local.node.needs import Found
from levelset_local.node.plan import Stop
from levelset_local.node.recovering import lost
from levelset_local.node.starting import NotYet, check_command, container_command, put_volumes
from levelset_local.node.volumes import BadVolume
from levelset_machine import CannotStart, Command, Run

__all__ = ["Launcher", "Surroundings"]

_CANNOT_START: Final = 128


@dataclass(frozen=True, slots=True)
class Surroundings:
    """A Pod, and what there is of that which it names."""

    pod: Pod
    found: Found
    services: tuple[Service, ...] = ()


class Launcher:
    """Starts and stops containers; what it returns is what is known after that."""

    def __init__(self, node: Node, attendants: Attendants) -> None:
        self._node = node
        self._attendants = attendants

    def take_over(self, around: Surroundings, known: PodKnown, now: datetime) -> PodKnown:
        """Looks after what an earlier manager has started; what is not there any more has ended."""
        for one in known.living:
            if one.live is None or self._attendants.charge(known.uid, one.name) is not None:
                continue
            container = _find(around.pod, one.name)
            run = self._node.runner.adopt(one.live.identity)
            if run is None or container is None:
                known = known.with_container(lost(one, now))
                continue
            live = replace(one.live, stopping=False, stopping_within=None)
            known = known.with_container(replace(one, live=live))
            facts = self._node.facts(around.pod, known)
            command = check_command(self._node, facts, container, around.found, around.services)
            self._attendants.attend(self._charge(around, known, container, run, command))
        return known

    async def mount(self, around: Surroundings, known: PodKnown, ctx: Context) -> PodKnown:
        """Makes the volumes of a Pod, or brings them up to date; those that are there stay if that cannot be."""
        if around.pod.metadata.deletion_timestamp is not None or (known.is_mounted and not around.pod.spec.volumes):
            return known
        facts = self._node.facts(around.pod, known)
        try:
            await asyncio.to_thread(put_volumes, self._node, facts, around.found)
        except BadVolume as error:
            if not known.is_mounted and known.unmounted != str(error):
                ctx.record(around.pod, "FailedMount", str(error), warning=True)
            return known if known.is_mounted else replace(known, unmounted=str(error))
        return replace(known, is_mounted=True, unmounted="")

    async def start(self, around: Surroundings, known: PodKnown, container: Container, ctx: Context) -> PodKnown:
        """Starts a container; if that cannot be, what is known says why."""
        if not known.is_mounted:
            return known
        one = known.container(container.name)
        try:
            command = await asyncio.to_thread(self._command, around, known, container)
        except NotYet as error:
            return known.with_container(replace(one, wait=error.wait))
        known = known.with_container(_next_run(one, self._node))
        return self._run(around, known, container, command, ctx)

    def _command(self, around: Surroundings, known: PodKnown, container: Container) -> Command:
        """Runs in a thread, as it writes files."""
        facts = self._node.facts(around.pod, known)
        try:
            volumes: Mapping[str, Path] = put_volumes(self._node, facts, around.found)
        except BadVolume as error:
            raise NotYet("CreateContainerConfigError", str(error)) from error
        return container_command(self._node, facts, container, around.found, services=around.services, volumes=volumes)

    def _run(
        self, around: Surroundings, known: PodKnown, container: Container, command: Command, ctx: Context
    ) -> PodKnown:
        """Starts a process. Nothing may be awaited before it is known, recorded and looked after."""
        node, now, one = self._node, ctx.now(), known.container(container.name)
        node.logs.remove(log_key(known.uid, one.name, one.restarts - 2))
        sink = node.logs.open(log_key(known.uid, one.name, one.restarts))
        try:
            run = node.runner.start(command, out=sink)
        except CannotStart as error:
            sink.write(f"{error}\n".encode())
            sink.close()
            return known.with_container(replace(one, ended=_never_started(str(error), now)))
        known = known.with_container(replace(one, live=_new_life(container, run, now)))
        node.records.save(replace(known, news=()))
        self._attendants.attend(self._charge(around, known, container, run, command))
        ctx.record(around.pod, "Started", f"Started container {one.name}")
        return known

    def _charge(
        self, around: Surroundings, known: PodKnown, container: Container, run: Run, command: Command
    ) -> Charge:
        one = known.container(container.name)
        assert one.live is not None, "a charge without a process"
        return Charge(
            ref=around.pod.ref,
            uid=known.uid,
            container=container,
            run=run,
            live=one.live,
            command=command,
            address=known.address,
            root=self._node.root(known.uid, container.name),
            log=log_key(known.uid, container.name, one.restarts),
        )

    async def stop(self, around: Surroundings, known: PodKnown, step: Stop, ctx: Context) -> PodKnown:
        """Begins to end a container."""
        one = known.container(step.container.name)
        charge = self._attendants.charge(known.uid, one.name)
        if one.live is None or charge is None:
            return known  # it is ending by itself
        if not one.live.stopping:
            ctx.record(around.pod, "Killing", f"Stopping container {one.name}: {step.why}")
        await self._attendants.stop(charge, step.within)
        return known.with_container(
            replace(one, live=replace(one.live, stopping=True, stopping_within=step.asked, is_ready=False))
        )


def _find(pod: Pod, name: str) -> Container | None:
    return next((one for one in (*pod.spec.init_containers, *pod.spec.containers) if one.name == name), None)


def _next_run(one: ContainerKnown, node: Node) -> ContainerKnown:
    """What is known of a container that is about to run: once more, if it has run before."""
    if one.ended is None:
        return replace(one, wait=None)
    return replace(
        one,
        wait=None,
        ended=None,
        before=one.ended,
        restarts=one.restarts + 1,
        streak=node.restarts.streak(one) + 1,
    )


def _new_life(container: Container, run: Run, now: datetime) -> Live:
    lifecycle = container.lifecycle
    return Live(
        identity=run.identity,
        started_at=now,
        image=container.image or "",
        is_posted=lifecycle is None or lifecycle.post_start is None,
        is_started=container.startup_probe is None,
        is_ready=container.readiness_probe is None,
    )


def _never_started(message: str, now: datetime) -> End:
    return End(code=_CANNOT_START, reason="StartError", message=message, started_at=now, finished_at=now)
