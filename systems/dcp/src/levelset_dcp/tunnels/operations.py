"""The background operations of tunnel proxies: start the client proxy, open and close tunnels, and shut down."""

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

from levelset import replace
from levelset.aio import timing
from levelset_dcp.containers.file_archive import Member, archive_of
from levelset_dcp.containers.host import ContainerHost
from levelset_dcp.engines.errors import (
    EngineAlreadyExists,
    EngineError,
    RuntimeNotHealthy,
    most_likely_created_nothing,
)
from levelset_dcp.engines.interface import Engine
from levelset_dcp.engines.models import ContainerInfo, NewContainer, PortBinding
from levelset_dcp.engines.retries import find_container, stop_and_remove, wait_started
from levelset_dcp.kinds import ContainerNetworkTunnelProxy
from levelset_dcp.names import labels_of, uid_of
from levelset_dcp.tunnels import client_proxy as client
from levelset_dcp.tunnels.relay import Relay, RelayFailed
from levelset_dcp.tunnels.state import (
    ATTEMPTS,
    Change,
    ObservedTunnelProxy,
    Target,
    TunnelChanges,
    TunnelState,
    failed,
    retry_later,
    started,
)

__all__ = ["CONTROL_PORT", "DATA_PORT", "IMAGE", "RETRY_DELAY", "TunnelOperations", "container_name"]

RETRY_DELAY: Final = 5.0
CONTROL_PORT: Final = 15049
DATA_PORT: Final = 15050
IMAGE: Final = "docker.io/library/python:3.13-alpine"
"""The default image of the client proxy; any image with python3 works."""

_SCRIPT: Final = "/levelset/tunnel.py"
_TOKEN: Final = "LEVELSET_TUNNEL_TOKEN"  # noqa: S105 - the name of a variable


def container_name(proxy: ContainerNetworkTunnelProxy) -> str:
    """The deterministic name of the client proxy's container."""
    return f"{proxy.name[:200]}-{proxy.metadata.uid[:8]}-tunnel"


class TunnelOperations:
    """Operations on the engine and the relay; each returns a change of the observed state."""

    def __init__(self, host: ContainerHost, relay: Relay) -> None:
        self._host = host
        self._relay = relay

    async def start(
        self,
        proxy: ContainerNetworkTunnelProxy,
        network_id: str,
        follow: Callable[[str], None],
        lost: Callable[[str], None],
    ) -> Change:
        """Starts the client proxy, or finds the running one, and connects the relay to it."""
        try:
            engine = await self._host.healthy_engine()
            info = await self._run(proxy, network_id, engine, follow)
            ports = tuple(_published(info, one) for one in (CONTROL_PORT, DATA_PORT))
            if not info.is_running or not all(ports):
                return failed(f"the client proxy does not run: {info.error or info.status}")
            token = info.env.get(_TOKEN, "")
            await self._relay.connect(proxy.metadata.uid, control=ports[0], data=ports[1], token=token, lost=lost)
        except RuntimeNotHealthy as error:
            return retry_later(str(error), timing.now() + RETRY_DELAY)
        except (EngineError, RelayFailed) as error:
            return failed(str(error))
        address = proxy.spec.aliases[0] if proxy.spec.aliases else info.name
        at = info.started_at or self._host.now()
        return started(info.id, info.image, address, (ports[0], ports[1]), at)

    async def change_tunnels(self, key: str, changes: TunnelChanges) -> Change:
        """Opens and closes tunnels."""
        tunnels: dict[str, TunnelState | None] = {}
        for name, (tunnel, why) in changes.close.items():
            await self._relay.close(key, tunnel.number)
            closed = replace(tunnel, state="NotReady", error=why, target=None, attempts=0, at=self._host.now())
            tunnels[name] = closed if why else None
        for name, (tunnel, target) in changes.open.items():
            tunnels[name] = await self._open(key, tunnel, target)
        retry_at = timing.now() + RETRY_DELAY if any(one and _is_retrying(one) for one in tunnels.values()) else 0.0

        def change(observed: ObservedTunnelProxy) -> ObservedTunnelProxy | None:
            if observed.state != "Running":
                return None
            merged = {**observed.tunnels, **{name: one for name, one in tunnels.items() if one is not None}}
            remaining = {name: one for name, one in merged.items() if tunnels.get(name, one) is not None}
            return replace(observed, tunnels=remaining, version=observed.version + 1, retry_at=retry_at)

        return change

    async def remove(self, proxy: ContainerNetworkTunnelProxy, container_id: str) -> Change:
        """Disconnects the relay and removes the client proxy; succeeds if they do not exist."""
        await self._relay.disconnect(proxy.metadata.uid)
        try:
            engine = await self._host.healthy_engine()
            found = await find_container(engine, container_id or container_name(proxy))
            if found is not None and uid_of(found.labels) == proxy.metadata.uid:
                await stop_and_remove(engine, found.id, grace=0.0)
        except EngineError as error:
            if not most_likely_created_nothing(error, container_id):
                retry_at, message = timing.now() + RETRY_DELAY, str(error)
                return lambda observed: replace(observed, message=observed.message or message, retry_at=retry_at)
        return lambda observed: replace(observed, is_removed=True, retry_at=0.0)

    async def _open(self, key: str, tunnel: TunnelState, target: Target) -> TunnelState:
        """Opens a tunnel at its previous port, at that of its service, or at any free one."""
        now, attempts = self._host.now(), tunnel.attempts + 1
        failure = ""
        for port in dict.fromkeys((tunnel.port or target[1], 0)):
            try:
                found = await self._relay.open(key, tunnel.number, port=port, target=target)
            except RelayFailed as error:
                failure = str(error)
                continue
            return replace(tunnel, state="Ready", error="", port=found, target=target, attempts=attempts, at=now)
        is_over = attempts >= ATTEMPTS
        return replace(
            tunnel,
            state="Failed" if is_over else "NotReady",
            error=failure,
            target=target,
            attempts=attempts,
            at=tunnel.at or now,
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
        await engine.copy_in(made, "/", archive_of(members, at=self._host.now().timestamp()))
        await engine.start_container(made)
        return await wait_started(engine, made)

    def _wanted(self, proxy: ContainerNetworkTunnelProxy, name: str, network_id: str) -> NewContainer:
        return NewContainer(
            image=proxy.spec.base_image or IMAGE,
            name=name,
            command="python3",
            args=(_SCRIPT, str(CONTROL_PORT), str(DATA_PORT)),
            env={_TOKEN: secrets.token_hex(16)},
            labels=labels_of(proxy, self._host.creator, is_persistent=False),
            ports=(PortBinding(container_port=CONTROL_PORT), PortBinding(container_port=DATA_PORT)),
            network=network_id,
            aliases=proxy.spec.aliases,
        )


def _published(info: ContainerInfo, port: int) -> int:
    return next((one.host_port for one in info.ports if one.container_port == port), 0)


def _is_retrying(tunnel: TunnelState) -> bool:
    return tunnel.state == "NotReady" and tunnel.target is not None and tunnel.attempts < ATTEMPTS
