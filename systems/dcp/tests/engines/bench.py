"""The test bench of the conformance checks: programs to run, waits for states, and access to files."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from levelset_dcp.engines import (
    ContainerInfo,
    ContainerStatusName,
    Engine,
    EngineEvent,
    EngineNotFound,
    InMemoryEngine,
    NewContainer,
    NewExec,
)

__all__ = ["FAILS", "IDLE", "MISSING", "SLOW", "STUBBORN", "TALKS", "Bench", "EventRecorder", "Lines", "MemoryBench"]

IDLE = ("sh", "-c", "trap 'exit 143' TERM; sleep 100 & wait")
STUBBORN = ("sh", "-c", "trap '' TERM; sleep 100 & wait; sleep 100")
TALKS = ("sh", "-c", "echo one; echo two >&2; sleep 0.3; echo three; exit 3")
SLOW = ("sh", "-c", "echo inside; echo outside >&2; sleep 0.2; exit 7")
FAILS = ("sh", "-c", "exit 9")
MISSING = "levelset-no-such-thing"
T = TypeVar("T")


class Lines:
    """A sink that retains the output."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data


class EventRecorder:
    """Records engine events."""

    def __init__(self) -> None:
        self.events: list[EngineEvent] = []

    def actions(self, key: str) -> list[str]:
        return [one.action for one in self.events if one.id == key]


class Bench:
    """An engine, with unique names for the objects of a check."""

    image = "localhost/levelset-bench:1"
    seconds = 15.0

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.prefix = f"levelset-{uuid.uuid4().hex[:8]}"

    def name(self, word: str) -> str:
        return f"{self.prefix}-{word}"

    def spec(self, word: str, args: tuple[str, ...] = IDLE, **more) -> NewContainer:
        return NewContainer(
            image=self.image, name=self.name(word), args=args, pull_policy=more.pop("pull_policy", "never"), **more
        )

    async def prepare(self) -> None:
        """Makes sure that the image exists."""
        await self.engine.inspect_image(self.image)

    async def started(self, word: str, args: tuple[str, ...] = IDLE, **more) -> str:
        made = await self.engine.create_container(self.spec(word, args, **more))
        await self.engine.start_container(made)
        return made

    async def reach(self, container: str, status: ContainerStatusName) -> ContainerInfo:
        """Waits until a container has a status."""
        return await self.eventually(lambda: self.engine.inspect_container(container), lambda one: one.status == status)

    async def eventually(self, read: Callable[[], Awaitable[T]], holds: Callable[[T], bool]) -> T:
        seen: T | None = None
        try:
            async with asyncio.timeout(self.seconds):
                while True:
                    seen = await read()
                    if holds(seen):
                        return seen
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"still {seen!r} after {self.seconds:g} s") from None

    @asynccontextmanager
    async def recording_events(self) -> AsyncIterator[EventRecorder]:
        recorder = EventRecorder()

        async def listen() -> None:
            async for event in self.engine.watch():
                recorder.events.append(event)

        task = asyncio.create_task(listen())
        try:
            await self.wait_for_events(recorder, lambda events: any(one.action == "connected" for one in events))
            yield recorder
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def wait_for_events(self, recorder: EventRecorder, holds: Callable[[list[EngineEvent]], bool]) -> None:
        async def read() -> list[EngineEvent]:
            return recorder.events

        await self.eventually(read, holds)

    async def read_file(self, container: str, path: str) -> bytes:
        out, err = Lines(), Lines()
        assert await self.engine.exec(container, NewExec(command=("cat", path)), out=out, err=err) == 0, err.data
        return out.data

    async def clean(self) -> None:
        """Removes the objects of a check."""
        for one in await self.engine.list_containers():
            if one.name.startswith(self.prefix):
                await self.engine.remove_container(one.id, force=True)
        for network in await self.engine.list_networks():
            if network.name.startswith(self.prefix):
                await self.engine.remove_network(network.id)
        with suppress(EngineNotFound):
            await self.engine.remove_volume(self.name("data"))


class MemoryBench(Bench):
    """The in-memory engine, with scripts for the programs of the checks."""

    def __init__(self) -> None:
        self.memory = InMemoryEngine()
        super().__init__(self.memory)
        self.prefix = "levelset-memory"
        self.memory.program(STUBBORN, ignores_term=True)
        self.memory.program(TALKS, prints=["one", (0.3, "three")], errors=["two"], exits=3, after=0.3)
        self.memory.program(SLOW, prints=["inside"], errors=["outside"], exits=7, after=0.2)
        self.memory.program(FAILS, exits=9, after=0.01)
        self.memory.program((MISSING,), exits=127, errors=["not found"])
        self.memory.without_image(f"localhost/{MISSING}:1")

    async def prepare(self) -> None:
        await self.engine.pull_image(self.image)

    async def read_file(self, container: str, path: str) -> bytes:
        return self.memory.files(container)[path].content
