"""The slow work of containers, done in the background: find, start, stop and remove; each answer is a change.

What is worked with was handed over as values: nothing here looks at an object of the API, or at what is known.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from levelset import Ref
from levelset.aio import timing
from levelset.errors import LevelsetError
from levelset_dcp.containers.engine_calls import find_container, insist, stop_and_remove, wait_started
from levelset_dcp.containers.files import archive_of, members_of_certificates, members_of_files
from levelset_dcp.containers.guarding import container_guard
from levelset_dcp.containers.known import (
    Change,
    ContainerKnown,
    failed,
    gone,
    inspected,
    not_found,
    stop_failed,
    unhealthy,
    vanished,
    waits,
)
from levelset_dcp.containers.layers import layered_image
from levelset_dcp.containers.places import lease_of, startup_keys
from levelset_dcp.containers.plan import habits_of, name_of
from levelset_dcp.containers.resolving import judge
from levelset_dcp.containers.specs import Prepared, build_of, image_of, new_container
from levelset_dcp.containers.world import Containers
from levelset_dcp.engines.errors import (
    EngineAlreadyExists,
    EngineError,
    EngineNotFound,
    EngineTimedOut,
    Incomplete,
    RuntimeNotHealthy,
)
from levelset_dcp.engines.interface import Engine, Sink
from levelset_dcp.engines.models import ContainerInfo
from levelset_dcp.kinds import Container
from levelset_dcp.records.records import ResourceRecord

__all__ = ["AGAIN", "Launcher"]

AGAIN: Final = 5.0

_TRIES: Final = 3
_NAMES_IN_USE: Final = "there is a container {!r} already, and it belongs to somebody else; give another containerName"

Tell = Callable[[Change], None]
Follow = Callable[[Ref[Container], str, str], None]

log = logging.getLogger(__name__)


class Launcher:
    """Asks the engine for what takes its time; `follow` is told of each container before it is started."""

    def __init__(self, world: Containers, follow: Follow) -> None:
        self._world = world
        self._follow = follow

    async def find(self, container: Container, key: str | None) -> Change:
        """Asks the engine whether it is well, and what is there already."""
        try:
            engine = await self._world.healthy_engine()
            if not habits_of(container.spec).finds:
                return _resolved
            if not await self._world.records.lease(lease_of(container)):
                return waits("another session has the container", timing.now() + AGAIN)
            return await self._judged(container, key, engine)
        except (RuntimeNotHealthy, EngineTimedOut) as error:
            return unhealthy(str(error), timing.now() + AGAIN)

    async def start(self, container: Container, prepared: Prepared, tell: Tell) -> Change:
        """Builds, creates, fills, connects and starts a container."""
        out, err = (self._world.logs.open(key) for key in startup_keys(container.metadata.uid))
        try:
            engine = await self._world.healthy_engine()
            info = await self._start(container, prepared, engine, (out, err), tell)
        except RuntimeNotHealthy as error:
            return unhealthy(str(error), timing.now() + AGAIN)
        except (LevelsetError, OSError) as error:
            err.write(f"{error}\n".encode())
            return failed(str(error), self._world.now())
        finally:
            out.close()
            err.close()
        if info.status == "dead":
            return failed(info.error or "the engine could not start it, and says that it is dead", self._world.now())
        return inspected(info, self._world.now())

    async def stop(self, container_id: str) -> Change:
        """Stops a container, and looks how it ended."""
        now, world = self._world.now, self._world
        try:
            engine = await world.healthy_engine()
            await insist(lambda: engine.stop_container(container_id, grace=world.grace))
            info = await engine.inspect_container(container_id)
        except EngineNotFound:
            return vanished(now())
        except RuntimeNotHealthy as error:
            return waits(str(error), timing.now() + AGAIN)
        except EngineError as error:
            return stop_failed(f"it could not be stopped: {error}", now())
        return inspected(info, now()) if info.is_over else stop_failed("it goes on although it was stopped", now())

    async def remove(self, container: Container, container_id: str) -> Change:
        """Ends and removes the container of an object that is being deleted; fine if there is none."""
        habits = habits_of(container.spec)
        try:
            engine = await self._world.healthy_engine()
            if habits.finds and not await self._world.records.lease(lease_of(container)):
                return waits("another session has the container", timing.now() + AGAIN)
            found = await find_container(engine, container_id or name_of(container))
            if found is not None and (container_id or judge(container, found, None) != "foreign"):
                await stop_and_remove(engine, found.id, grace=self._world.grace)
            if habits.finds:
                await self._world.records.remove_resource("container", name_of(container))
        except EngineError as error:
            return waits(str(error), timing.now() + AGAIN)
        return gone()

    async def _judged(self, container: Container, key: str | None, engine: Engine) -> Change:
        found = await find_container(engine, name_of(container))
        verdict = judge(container, found, key)
        if verdict == "replace" and found is not None:
            await stop_and_remove(engine, found.id, grace=self._world.grace)
            return _resolved
        if verdict == "wait":
            return not_found(f"there is no container {name_of(container)!r} yet", timing.now() + AGAIN)
        if found is None:
            return _resolved
        self._follow(container.ref, container.metadata.uid, found.id)
        self._world.started(container.metadata.uid, found.id)
        if habits_of(container.spec).makes:
            await self._write_down(container, found.id, key or "")
        return inspected(found, self._world.now())

    async def _start(
        self, container: Container, prepared: Prepared, engine: Engine, sinks: tuple[Sink, Sink], tell: Tell
    ) -> ContainerInfo:
        spec, (out, err) = container.spec, sinks
        if spec.build is not None:
            await engine.build(build_of(container, spec.build), out=out, err=err)
            tell(_starting)
        if folders := [one.source for one in spec.volume_mounts if one.type == "bind"]:
            await asyncio.to_thread(_make_folders, folders)
        image = image_of(container)
        if spec.image_layers:
            image = await layered_image(engine, image, spec.image_layers, out=out, err=err)
        made, is_begun = await self._create(container, prepared, engine, sinks, image)
        # From now on whatever happens to it is heard of, also if that is before anybody here knows that it was started.
        self._follow(container.ref, container.metadata.uid, made)
        tell(_created(made, name_of(container)))
        if habits_of(spec).finds:
            await self._write_down(container, made, prepared.key)
        if not is_begun:
            await self._fill(container, made, engine)
            await self._join(prepared, made, engine)
            await engine.start_container(made)
        self._world.started(container.metadata.uid, made)
        self._guard(container, made, engine)
        return await wait_started(engine, made)

    async def _create(
        self, container: Container, prepared: Prepared, engine: Engine, sinks: tuple[Sink, Sink], image: str
    ) -> tuple[str, bool]:
        """Creates the container, or finds the one that was created when nobody heard the answer.

        Its ID, and whether it has been started: what has run once is not run again.
        """
        wanted = new_container(container, prepared, self._world.creator, image=image)
        for left in reversed(range(_TRIES)):
            try:
                return await engine.create_container(wanted, out=sinks[0], err=sinks[1]), False
            except EngineAlreadyExists as error:
                found = await find_container(engine, wanted.name)
                if found is not None and judge(container, found, None) == "take":
                    return found.id, found.status != "created"
                if found is not None:
                    raise EngineAlreadyExists(_NAMES_IN_USE.format(wanted.name)) from error
                if not left:
                    raise
            except (EngineTimedOut, Incomplete):
                if not left:
                    raise
        raise AssertionError("the last try returns or raises")

    async def _fill(self, container: Container, container_id: str, engine: Engine) -> None:
        """Puts files and certificates into the container."""
        spec, now = container.spec, self._world.now().timestamp()
        if spec.create_files:
            members = await asyncio.to_thread(lambda: list(members_of_files(spec.create_files)))
            if members:
                await engine.copy_in(container_id, "/", archive_of(members, at=now))
        if spec.pem_certificates is not None:
            members = list(members_of_certificates(spec.pem_certificates))
            await engine.copy_in(container_id, "/", archive_of(members, at=now))

    async def _join(self, prepared: Prepared, container_id: str, engine: Engine) -> None:
        """Puts the container into its further networks; one that is to be in none leaves the engine's own."""
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
        """Has a process of its own stop the container when the one that it names ends, also when we are gone."""
        spec = container.spec
        if spec.monitor_pid is not None and spec.monitor_timestamp is not None:
            ambient = self._world.ambient
            command = container_guard(engine.name, container_id, spec.monitor_pid, spec.monitor_timestamp, ambient)
            self._world.guard(command, f"{container.metadata.uid}_monitor")

    async def _write_down(self, container: Container, container_id: str, key: str) -> None:
        """Remembers a container that outlives the session; one that cannot be remembered is not kept."""
        record = ResourceRecord(kind="container", name=name_of(container), id=container_id, key=key)
        try:
            await self._world.records.write_resource(record)
        except LevelsetError:
            await stop_and_remove(self._world.ready_engine, container_id, grace=0.0)
            raise


def _resolved(known: ContainerKnown) -> ContainerKnown:
    return replace(known, is_resolved=True, again_at=0.0)


def _starting(known: ContainerKnown) -> ContainerKnown | None:
    return replace(known, state="Starting") if known.state == "Building" else None


def _created(container_id: str, name: str) -> Change:
    return lambda known: replace(known, container_id=container_id, container_name=name)


def _make_folders(sources: list[str]) -> None:
    """Makes the folders of this machine that are to be seen inside; those that are there stay. Blocks."""
    for one in sources:
        path = Path(one)
        if not path.exists():
            path.mkdir(parents=True)
