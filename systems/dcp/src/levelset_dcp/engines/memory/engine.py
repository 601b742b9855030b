"""The in-memory container engine, for tests, demos and the explorer; it uses the time of the event loop.

```python
engine = InMemoryEngine()
engine.program("job:1", exits=3, after=5.0, prints=["hello"])
made = await engine.create_container(NewContainer(image="job:1", name="job"))
await engine.start_container(made)
engine.exit("job", 1)
```

It outlives the controllers that use it: when a test kills a controller and starts it again, the containers still exist.
External changes by a test (`exit`, `restart`, `remove`, `set_health`) are visible through events only, as with a real
engine.
"""

import asyncio
import math
import random as stdlib_random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from levelset import replace
from levelset.aio import timing
from levelset_dcp.engines.errors import EngineAlreadyExists, EngineError, EngineNotFound, EngineRefused, ObjectInUse
from levelset_dcp.engines.interface import Sink
from levelset_dcp.engines.memory.objects import FakeFile, LogLine, MemoryContainer, MemoryNetwork, Script, unpack
from levelset_dcp.engines.memory.state import EngineState, begin, check_health, finish, write
from levelset_dcp.engines.models import (
    ContainerInfo,
    EngineEvent,
    EngineStatus,
    HealthName,
    ImageBuild,
    ImageInfo,
    LogOrigin,
    NetworkInfo,
    NewContainer,
    NewExec,
    NewNetwork,
    VolumeInfo,
)

__all__ = ["InMemoryEngine"]

_KILLED: Final = 137
_NO_SUCH_COMMAND: Final = 127
_CONNECTED = EngineEvent(kind="engine", action="connected")


