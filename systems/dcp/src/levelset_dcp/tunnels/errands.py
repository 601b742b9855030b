"""The slow work of tunnel proxies: starts the side inside of the network, opens and closes tunnels, and ends all."""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from levelset.aio import timing
from levelset_dcp.containers.engine_calls import find_container, stop_and_remove, wait_started
from levelset_dcp.containers.files import Member, archive_of
from levelset_dcp.containers.labels import labels_of, uid_of
from levelset_dcp.containers.world import Containers
from levelset_dcp.engines.errors import EngineAlreadyExists, EngineError, RuntimeNotHealthy
from levelset_dcp.engines.interface import Engine
from levelset_dcp.engines.models import ContainerInfo, NewContainer, PortBinding
from levelset_dcp.kinds import ContainerNetworkTunnelProxy
from levelset_dcp.tunnels import client
from levelset_dcp.tunnels.plan import ATTEMPTS, Change, Hole, Moves, Target, TunnelKnown, broken, started, waits
from levelset_dcp.tunnels.relay import Relay, RelayFailed

__all__ = ["AGAIN", "CONTROL_PORT", "DATA_PORT", "IMAGE", "TunnelErrands", "container_name"]

AGAIN: Final = 5.0
CONTROL_PORT: Final = 15049
DATA_PORT: Final = 15050
IMAGE: Final = "docker.io/library/python:3.13-alpine"
"""The image that the side inside runs in; any with a python3 will do."""

_SCRIPT: Final = "/levelset/tunnel.py"
_TOKEN: Final = "LEVELSET_TUNNEL_TOKEN"  # noqa: S105 - the name of a variable


def container_name(proxy: ContainerNetworkTunnelProxy) -> str:
    """What the engine calls the side inside: the same each time, so that it is found again."""
    return f"{proxy.name[:200]}-{proxy.metadata.uid[:8]}-tunnel"


class TunnelErrands:
    """Asks the engine and the relay; each answer is a change of what is known."""

    def __init__(self, world: Containers, relay: Relay) -> None:
        self._world = world
        self._relay = relay

    async def start(
        self,
        proxy: ContainerNetworkTunnelProxy,
        network_id: str,
        follow: Callable[[str], None],
        lost: Callable[[str], None],
    ) -> Change:
        """Starts the side inside, or finds it, and connects to it."""
        try:
            engine = await self._world.healthy_engine()
            info = await self._run(proxy, network_id, engine, follow)
            ports = tuple(_published(info, one) for one in (CONTROL_PORT, DATA_PORT))
            if not info.is_running or not all(ports):
                return broken(f"the side inside of the network does not run: {info.error or info.status}")
            token = info.env.get(_TOKEN, "")
            await self._relay.connect(proxy.metadata.uid, control=ports[0], data=ports[1], token=token, lost=lost)
        except RuntimeNotHealthy as error:
            return waits(str(error), timing.now() + AGAIN)
        except (EngineError, RelayFailed) as error:
            return broken(str(error))
        address = proxy.spec.aliases[0] if proxy.spec.aliases else info.name
        at = info.started_at or self._world.now()
        return started(info.id, info.image, address, (ports[0], ports[1]), at)

    async def move(self, key: str, moves: Moves) -> Change:
        """Opens and closes tunnels."""
        holes: dict[str, Hole | None] = {}
        for name, (hole, why) in moves.close.items():
            await self._relay.close(key, hole.number)
            closed = replace(hole, state="NotReady", error=why, target=None, tries=0, at=self._world.now())
            holes[name] = closed if why else None
        for name, (hole, target) in moves.open.items():
            holes[name] = await self._open(key, hole, target)
        again = timing.now() + AGAIN if any(one and _is_trying(one) for one in holes.values()) else 0.0

        def change(known: TunnelKnown) -> TunnelKnown | None:
            if known.state != "Running":
                return None
            merged = {**known.holes, **{name: one for name, one in holes.items() if one is not None}}
            kept = {name: one for name, one in merged.items() if holes.get(name, one) is not None}
            return replace(known, holes=kept, version=known.version + 1, again_at=again)

        return change

    async def end(self, proxy: ContainerNetworkTunnelProxy, container_id: str) -> Change:
        """Ends both sides; fine if they are gone."""
        await self._relay.disconnect(proxy.metadata.uid)
        try:
            engine = await self._world.healthy_engine()
            found = await find_container(engine, container_id or container_name(proxy))
            if found is not None and uid_of(found.labels) == proxy.metadata.uid:
                await stop_and_remove(engine, found.id, grace=0.0)
        except EngineError as error:
            again = timing.now() + AGAIN
            words = str(error)
            return lambda known: replace(known, message=known.message or words, again_at=again)
        return lambda known: replace(known, is_removed=True, again_at=0.0)

    async def _open(self, key: str, hole: Hole, target: Target) -> Hole:
        """Opens a tunnel: at the port that it had, that of its service, or any other one."""
        now, tries = self._world.now(), hole.tries + 1
        trouble = ""
        for port in dict.fromkeys((hole.port or target[1], 0)):
            try:
                found = await self._relay.open(key, hole.number, port=port, target=target)
            except RelayFailed as error:
                trouble = str(error)
                continue
            return replace(hole, state="Ready", error="", port=found, target=target, tries=tries, at=now)
        is_over = tries >= ATTEMPTS
        return replace(
            hole,
            state="Failed" if is_over else "NotReady",
            error=trouble,
            target=target,
            tries=tries,
            at=hole.at or now,
        )

    async def _run(
        self, proxy: ContainerNetworkTunnelProxy, network_id: str, engine: Engine, follow: Callable[[str], None]
    ) -> ContainerInfo:
        name = container_name(proxy)
        try:
            made = await engine.create_container(self._wanted(proxy, name, network_id))
        except EngineAlreadyExists:
            found = await find_container(engine, name)
            if found is None or uid_of(found.labels) != proxy.metadata.uid:
                raise
            if found.status != "created":
                follow(found.id)
                return found
            made = found.id
        follow(made)
        script = await asyncio.to_thread(Path(client.__file__).read_bytes)
        members = [
            Member(path=_SCRIPT.rpartition("/")[0], mode=0o755, is_folder=True),
            Member(path=_SCRIPT, content=script, mode=0o644),
        ]
        await engine.copy_in(made, "/", archive_of(members, at=self._world.now().timestamp()))
        await engine.start_container(made)
        return await wait_started(engine, made)

    def _wanted(self, proxy: ContainerNetworkTunnelProxy, name: str, network_id: str) -> NewContainer:
        return NewContainer(
            image=proxy.spec.base_image or IMAGE,
            name=name,
            command="python3",
            args=(_SCRIPT, str(CONTROL_PORT), str(DATA_PORT)),
            env={_TOKEN: secrets.token_hex(16)},
            labels=labels_of(proxy, self._world.creator, lasts=False),
            ports=(PortBinding(container_port=CONTROL_PORT), PortBinding(container_port=DATA_PORT)),
            network=network_id,
            aliases=proxy.spec.aliases,
        )


def _published(info: ContainerInfo, port: int) -> int:
    return next((one.host_port for one in info.ports if one.container_port == port), 0)


def _is_trying(hole: Hole) -> bool:
    return hole.state == "NotReady" and hole.target is not None and hole.tries < ATTEMPTS
