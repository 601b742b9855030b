"""The state of the in-memory engine, and how its containers run."""

import asyncio
import random as stdlib_random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from levelset.aio import timing
from levelset_dcp.engines.errors import CouldNotAllocate, EngineNotFound
from levelset_dcp.engines.memory.faults import Faults
from levelset_dcp.engines.memory.objects import LogLine, MemoryContainer, MemoryNetwork, Script
from levelset_dcp.engines.models import (
    Attachment,
    EngineEvent,
    EngineHealth,
    EventKind,
    HealthName,
    ImageInfo,
    LogOrigin,
    NetworkInfo,
    NewContainer,
    PortBinding,
    VolumeInfo,
)

__all__ = ["EngineState", "begin", "check_health", "finish", "write"]

_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
_PORTS: Final = range(40001, 50001)
_BUILT_IN: Final = {"bridge": "bridge", "host": "host", "none": "null"}
_EVERYTHING: Final = "*"


class EngineState:
    """All objects of the engine, its subscribers and its faults."""

    def __init__(self, random: stdlib_random.Random, now: Callable[[], datetime] | None) -> None:
        self.random = random
        self.now = now or _virtual_now
        self.faults = Faults()
        self.containers: dict[str, MemoryContainer] = {}
        self.networks: dict[str, MemoryNetwork] = {}
        self.volumes: dict[str, VolumeInfo] = {}
        self.images: dict[str, ImageInfo] = {}
        self.scripts: dict[str | tuple[str, ...], Script] = {}
        self.taken: set[int] = set()
        self.missing: set[str] = set()
        self.subscribers: set[asyncio.Queue[EngineEvent]] = set()
        for name, driver in _BUILT_IN.items():
            self.add_network(name, driver, is_built_in=True)

    @asynccontextmanager
    async def call(self, verb: str, name: str) -> AsyncGenerator[None, None]:
        """Wraps one call: other tasks may run before and after its effect, and it may fail at either time."""
        held = self.find_container(name)
        shown = name if held is None else held.name
        await self.faults.enter(verb, shown)
        yield
        await self.faults.leave(verb, shown)

    def emit(self, kind: EventKind, action: str, *, id: str = "", name: str = "", **more: str) -> None:  # noqa: A002
        """Sends an event to all subscribers, unless the engine is down."""
        if self.faults.down is not None:
            return
        code = more.get("exitCode")
        event = EngineEvent(
            kind=kind,
            action=action,
            id=id,
            name=name,
            container=id if kind == "container" else more.get("container", ""),
            exit_code=None if code is None else int(code),
            attributes=more,
            at=self.now(),
        )
        for subscriber in self.subscribers:
            subscriber.put_nowait(event)

    def emit_container(self, held: MemoryContainer, action: str, **more: str) -> None:
        """Sends an event of a container, and wakes the readers of its log."""
        self.emit("container", action, id=held.id, name=held.name, **more)
        held.wake()

    def find_container(self, ref: str) -> MemoryContainer | None:
        """A container by its ID, a prefix of it, or its name."""
        if ref in self.containers:
            return self.containers[ref]
        near = [one for one in self.containers.values() if one.name == ref]
        if not near and len(ref) >= 12:
            near = [one for key, one in self.containers.items() if key.startswith(ref)]
        return near[0] if len(near) == 1 else None

    def container(self, ref: str) -> MemoryContainer:
        """A container; raises EngineNotFound."""
        found = self.find_container(ref)
        if found is None:
            raise EngineNotFound(f"there is no container {ref!r}")
        return found

    def find_network(self, ref: str) -> MemoryNetwork | None:
        """A network by its ID or its name."""
        return next((one for one in self.networks.values() if ref in (one.info.id, one.info.name)), None)

    def network(self, ref: str) -> MemoryNetwork:
        """A network; raises EngineNotFound."""
        found = self.find_network(ref)
        if found is None:
            raise EngineNotFound(f"there is no network {ref!r}")
        return found

    def members(self, network: MemoryNetwork) -> list[MemoryContainer]:
        """The containers that are connected to a network."""
        return [one for one in self.containers.values() if network.info.id in one.networks]

    def add_network(
        self,
        name: str,
        driver: str,
        *,
        ipv6: bool = False,
        labels: dict[str, str] | None = None,
        is_built_in: bool = False,
        at: datetime | None = None,
    ) -> MemoryNetwork:
        """Adds a network with its own subnet."""
        number = 17 + len(self.networks)
        subnets = (f"172.{number}.0.0/16", *((f"fd00:{number:x}::/64",) if ipv6 else ()))
        gateways = (f"172.{number}.0.1", *((f"fd00:{number:x}::1",) if ipv6 else ()))
        info = NetworkInfo(
            id=self.new_id(),
            name=name,
            driver=driver,
            ipv6=ipv6,
            subnets=subnets if driver == "bridge" else (),
            gateways=gateways if driver == "bridge" else (),
            labels=labels or {},
            created_at=at,
        )
        held = self.networks[info.id] = MemoryNetwork(info=info, is_built_in=is_built_in)
        return held

    def join(self, network: MemoryNetwork, held: MemoryContainer, aliases: tuple[str, ...]) -> None:
        """Connects a container to a network, with the next free address."""
        info = network.info
        network.addresses += 1
        gateway = info.gateways[0] if info.gateways else ""
        held.networks[info.id] = Attachment(
            network=info.name,
            network_id=info.id,
            aliases=aliases,
            address=f"{gateway.rsplit('.', 1)[0]}.{network.addresses}" if gateway else "",
            gateway=gateway,
        )
        self.emit("network", "connect", id=info.id, name=info.name, container=held.id)

    def new_id(self) -> str:
        """A new unique ID."""
        return f"{self.random.getrandbits(256):064x}"

    def script_of(self, spec: NewContainer) -> Script:
        """The script of a container: by its name, its whole command, its image, or `*`."""
        command = (*((spec.command,) if spec.command else ()), *spec.args)
        for key in (spec.name, command, spec.image, _EVERYTHING):
            if key in self.scripts:
                return self.scripts[key]
        return Script()

    def publish(self, held: MemoryContainer) -> tuple[PortBinding, ...]:
        """Allocates the published ports of a container; raises CouldNotAllocate if one is taken."""
        used = {port.host_port for one in self.containers.values() for port in one.ports} | self.taken
        found: list[PortBinding] = []
        for wanted in held.spec.ports:
            port = wanted.host_port
            if port in used:
                raise CouldNotAllocate(f"container {held.name!r}: port {port} of this machine is taken")
            while port == 0 or port in used:
                port = self.random.choice(_PORTS)
            used.add(port)
            found.append(
                PortBinding(
                    container_port=wanted.container_port,
                    host_port=port,
                    protocol=wanted.protocol,
                    host_ip=wanted.host_ip,
                )
            )
        return tuple(found)