class InMemoryEngine:
    """An engine that simulates containers.

    IDs and ports are drawn from `random`, which has a fixed seed by default. `now` is the time of day; by default 2026
    begins when the loop's clock shows 0, as in tests in virtual time.
    """

    def __init__(
        self, *, random: stdlib_random.Random | None = None, now: Callable[[], datetime] | None = None
    ) -> None:
        self._state = EngineState(random or stdlib_random.Random(1), now)  # noqa: S311  (not for secrets)

    @property
    def name(self) -> str:
        """`memory`."""
        return "memory"

    @property
    def host_name(self) -> str:
        """The host name of this machine inside containers."""
        return "host.docker.internal"

    @property
    def default_network(self) -> str:
        """The network of containers that name none."""
        return "bridge"

    @property
    def calls(self) -> list[str]:
        """All calls in order, as `verb name` (`create_container web`)."""
        return self._state.faults.calls

    async def check_status(self, *, cached: bool = False) -> EngineStatus:  # noqa: ARG002  (the signature of Engine)
        """Healthy, unless `set_health` was called with False."""
        await asyncio.sleep(0)
        down = self._state.faults.down
        return EngineStatus(is_installed=True, is_running=down is None, version="memory", message=down or "")

    async def watch(self) -> AsyncGenerator[EngineEvent, None]:
        """The events from now on; see Engine."""
        # Unbounded: the engine must not wait for a controller, and the queue is dropped when the watch ends.
        subscriber: asyncio.Queue[EngineEvent] = asyncio.Queue()
        self._state.subscribers.add(subscriber)
        try:
            if self._state.faults.down is None:
                yield _CONNECTED
            while True:
                yield await subscriber.get()
        finally:
            self._state.subscribers.discard(subscriber)

    def program(
        self,
        name: str | Sequence[str],
        *,
        exits: int | Sequence[int] | None = None,
        after: float | None = None,
        prints: Sequence[str | tuple[float, str]] = (),
        errors: Sequence[str | tuple[float, str]] = (),
        stop_code: int = 143,
        ignores_term: bool = False,
        health: HealthName | None = None,
    ) -> None:
        """Defines what a program does; containers that run already are not affected.

        It is matched by the name of the container, its whole command, its image, or `*` for all others; for `exec` by
        the whole command or its first word. Several codes in `exits` are for the first start, the second, and so on.
        With `after` alone it exits with 0; without both it runs until it is stopped.
        """
        if exits is None:
            exits = () if after is None else 0
        self._state.scripts[name if isinstance(name, str) else tuple(name)] = Script(
            exits=(exits,) if isinstance(exits, int) else tuple(exits),
            after=after or 0.0,
            prints=tuple((0.0, line) if isinstance(line, str) else line for line in prints),
            errors=tuple((0.0, line) if isinstance(line, str) else line for line in errors),
            stop_code=stop_code,
            ignores_term=ignores_term,
            health=health,
        )

    def set_health(self, is_healthy: bool, message: str = "the engine does not run; start it") -> None:
        """Sets whether the engine is healthy. Containers continue while it is not, but events are lost."""
        was_down = self._state.faults.down is not None
        self._state.faults.down = None if is_healthy else message
        if is_healthy and was_down:
            self._state.emit("engine", "connected")

    def fail_matching(
        self,
        pattern: str,
        times: int = 1,
        message: EngineError | str = "injected failure",
        *,
        after_effect: bool = False,
    ) -> None:
        """Lets the next calls fail whose name, verb, or `verb name` matches a pattern such as `create_container web-*`.

        `message` may be the error itself. With `after_effect` the call takes effect before it fails.
        """
        self._state.faults.add(pattern, times, message, is_late=after_effect)

    def slow(self, pattern: str, seconds: float) -> None:
        """Delays calls that match (see `fail_matching`) before they take effect."""
        self._state.faults.slow(pattern, seconds)

    def without_image(self, image: str) -> None:
        """Makes an image missing, both locally and in the registry."""
        self._state.images.pop(image, None)
        self._state.missing.add(image)

    def take_port(self, port: int) -> None:
        """Marks a port of this machine as taken by another program."""
        self._state.taken.add(port)

    def exit(self, container: str, code: int = 0) -> None:
        """The program of a container exits; the restart policy applies."""
        finish(self._state, self._state.container(container), code)

    def restart(self, container: str) -> None:
        """Another client restarts a container, which may get other ports."""
        held = self._state.container(container)
        finish(self._state, held, 143, is_requested=True)
        begin(self._state, held)
        self._state.emit_container(held, "restart")

    def remove(self, container: str) -> None:
        """Another client removes a container."""
        self._drop(self._state.container(container))

    def pause(self, container: str, *, is_paused: bool = True) -> None:
        """Another client pauses or unpauses a running container."""
        held = self._state.container(container)
        if held.is_alive:
            held.status = "paused" if is_paused else "running"
            self._state.emit_container(held, "pause" if is_paused else "unpause")

    def set_native_health(self, container: str, status: HealthName, output: str = "") -> None:
        """Sets the result of the image's health check."""
        check_health(self._state, self._state.container(container), status, output)

    def print(self, container: str, text: str, *, origin: LogOrigin = "stdout") -> None:
        """The program of a container writes lines."""
        write(self._state, self._state.container(container), text, origin)

    def files(self, container: str) -> Mapping[str, FakeFile]:
        """The files that were copied into a container, by absolute path."""
        return dict(self._state.container(container).files)

    async def create_container(self, spec: NewContainer, *, out: Sink | None = None, err: Sink | None = None) -> str:  # noqa: ARG002  (the signature of Engine)
        """Creates a container; see Engine."""
        async with self._state.call("create_container", spec.name):
            state = self._state
            if spec.name and state.find_container(spec.name) is not None:
                raise EngineAlreadyExists(f"there is a container {spec.name!r} already")
            self._fetch(spec, out)
            network = state.network(spec.network or "bridge")
            made = MemoryContainer(
                id=state.new_id(),
                name=spec.name or f"made-up-{len(state.containers) + 1}-{state.random.getrandbits(24):06x}",
                spec=spec,
                script=state.script_of(spec),
                created_at=state.now(),
            )
            for mount in spec.mounts:
                if mount.type == "volume" and mount.source not in state.volumes:
                    state.volumes[mount.source] = VolumeInfo(name=mount.source, created_at=state.now())
            state.containers[made.id] = made
            state.join(network, made, spec.aliases)
            state.emit_container(made, "create", image=spec.image)
        return made.id

    async def start_container(self, container: str) -> None:
        """Starts a container; see Engine."""
        async with self._state.call("start_container", container):
            held = self._state.container(container)
            if not held.is_alive:
                held.restarts = 0
                begin(self._state, held)

    async def stop_container(self, container: str, *, grace: float = 10.0) -> None:
        """Stops a container; see Engine."""
        async with self._state.call("stop_container", container):
            state, held = self._state, self._state.container(container)
            if held.status == "restarting":
                held.drop_timers()
                held.status = "exited"
                state.emit_container(held, "stop")
            if held.is_alive:
                state.emit_container(held, "kill", signal="15")
                if held.script.ignores_term:
                    await timing.sleep(grace)
                    state.emit_container(held, "kill", signal="9")
                finish(state, held, _KILLED if held.script.ignores_term else held.script.stop_code, is_requested=True)
                state.emit_container(held, "stop")

    async def remove_container(self, container: str, *, force: bool = False) -> None:
        """Removes a container; see Engine."""
        async with self._state.call("remove_container", container):
            held = self._state.container(container)
            if held.is_alive and not force:
                raise ObjectInUse(f"container {held.name!r} runs; stop it first, or remove it with force")
            self._drop(held)

    async def inspect_container(self, container: str) -> ContainerInfo:
        """Inspects a container; see Engine."""
        async with self._state.call("inspect_container", container):
            return self._state.container(container).info()

    async def list_containers(self, *, labels: Mapping[str, str] | None = None) -> tuple[ContainerInfo, ...]:
        """All containers with these labels; see Engine."""
        async with self._state.call("list_containers", ""):
            wanted = (labels or {}).items()
            return tuple(one.info() for one in self._state.containers.values() if wanted <= one.spec.labels.items())

    async def exec(self, container: str, request: NewExec, *, out: Sink, err: Sink) -> int:
        """Runs the program of the command or its first word; by default one that exits with 0."""
        async with self._state.call("exec", container):
            state, held = self._state, self._state.container(container)
            if not held.is_alive:
                raise EngineRefused(f"container {held.name!r} does not run")
            if not request.command:
                return _NO_SUCH_COMMAND
            script = state.scripts.get(request.command) or state.scripts.get(request.command[0]) or Script(exits=(0,))
            code = await _run_inside(held, script, out, err)
            state.emit_container(held, "exec_die", execExitCode=str(code))
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
        """The output of a container; see Engine."""
        async with self._state.call("logs", container):
            held = self._state.container(container)
        count = 0
        first = True
        while True:
            changed, is_over = held.changed, not (follow and held.is_writing and held.id in self._state.containers)
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
        """Extracts an archive into `files`; see Engine."""
        async with self._state.call("copy_in", container):
            held = self._state.container(container)
            held.files.update(unpack(archive, folder))

    def terminal_command(self, container: str, *, start: bool) -> tuple[str, ...]:  # noqa: ARG002  (the signature of Engine)
        """Empty: there is no terminal."""
        return ()

    async def build(self, request: ImageBuild, *, out: Sink | None = None, err: Sink | None = None) -> ImageInfo:  # noqa: ARG002  (the signature of Engine)
        """Adds an image without reading the build context; see Engine."""
        name = request.tags[0] if request.tags else ""
        async with self._state.call("build", name):
            if not request.tags:
                raise EngineRefused(f"the image of {request.context!r} has no tag to find it by; add one")
            if out is not None:
                out.write(f"building {name} from {request.context}\n".encode())
            return self._add_image(request.tags, request.labels)

    async def pull_image(self, image: str, *, out: Sink | None = None, err: Sink | None = None) -> ImageInfo:  # noqa: ARG002  (the signature of Engine)
        """Adds an image, unless it was made missing with `without_image`; see Engine."""
        async with self._state.call("pull_image", image):
            return self._pull(image, out)

    async def inspect_image(self, image: str) -> ImageInfo:
        """Inspects an image; see Engine."""
        async with self._state.call("inspect_image", image):
            if image not in self._state.images:
                raise EngineNotFound(f"there is no image {image!r}")
            return self._state.images[image]

    async def create_network(self, spec: NewNetwork) -> NetworkInfo:
        """Creates a network; see Engine."""
        async with self._state.call("create_network", spec.name):
            if self._state.find_network(spec.name) is not None:
                raise EngineAlreadyExists(f"there is a network {spec.name!r} already")
            made = self._state.add_network(
                spec.name, "bridge", ipv6=spec.ipv6, labels=dict(spec.labels), at=self._state.now()
            )
            self._state.emit("network", "create", id=made.info.id, name=spec.name)
        return made.info

    async def inspect_network(self, network: str) -> NetworkInfo:
        """Inspects a network; see Engine."""
        async with self._state.call("inspect_network", network):
            return self._network_info(self._state.network(network))

    async def list_networks(self, *, labels: Mapping[str, str] | None = None) -> tuple[NetworkInfo, ...]:
        """All networks with these labels; see Engine."""
        async with self._state.call("list_networks", ""):
            wanted = (labels or {}).items()
            found = [one for one in self._state.networks.values() if wanted <= one.info.labels.items()]
            return tuple(self._network_info(one) for one in found)

    async def remove_network(self, network: str) -> None:
        """Removes a network; see Engine."""
        async with self._state.call("remove_network", network):
            held = self._state.network(network)
            if held.is_built_in:
                raise EngineRefused(f"the network {network!r} is built in and cannot be removed")
            members = self._state.members(held)
            if members:
                names = ", ".join(one.name for one in members)
                raise ObjectInUse(f"network {held.info.name!r} has containers in it: {names}; disconnect them first")
            del self._state.networks[held.info.id]
            self._state.emit("network", "destroy", id=held.info.id, name=held.info.name)

    async def connect(self, network: str, container: str, *, aliases: tuple[str, ...] = ()) -> None:
        """Connects a container to a network; see Engine."""
        async with self._state.call("connect", container):
            held, into = self._state.container(container), self._state.network(network)
            if into.info.id in held.networks:
                raise EngineAlreadyExists(f"container {held.name!r} is in the network {into.info.name!r} already")
            self._state.join(into, held, aliases)

    async def disconnect(self, network: str, container: str, *, force: bool = False) -> None:  # noqa: ARG002  (the signature of Engine)
        """Disconnects a container from a network; see Engine."""
        async with self._state.call("disconnect", container):
            held, out_of = self._state.container(container), self._state.network(network)
            if held.networks.pop(out_of.info.id, None) is None:
                raise EngineNotFound(f"container {held.name!r} is not in the network {out_of.info.name!r}")
            self._state.emit("network", "disconnect", id=out_of.info.id, name=out_of.info.name, container=held.id)

    async def create_volume(self, name: str, *, labels: Mapping[str, str] | None = None) -> VolumeInfo:
        """Creates a volume; see Engine."""
        async with self._state.call("create_volume", name):
            made = VolumeInfo(name=name, labels=dict(labels or {}), created_at=self._state.now())
            return self._state.volumes.setdefault(name, made)

    async def inspect_volume(self, name: str) -> VolumeInfo:
        """Inspects a volume; see Engine."""
        async with self._state.call("inspect_volume", name):
            if name not in self._state.volumes:
                raise EngineNotFound(f"there is no volume {name!r}")
            return self._state.volumes[name]

    async def list_volumes(self, *, labels: Mapping[str, str] | None = None) -> tuple[VolumeInfo, ...]:
        """All volumes with these labels; see Engine."""
        async with self._state.call("list_volumes", ""):
            wanted = (labels or {}).items()
            return tuple(one for one in self._state.volumes.values() if wanted <= one.labels.items())

    async def remove_volume(self, name: str) -> None:
        """Removes a volume; see Engine."""
        async with self._state.call("remove_volume", name):
            if name not in self._state.volumes:
                raise EngineNotFound(f"there is no volume {name!r}")
            users = [
                one.name
                for one in self._state.containers.values()
                if any(mount.type == "volume" and mount.source == name for mount in one.spec.mounts)
            ]
            if users:
                raise ObjectInUse(f"volume {name!r} is used by {', '.join(users)}; remove them first")
            del self._state.volumes[name]

    def _fetch(self, spec: NewContainer, out: Sink | None) -> None:
        if spec.pull_policy == "always" or spec.image not in self._state.images:
            if spec.pull_policy == "never":
                raise EngineNotFound(f"there is no local image {spec.image!r}, and the pull policy is never")
            self._pull(spec.image, out)

    def _drop(self, held: MemoryContainer) -> None:
        finish(self._state, held, _KILLED, is_requested=True)
        held.drop_timers()
        held.spec = replace(held.spec, restart_policy="")
        self._state.containers.pop(held.id, None)
        self._state.emit_container(held, "destroy")

    def _pull(self, image: str, out: Sink | None) -> ImageInfo:
        if image in self._state.missing:
            raise EngineNotFound(f"there is no image {image!r}, neither locally nor in the registry")
        if out is not None:
            out.write(f"pulling {image}\n".encode())
        found = self._state.images.get(image)
        return found if found is not None else self._add_image((image,), {})

    def _add_image(self, tags: tuple[str, ...], labels: Mapping[str, str]) -> ImageInfo:
        made = ImageInfo(
            id=f"sha256:{self._state.new_id()}", tags=tags, labels=dict(labels), created_at=self._state.now()
        )
        self._state.images.update(dict.fromkeys((*tags, made.id), made))
        return made

    def _network_info(self, held: MemoryNetwork) -> NetworkInfo:
        return replace(held.info, container_ids=tuple(one.id for one in self._state.members(held)))


async def _run_inside(held: MemoryContainer, script: Script, out: Sink, err: Sink) -> int:
    """Runs a command inside a container; it is killed when the container exits."""
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


async def _lives_until(held: MemoryContainer, when: float) -> bool:
    """Waits until a time, or until the container exits; returns whether it still runs."""
    while held.is_alive and timing.now() < when:
        try:
            async with timing.until(None if when == math.inf else when):
                await held.changed.wait()
        except TimeoutError:
            break
    return held.is_alive


def _show(written: LogLine, *, timestamps: bool) -> bytes:
    if not timestamps:
        return written.line
    return f"{written.at:%Y-%m-%dT%H:%M:%S.%f}000Z ".encode() + written.line
