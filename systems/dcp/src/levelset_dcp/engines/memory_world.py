"""The state of the pretended engine: finds things in it, hands out addresses and ports, and tells what happens."""

import asyncio
import random as stdlib_random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

from levelset.aio import timing
from levelset_dcp.engines.errors import CouldNotAllocate, EngineNotFound
from levelset_dcp.engines.memory_faults import Faults
from levelset_dcp.engines.memory_objects import HeldContainer, HeldNetwork, Script
from levelset_dcp.engines.models import (
    Attachment,
    EngineEvent,
    EventKind,
    ImageInfo,
    NetworkInfo,
    NewContainer,
    PortBinding,
    VolumeInfo,
)

__all__ = ["World"]

_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
_PORTS: Final = range(40001, 50001)
_BUILT_IN: Final = {"bridge": "bridge", "host": "host", "none": "null"}
_EVERYTHING: Final = "*"


class World:
    """All that the engine has; it outlives the controllers that ask for it."""

    def __init__(self, random: stdlib_random.Random, now: Callable[[], datetime] | None) -> None:
        self.random = random
        self.now = now or _virtual_now
        self.faults = Faults()
        self.containers: dict[str, HeldContainer] = {}
        self.networks: dict[str, HeldNetwork] = {}
        self.volumes: dict[str, VolumeInfo] = {}
        self.images: dict[str, ImageInfo] = {}
        self.scripts: dict[str | tuple[str, ...], Script] = {}
        self.taken: set[int] = set()
        self.missing: set[str] = set()
        self.hearers: set[asyncio.Queue[EngineEvent]] = set()
        for name, driver in _BUILT_IN.items():
            self.add_network(name, driver, is_built_in=True)

    @asynccontextmanager
    async def call(self, verb: str, name: str) -> AsyncGenerator[None, None]:
        """Around one call: others may act before its effect and after it, and it may fail at either time."""
        held = self.find_container(name)
        shown = name if held is None else held.name
        await self.faults.enter(verb, shown)
        yield
        await self.faults.leave(verb, shown)

    def tell(self, kind: EventKind, action: str, *, id: str = "", name: str = "", **more: str) -> None:  # noqa: A002
        """Lets everybody hear of something who watches, unless the engine is down."""
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
        for hearer in self.hearers:
            hearer.put_nowait(event)

    def tell_of(self, held: HeldContainer, action: str, **more: str) -> None:
        """Lets everybody hear what has happened to a container, and wakes those who follow it."""
        self.tell("container", action, id=held.id, name=held.name, **more)
        held.wake()

    def find_container(self, ref: str) -> HeldContainer | None:
        """A container by its ID, the beginning of that, or its name."""
        if ref in self.containers:
            return self.containers[ref]
        near = [one for one in self.containers.values() if one.name == ref]
        if not near and len(ref) >= 12:
            near = [one for key, one in self.containers.items() if key.startswith(ref)]
        return near[0] if len(near) == 1 else None

    def container(self, ref: str) -> HeldContainer:
        """A container; raises EngineNotFound."""
        found = self.find_container(ref)
        if found is None:
            raise EngineNotFound(f"there is no container {ref!r}")
        return found

    def find_network(self, ref: str) -> HeldNetwork | None:
        """A network by its ID or its name."""
        return next((one for one in self.networks.values() if ref in (one.info.id, one.info.name)), None)

    def network(self, ref: str) -> HeldNetwork:
        """A network; raises EngineNotFound."""
        found = self.find_network(ref)
        if found is None:
            raise EngineNotFound(f"there is no network {ref!r}")
        return found

    def members(self, network: HeldNetwork) -> list[HeldContainer]:
        """The containers that are in a network."""
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
    ) -> HeldNetwork:
        """Makes a network with addresses of its own."""
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
        held = self.networks[info.id] = HeldNetwork(info=info, is_built_in=is_built_in)
        return held

    def join(self, network: HeldNetwork, held: HeldContainer, aliases: tuple[str, ...]) -> None:
        """Puts a container into a network, under the next address there."""
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
        self.tell("network", "connect", id=info.id, name=info.name, container=held.id)

    def new_id(self) -> str:
        """Something that nothing else is called."""
        return f"{self.random.getrandbits(256):064x}"

    def script_of(self, spec: NewContainer) -> Script:
        """What a container does: told by its name, by its whole command, by its image, or for all of them."""
        command = (*((spec.command,) if spec.command else ()), *spec.args)
        for key in (spec.name, command, spec.image, _EVERYTHING):
            if key in self.scripts:
                return self.scripts[key]
        return Script()

    def publish(self, held: HeldContainer) -> tuple[PortBinding, ...]:
        """Ports of this machine for a container that starts; raises CouldNotAllocate if one is taken."""
        used = {port.host_port for one in self.containers.values() for port in one.ports} | self.taken
        found: list[PortBinding] = []
        for wanted in held.spec.ports:
            port = wanted.host_port
            if port in used:
                raise CouldNotAllocate(f"container {held.name!r}: port {port} of this machine is taken by another one")
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
