"""The background operations of containers: find, start, stop and remove; each returns a change of the observed state.

Operations work on values: they read neither the API nor the observed state.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from levelset import Ref, replace
from levelset.aio import timing
from levelset.errors import LevelsetError
from levelset_dcp.containers.create_request import Prepared, build_of, image_of, new_container
from levelset_dcp.containers.file_archive import archive_of, members_of_certificates, members_of_files
from levelset_dcp.containers.host import ContainerHost, container_guard
from levelset_dcp.containers.image_layers import layered_image
from levelset_dcp.containers.logs import startup_keys
from levelset_dcp.containers.state import (
    Change,
    ObservedContainer,
    decide_adoption,
    failed,
    inspected,
    lease_of,
    name_of,
    not_found,
    removed,
    removed_externally,
    retry_later,
    stop_failed,
    unhealthy,
)
from levelset_dcp.engines.errors import (
    EngineAlreadyExists,
    EngineError,
    EngineNotFound,
    EngineRefused,
    EngineTimedOut,
    Incomplete,
    RuntimeNotHealthy,
    most_likely_created_nothing,
)
from levelset_dcp.engines.interface import Engine, Sink
from levelset_dcp.engines.models import ContainerInfo
from levelset_dcp.engines.retries import find_container, retry_call, stop_and_remove, wait_started
from levelset_dcp.kinds import Container, Terminal
from levelset_dcp.records.interface import ResourceRecord
from levelset_dcp.workloads.modes import container_policy

__all__ = ["RETRY_DELAY", "Launcher"]

RETRY_DELAY: Final = 5.0

_ATTEMPTS: Final = 3
_NAME_IN_USE: Final = "there is a container {!r} already, and it belongs to another object; set another containerName"

Report = Callable[[Change], None]
Follow = Callable[[Ref[Container], str, str], None]

log = logging.getLogger(__name__)


class Launcher:
    """Runs slow engine operations; `follow` is called with each container before it is started."""

    def __init__(self, host: ContainerHost, follow: Follow) -> None:
        self._host = host
        self._follow = follow

    async def find(self, container: Container, key: str | None) -> Change:
        """Checks the health of the engine, and looks up an existing container if the mode adopts one."""
        try:
            engine = await self._host.healthy_engine()
            if not container_policy(container.spec).adopts:
                return _resolved
            if not await self._host.records.lease(lease_of(container)):
                return retry_later("another session holds the lease of the container", timing.now() + RETRY_DELAY)
            return await self._resolve(container, key, engine)
        except (RuntimeNotHealthy, EngineTimedOut) as error:
            return unhealthy(str(error), timing.now() + RETRY_DELAY)

    async def start(self, container: Container, prepared: Prepared, report: Report) -> Change:
        """Builds the image, creates the container, copies files into it, connects it to its networks and starts it."""
        out, err = (self._host.logs.open(key) for key in startup_keys(container.metadata.uid))
        try:
            engine = await self._host.healthy_engine()
            info = await self._start(container, prepared, engine, (out, err), report)
        except RuntimeNotHealthy as error:
            return unhealthy(str(error), timing.now() + RETRY_DELAY)
        except (LevelsetError, OSError) as error:
            err.write(f"{error}\n".encode())
            return failed(str(error), self._host.now())
        finally:
            out.close()
            err.close()
        if info.status == "dead":
            return failed(info.error or "the engine could not start it, and reports it as dead", self._host.now())
        return inspected(info, self._host.now())

    async def stop(self, container_id: str) -> Change:
        """Stops a container, and inspects how it ended."""
        now, host = self._host.now, self._host
        try:
            engine = await host.healthy_engine()
            await retry_call(lambda: engine.stop_container(container_id, grace=host.grace))
            info = await engine.inspect_container(container_id)
        except EngineNotFound:
            return removed_externally(now())
        except RuntimeNotHealthy as error:
            return retry_later(str(error), timing.now() + RETRY_DELAY)
        except EngineError as error:
            return stop_failed(f"cannot stop the container: {error}", now())
        return inspected(info, now()) if info.is_over else stop_failed("the container still runs after the stop", now())

    async def remove(self, container: Container, container_id: str) -> Change:
        """Stops and removes the container of an object that is being deleted; succeeds if there is none."""
        policy = container_policy(container.spec)
        try:
            engine = await self._host.healthy_engine()
            if policy.adopts and not await self._host.records.lease(lease_of(container)):
                return retry_later("another session holds the lease of the container", timing.now() + RETRY_DELAY)
            found = await find_container(engine, container_id or name_of(container))
            if found is not None and (container_id or decide_adoption(container, found, None) != "foreign"):
                await stop_and_remove(engine, found.id, grace=self._host.grace)
            if policy.adopts:
                await self._host.records.remove_resource("container", name_of(container))
        except EngineError as error:
            if not most_likely_created_nothing(error, container_id):
                return retry_later(str(error), timing.now() + RETRY_DELAY)
        return removed()

    async def _resolve(self, container: Container, key: str | None, engine: Engine) -> Change:
        found = await find_container(engine, name_of(container))
        adoption = decide_adoption(container, found, key)
        if adoption == "replace" and found is not None:
            await stop_and_remove(engine, found.id, grace=self._host.grace)
            return _resolved
        if adoption == "wait":
            return not_found(f"there is no container {name_of(container)!r} yet", timing.now() + RETRY_DELAY)
        if found is None:
            return _resolved
        self._follow(container.ref, container.metadata.uid, found.id)
        self._host.started(container.metadata.uid, found.id)
        if container_policy(container.spec).creates:
            await self._write_record(container, found.id, key or "")
        return inspected(found, self._host.now())

    async def _start(
        self, container: Container, prepared: Prepared, engine: Engine, sinks: tuple[Sink, Sink], report: Report
    ) -> ContainerInfo:
        spec, (out, err) = container.spec, sinks
        if spec.build is not None:
            await engine.build(build_of(container, spec.build), out=out, err=err)
            report(_starting)
        if spec.terminal is not None and not engine.terminal_command(name_of(container), start=True):
            raise EngineRefused(f"the engine {engine.name} has no terminals; leave spec.terminal out")
        if folders := [one.source for one in spec.volume_mounts if one.type == "bind"]:
            await asyncio.to_thread(_make_folders, folders)
        image = image_of(container)
        if spec.image_layers:
            image = await layered_image(engine, image, spec.image_layers, out=out, err=err)
        made, is_begun = await self._create(container, prepared, engine, sinks, image)
        # Followed before the start, so that no event is missed, even if the container exits before `start` returns.
        self._follow(container.ref, container.metadata.uid, made)
        report(_created(made, name_of(container)))
        if container_policy(spec).adopts:
            await self._write_record(container, made, prepared.key)
        if not is_begun:
            await self._copy_files(container, made, engine)
            await self._connect(prepared, made, engine)
            if spec.terminal is None:
                await engine.start_container(made)
        if spec.terminal is not None:
            report(await self._show(container, spec.terminal, engine, made, start=not is_begun))
        self._host.started(container.metadata.uid, made)
        self._guard(container, made, engine)
        return await wait_started(engine, made)

    async def _show(
        self, container: Container, settings: Terminal, engine: Engine, container_id: str, *, start: bool
    ) -> Change:
        """Shows the container on its terminal, and starts it there unless it was started."""
        if self._host.terminals is None:
            raise EngineRefused("there are no terminals of containers here; leave spec.terminal out")
        return _shown(await self._host.terminals.show(container, settings, engine, container_id, start=start))

    async def _create(
        self, container: Container, prepared: Prepared, engine: Engine, sinks: tuple[Sink, Sink], image: str
    ) -> tuple[str, bool]:
        """Creates the container, or finds the one of an earlier attempt whose response was lost.

        Returns its ID, and whether it was started already: a container is never started twice.
        """
        wanted = new_container(container, prepared, self._host.creator, image=image)
        for left in reversed(range(_ATTEMPTS)):
            try:
                return await engine.create_container(wanted, out=sinks[0], err=sinks[1]), False
            except EngineAlreadyExists as error:
                found = await find_container(engine, wanted.name)
                if found is not None and decide_adoption(container, found, None) == "adopt":
                    return found.id, found.status != "created"
                if found is not None:
                    raise EngineAlreadyExists(_NAME_IN_USE.format(wanted.name)) from error
                if not left:
                    raise
            except (EngineTimedOut, Incomplete):
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")

    async def _copy_files(self, container: Container, container_id: str, engine: Engine) -> None:
        """Copies files and certificates into the container."""
        spec, now = container.spec, self._host.now().timestamp()
        if spec.create_files:
            members = await asyncio.to_thread(lambda: list(members_of_files(spec.create_files)))
            if members:
                await engine.copy_in(container_id, "/", archive_of(members, at=now))
        if spec.pem_certificates is not None:
            members = list(members_of_certificates(spec.pem_certificates))
            await engine.copy_in(container_id, "/", archive_of(members, at=now))

    async def _connect(self, prepared: Prepared, container_id: str, engine: Engine) -> None:
        """Connects the container to its other networks; with an empty list it leaves the engine's default network."""
        if prepared.networks is None:
            return
        if not prepared.networks:
            try:
                await engine.disconnect(engine.default_network, container_id, force=True)
            except EngineNotFound:
                return
        for one in prepared.networks[1:]:
            try:
                await engine.connect(one.network_id, container_id, aliases=one.aliases)
            except EngineAlreadyExists:
                continue

    def _guard(self, container: Container, container_id: str, engine: Engine) -> None:
        """Starts a guard process that stops the container when spec.monitorPid exits, even after this session."""
        spec = container.spec
        if spec.monitor_pid is not None and spec.monitor_timestamp is not None:
            ambient = self._host.ambient
            command = container_guard(engine.name, container_id, spec.monitor_pid, spec.monitor_timestamp, ambient)
            self._host.guard(command, f"{container.metadata.uid}_monitor")

    async def _write_record(self, container: Container, container_id: str, key: str) -> None:
        """Records a container that outlives the session; it is removed if the record cannot be written."""
        record = ResourceRecord(kind="container", name=name_of(container), id=container_id, key=key)
        try:
            await self._host.records.write_resource(record)
        except LevelsetError:
            await stop_and_remove(self._host.ready_engine, container_id, grace=0.0)
            raise


def _resolved(observed: ObservedContainer) -> ObservedContainer:
    return replace(observed, is_resolved=True, retry_at=0.0)


def _starting(observed: ObservedContainer) -> ObservedContainer | None:
    return replace(observed, state="Starting") if observed.state == "Building" else None


def _created(container_id: str, name: str) -> Change:
    return lambda observed: replace(observed, container_id=container_id, container_name=name)


def _shown(socket: str) -> Change:
    return lambda observed: replace(observed, terminal=socket)


def _make_folders(sources: list[str]) -> None:
    """Creates the missing source directories of bind mounts. Blocks."""
    for one in sources:
        path = Path(one)
        if not path.exists():
            path.mkdir(parents=True)