def _virtual_now() -> datetime:
    return _START + timedelta(seconds=timing.now())


def begin(state: EngineState, held: MemoryContainer) -> None:
    """Starts the program of a container; raises CouldNotAllocate if a port is taken."""
    held.ports = state.publish(held)
    held.status, held.started_at, held.exit_code = "running", state.now(), None
    start, held.starts = held.starts, held.starts + 1
    held.drop_timers()
    state.emit_container(held, "start")
    script = held.script
    loop = asyncio.get_running_loop()
    lines: list[tuple[float, LogOrigin, str]] = []
    lines.extend((delay, "stdout", line) for delay, line in script.prints)
    lines.extend((delay, "stderr", line) for delay, line in script.errors)
    for delay, origin, line in lines:
        if delay > 0:
            held.timers.append(loop.call_later(delay, write, state, held, line, origin))
        else:
            write(state, held, line, origin)
    if script.health is not None:
        check_health(state, held, script.health)
    code = script.code(start)
    if code is not None:
        held.timers.append(loop.call_later(script.after, finish, state, held, code))


def write(state: EngineState, held: MemoryContainer, text: str, origin: LogOrigin = "stdout") -> None:
    """The program prints lines."""
    for line in text.removesuffix("\n").split("\n"):
        held.log.append(LogLine(state.now(), origin, line.encode() + b"\n"))
    held.wake()


def finish(state: EngineState, held: MemoryContainer, code: int, *, is_requested: bool = False) -> None:
    """The program exits; the restart policy applies unless a client has stopped it (`is_requested`)."""
    if not held.is_alive:
        return
    held.drop_timers()
    held.ports = ()
    held.status, held.exit_code, held.finished_at = "exited", code, state.now()
    again = not is_requested and _is_started_again(held, code)
    if again:
        held.status = "restarting"
        wait = min(60.0, 0.1 * 2**held.restarts)
        held.restarts += 1
        held.timers.append(asyncio.get_running_loop().call_later(wait, _begin_again, state, held))
    state.emit_container(held, "die", exitCode=str(code))


def check_health(state: EngineState, held: MemoryContainer, status: HealthName, output: str = "") -> None:
    """Sets the result of the image's health check."""
    held.health = EngineHealth(status=status, output=output, at=state.now())
    state.emit_container(held, "health_status", health=status)


def _is_started_again(held: MemoryContainer, code: int) -> bool:
    policy = held.spec.restart_policy
    return policy in ("always", "unless-stopped") or (policy == "on-failure" and code != 0)


def _begin_again(state: EngineState, held: MemoryContainer) -> None:
    if held.status == "restarting" and held.id in state.containers:
        begin(state, held)
