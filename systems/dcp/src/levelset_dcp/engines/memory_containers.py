"""Containers of the pretended engine: what the controllers ask for."""

import math
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Final

from levelset.aio import timing
from levelset_dcp.engines.errors import EngineAlreadyExists, EngineNotFound, EngineRefused, ObjectInUse
from levelset_dcp.engines.interface import Sink
from levelset_dcp.engines.memory_images import MemoryImages
from levelset_dcp.engines.memory_objects import HeldContainer, Script, Written, unpack
from levelset_dcp.engines.memory_running import begin, finish
from levelset_dcp.engines.models import ContainerInfo, LogOrigin, NewContainer, NewExec, VolumeInfo

__all__ = ["MemoryContainers"]

_KILLED: Final = 137
_NO_SUCH_COMMAND: Final = 127


class MemoryContainers(MemoryImages):
    """Creates, starts, stops and removes containers, and shows what they write."""

    async def create_container(self, spec: NewContainer, *, out: Sink | None = None, err: Sink | None = None) -> str:  # noqa: ARG002  (the words of Engine)
        """Creates a container; see Engine."""
        async with self._world.call("create_container", spec.name):
            world = self._world
            if spec.name and world.find_container(spec.name) is not None:
                raise EngineAlreadyExists(f"there is a container {spec.name!r} already")
            self._fetch(spec, out)
            network = world.network(spec.network or "bridge")
            made = HeldContainer(
                id=world.new_id(),
                name=spec.name or f"made-up-{len(world.containers) + 1}-{world.random.getrandbits(24):06x}",
                spec=spec,
                script=world.script_of(spec),
                created_at=world.now(),
            )
            for mount in spec.mounts:
                if mount.type == "volume" and mount.source not in world.volumes:
                    world.volumes[mount.source] = VolumeInfo(name=mount.source, created_at=world.now())
            world.containers[made.id] = made
            world.join(network, made, spec.aliases)
            world.tell_of(made, "create", image=spec.image)
        return made.id

    async def start_container(self, container: str) -> None:
        """Starts a container; see Engine."""
        async with self._world.call("start_container", container):
            held = self._world.container(container)
            if not held.is_alive:
                held.restarts = 0
                begin(self._world, held)

    async def stop_container(self, container: str, *, grace: float = 10.0) -> None:
        """Stops a container; see Engine."""
        async with self._world.call("stop_container", container):
            world, held = self._world, self._world.container(container)
            if held.status == "restarting":
                held.drop_timers()
                held.status = "exited"
                world.tell_of(held, "stop")
            if held.is_alive:
                world.tell_of(held, "kill", signal="15")
                if held.script.ignores_term:
                    await timing.sleep(grace)
                    world.tell_of(held, "kill", signal="9")
                finish(world, held, _KILLED if held.script.ignores_term else held.script.stop_code, is_asked=True)
                world.tell_of(held, "stop")

    async def remove_container(self, container: str, *, force: bool = False) -> None:
        """Removes a container; see Engine."""
        async with self._world.call("remove_container", container):
            held = self._world.container(container)
            if held.is_alive and not force:
                raise ObjectInUse(f"container {held.name!r} runs; stop it first, or remove it with force")
            self._drop(held)

    async def inspect_container(self, container: str) -> ContainerInfo:
        """What is known of a container; see Engine."""
        async with self._world.call("inspect_container", container):
            return self._world.container(container).info()

    async def list_containers(self, *, labels: Mapping[str, str] | None = None) -> tuple[ContainerInfo, ...]:
        """All containers with these labels; see Engine."""
        async with self._world.call("list_containers", ""):
            wanted = (labels or {}).items()
            return tuple(one.info() for one in self._world.containers.values() if wanted <= one.spec.labels.items())

    async def exec(self, container: str, what: NewExec, *, out: Sink, err: Sink) -> int:
        """Runs what `program` has told for the command, its first word, or else nothing, which ends with 0."""
        async with self._world.call("exec", container):
            world, held = self._world, self._world.container(container)
            if not held.is_alive:
                raise EngineRefused(f"container {held.name!r} does not run, so nothing can be run in it")
            if not what.command:
                return _NO_SUCH_COMMAND
            script = world.scripts.get(what.command) or world.scripts.get(what.command[0]) or Script(exits=(0,))
            code = await _run_inside(held, script, out, err)
            world.tell_of(held, "exec_die", execExitCode=str(code))
        return code

    async def logs(
        self,
        container: str,
        *,
        origin: LogOrigin = "all",
        follow: bool = False,
        timestamps: bool = False,
        tail: int | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """What a container has written; see Engine."""
        async with self._world.call("logs", container):
            held = self._world.container(container)
        count = 0
        first = True
        while True:
            changed, is_over = held.changed, not (follow and held.is_writing and held.id in self._world.containers)
            lines = [one for one in held.log[count:] if origin in ("all", one.origin)]
            count = len(held.log)
            if first and tail is not None:
                lines = lines[len(lines) - min(tail, len(lines)) :]
            first = False
            if lines:
                yield b"".join(_show(one, timestamps=timestamps) for one in lines)
            if is_over:
                return
            await changed.wait()

    async def copy_in(self, container: str, folder: str, archive: bytes) -> None:
        """Unpacks an archive into what `files` shows; see Engine."""
        async with self._world.call("copy_in", container):
            held = self._world.container(container)
            held.files.update(unpack(archive, folder))

    def attach_command(self, container: str) -> tuple[str, ...]:  # noqa: ARG002  (the words of Engine)
        """None: there is nothing to be attached to."""
        return ()

    def _fetch(self, spec: NewContainer, out: Sink | None) -> None:
        if spec.pull_policy == "always" or spec.image not in self._world.images:
            if spec.pull_policy == "never":
                raise EngineNotFound(f"there is no image {spec.image!r} here, and it may not be pulled")
            self._pull(spec.image, out)

    def _drop(self, held: HeldContainer) -> None:
        finish(self._world, held, _KILLED, is_asked=True)
        held.drop_timers()
        held.spec = replace(held.spec, restart_policy="")
        self._world.containers.pop(held.id, None)
        self._world.tell_of(held, "destroy")


async def _run_inside(held: HeldContainer, script: Script, out: Sink, err: Sink) -> int:
    """Runs a command inside of a container, and ends it with that container."""
    lines = [(delay, out, line) for delay, line in script.prints]
    lines += [(delay, err, line) for delay, line in script.errors]
    begun = timing.now()
    for delay, sink, line in sorted(lines, key=lambda one: one[0]):
        if not await _lives_until(held, begun + delay):
            return _KILLED
        sink.write(line.encode() + b"\n")
    code = script.code(0)
    lives = await _lives_until(held, math.inf if code is None else begun + script.after)
    return code if lives and code is not None else _KILLED


async def _lives_until(held: HeldContainer, when: float) -> bool:
    """Whether a container runs at that time, too."""
    while held.is_alive and timing.now() < when:
        try:
            async with timing.until(None if when == math.inf else when):
                await held.changed.wait()
        except TimeoutError:
            break
    return held.is_alive


def _show(written: Written, *, timestamps: bool) -> bytes:
    if not timestamps:
        return written.line
    return f"{written.at:%Y-%m-%dT%H:%M:%S.%f}000Z ".encode() + written.line
