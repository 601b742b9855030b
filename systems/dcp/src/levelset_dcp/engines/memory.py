"""A container engine that runs nothing: for tests, demos and the explorer; time is that of the event loop.

```python
engine = InMemoryEngine()
engine.program("job:1", exits=3, after=5.0, prints=["hello"])
made = await engine.create_container(NewContainer(image="job:1", name="job"))
await engine.start_container(made)
engine.exit("job", 1)
```

It stands for the engine and not for the program that uses it: when a controller is killed in a test and started again,
the containers are still there. What a test does behind everybody's back (`exit`, `restart`, `remove`, `set_health`)
is heard of by events alone, as with a real engine.
"""

import asyncio
import random as stdlib_random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime

from levelset_dcp.engines.errors import EngineError
from levelset_dcp.engines.memory_containers import MemoryContainers
from levelset_dcp.engines.memory_objects import PretendFile, Script
from levelset_dcp.engines.memory_running import begin, check_health, finish, write
from levelset_dcp.engines.memory_world import World
from levelset_dcp.engines.models import EngineEvent, EngineStatus, HealthName, LogOrigin

__all__ = ["InMemoryEngine"]

_CONNECTED = EngineEvent(kind="engine", action="connected")


class InMemoryEngine(MemoryContainers):
    """Pretends to run containers.

    IDs and ports are drawn from `random`, which is the same each time unless given. `now` is the time of day; by
    default 2026 begins when the loop's clock shows 0, as in tests in virtual time.
    """

    def __init__(
        self, *, random: stdlib_random.Random | None = None, now: Callable[[], datetime] | None = None
    ) -> None:
        self._world = World(random or stdlib_random.Random(1), now)  # noqa: S311  (nothing here is secret)

    @property
    def name(self) -> str:
        """`memory`."""
        return "memory"

    @property
    def host_name(self) -> str:
        """The name by which containers reach this machine."""
        return "host.docker.internal"

    @property
    def default_network(self) -> str:
        """The network that a container is in unless it was told another."""
        return "bridge"

    @property
    def calls(self) -> list[str]:
        """All that was asked, as `verb name` (`create_container web`), in this order."""
        return self._world.faults.calls

    async def check_status(self, *, cached: bool = False) -> EngineStatus:  # noqa: ARG002  (the words of Engine)
        """Healthy, unless `set_health` has said otherwise."""
        await asyncio.sleep(0)
        down = self._world.faults.down
        return EngineStatus(is_installed=True, is_running=down is None, version="memory", message=down or "")

    async def watch(self) -> AsyncGenerator[EngineEvent, None]:
        """What happens from now on; see Engine."""
        # Without a bound: nothing here may wait for a controller, and who stops watching is forgotten at once.
        hearer: asyncio.Queue[EngineEvent] = asyncio.Queue()
        self._world.hearers.add(hearer)
        try:
            if self._world.faults.down is None:
                yield _CONNECTED
            while True:
                yield await hearer.get()
        finally:
            self._world.hearers.discard(hearer)

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
        """Says what a program does; what runs already goes on as it was told.

        It is found by the name of the container, its whole command, its image, or `*` for all others; for `exec` by
        the whole command or its first word. Several codes in `exits` are for the first start, the second, and so on.
        With `after` alone it exits with 0 then; without both it runs until it is stopped.
        """
        if exits is None:
            exits = () if after is None else 0
        self._world.scripts[name if isinstance(name, str) else tuple(name)] = Script(
            exits=(exits,) if isinstance(exits, int) else tuple(exits),
            after=after or 0.0,
            prints=tuple((0.0, line) if isinstance(line, str) else line for line in prints),
            errors=tuple((0.0, line) if isinstance(line, str) else line for line in errors),
            stop_code=stop_code,
            ignores_term=ignores_term,
            health=health,
        )

    def set_health(self, is_healthy: bool, message: str = "the engine does not run; start it") -> None:
        """Says whether the engine answers. Containers go on meanwhile, but nobody hears of it."""
        was_down = self._world.faults.down is not None
        self._world.faults.down = None if is_healthy else message
        if is_healthy and was_down:
            self._world.tell("engine", "connected")

    def fail_matching(
        self, pattern: str, times: int = 1, message: EngineError | str = "told to fail", *, after_effect: bool = False
    ) -> None:
        """Lets the next calls fail whose name, verb, or `verb name` matches a pattern such as `create_container web-*`.

        `message` may be the error itself. With `after_effect` what was asked is done, and the caller hears of an error.
        """
        self._world.faults.add(pattern, times, message, is_late=after_effect)

    def slow(self, pattern: str, seconds: float) -> None:
        """Lets calls that match (see `fail_matching`) take so long before they do something."""
        self._world.faults.slow(pattern, seconds)

    def without_image(self, image: str) -> None:
        """Says that there is no such image, neither here nor elsewhere."""
        self._world.images.pop(image, None)
        self._world.missing.add(image)

    def take_port(self, port: int) -> None:
        """Says that another program has a port of this machine."""
        self._world.taken.add(port)

    def exit(self, container: str, code: int = 0) -> None:
        """Ends the program of a container by itself; its restart policy applies."""
        finish(self._world, self._world.container(container), code)

    def restart(self, container: str) -> None:
        """Somebody else starts a container again, ending it before if it runs; ports may be others then."""
        held = self._world.container(container)
        finish(self._world, held, 143, is_asked=True)
        begin(self._world, held)
        self._world.tell_of(held, "restart")

    def remove(self, container: str) -> None:
        """Somebody else removes a container."""
        self._drop(self._world.container(container))

    def pause(self, container: str, *, is_paused: bool = True) -> None:
        """Somebody else pauses a container that runs, or lets it go on."""
        held = self._world.container(container)
        if held.is_alive:
            held.status = "paused" if is_paused else "running"
            self._world.tell_of(held, "pause" if is_paused else "unpause")

    def set_native_health(self, container: str, status: HealthName, output: str = "") -> None:
        """The health check of the image finds a container `starting`, `healthy` or `unhealthy`."""
        check_health(self._world, self._world.container(container), status, output)

    def print(self, container: str, text: str, *, origin: LogOrigin = "stdout") -> None:
        """The program of a container writes lines."""
        write(self._world, self._world.container(container), text, origin)

    def files(self, container: str) -> Mapping[str, PretendFile]:
        """What was copied into a container, by absolute paths."""
        return dict(self._world.container(container).files)
