"""What is known of a tunnel proxy, which tunnels are to be opened and closed, and what its status says; all pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Literal

from levelset import Ref, set_condition
from levelset import replace as changed
from levelset.objects import MicroTime
from levelset_dcp.endpoints import endpoint_of
from levelset_dcp.kinds import (
    ContainerNetwork,
    ContainerNetworkTunnelProxy,
    Endpoint,
    Service,
    Tunnel,
    TunnelProxyState,
    TunnelProxyStatus,
    TunnelStatus,
)

__all__ = [
    "ATTEMPTS",
    "Change",
    "Hole",
    "Moves",
    "TunnelKnown",
    "broken",
    "endpoints_of",
    "known_of",
    "moves_of",
    "networks_named",
    "services_used",
    "started",
    "status_of",
    "targets_of",
    "waits",
]

ATTEMPTS: Final = 20
"""How often it is tried to open a tunnel."""

Target = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hole:
    """One tunnel, as far as it is known."""

    number: int
    state: Literal["Ready", "Failed", "NotReady"] = "NotReady"
    error: str = ""
    port: int = 0
    """The port inside of the network; the one to prefer while it is not ready."""
    target: Target | None = None
    tries: int = 0
    at: datetime | None = None

    @property
    def is_reopening(self) -> bool:
        """Whether it was open before the controller was started anew, and nobody has tried yet to open it again."""
        return self.state == "NotReady" and self.port > 0 and self.tries == 0 and not self.error


@dataclass(frozen=True, slots=True, kw_only=True)
class TunnelKnown:
    """A proxy with its tunnels, as far as they are known."""

    uid: str
    state: TunnelProxyState = "Pending"
    message: str = ""
    container_id: str = ""
    address: str = ""
    """What the proxy is called in its network."""
    image: str = ""
    control_port: int = 0
    data_port: int = 0
    started_at: datetime | None = None
    holes: Mapping[str, Hole] = field(default_factory=dict[str, Hole])
    version: int = 0
    is_removed: bool = False
    """Whether the container is gone, as it was told."""
    again_at: float = 0.0


Change = Callable[[TunnelKnown], TunnelKnown | None]


@dataclass(frozen=True, slots=True)
class Moves:
    """Which tunnels are to be opened, and where they lead; and which are to be closed, and why."""

    open: Mapping[str, tuple[Hole, Target]]
    close: Mapping[str, tuple[Hole, str]]

    @property
    def is_nothing(self) -> bool:
        """Whether all is as it should be."""
        return not self.open and not self.close


def services_used(proxy: ContainerNetworkTunnelProxy) -> Iterator[Ref[Service]]:
    """The Services that its tunnels depend on: the values of the index that finds it when one of them changes."""
    names = {name for one in proxy.spec.tunnels for name in (one.server_service_name, one.client_service_name)}
    for name in sorted(names):
        yield Ref(Service, name)


def networks_named(proxy: ContainerNetworkTunnelProxy) -> Iterator[Ref[ContainerNetwork]]:
    """The network that it serves."""
    yield Ref(ContainerNetwork, proxy.spec.container_network_name)


def targets_of(tunnels: Sequence[Tunnel], find: Callable[[Ref[Service]], Service | None]) -> Mapping[str, Target | str]:
    """Where each tunnel leads to, or why it cannot lead anywhere now."""
    return {one.name: _target(one, find) for one in tunnels}


def moves_of(known: TunnelKnown, targets: Mapping[str, Target | str]) -> Moves:
    """What is to be done so that each tunnel leads where it should."""
    opened: dict[str, tuple[Hole, Target]] = {}
    closed: dict[str, tuple[Hole, str]] = {}
    free = max((one.number for one in known.holes.values()), default=0)
    for name, target in targets.items():
        hole = known.holes.get(name)
        if hole is None:
            free += 1
            hole = Hole(number=free)
        if isinstance(target, str):
            if hole.state == "Ready" or hole.error != target or name not in known.holes:
                closed[name] = (hole, target)
        elif hole.target != target or (hole.state != "Ready" and hole.tries < ATTEMPTS):
            opened[name] = (hole if hole.target == target else replace(hole, tries=0), target)
    for name in known.holes.keys() - targets.keys():
        closed[name] = (known.holes[name], "")
    return Moves(opened, closed)


def started(container_id: str, image: str, address: str, ports: tuple[int, int], at: datetime) -> Change:
    """The container runs, and it can be talked to."""

    def change(known: TunnelKnown) -> TunnelKnown | None:
        if known.state == "Failed":
            return None
        # Whatever was open is not any more: the side inside is a new one, or has forgotten.
        holes = {name: replace(one, state="NotReady", target=None, tries=0) for name, one in known.holes.items()}
        return replace(
            known,
            state="Running",
            message="",
            container_id=container_id,
            image=image,
            address=address,
            control_port=ports[0],
            data_port=ports[1],
            started_at=at,
            holes=holes,
            again_at=0.0,
        )

    return change


def broken(words: str) -> Change:
    """One of its sides has ended: that is final."""

    def change(known: TunnelKnown) -> TunnelKnown | None:
        if known.state == "Failed":
            return None
        holes = {name: replace(one, state="Failed", error=words) for name, one in known.holes.items()}
        return replace(known, state="Failed", message=words, holes=holes, version=known.version + 1)

    return change


def waits(words: str, again_at: float) -> Change:
    """Nothing can be done for now."""
    return lambda known: replace(known, message=words, again_at=again_at)


def endpoints_of(proxy: ContainerNetworkTunnelProxy, known: TunnelKnown) -> list[Endpoint]:
    """Where containers reach the client Services: one Endpoint for each tunnel that is ready, or will be at once."""
    found: list[Endpoint] = []
    for one in proxy.spec.tunnels:
        hole = known.holes.get(one.name)
        if known.state == "Running" and hole is not None and (hole.state == "Ready" or hole.is_reopening):
            found.append(endpoint_of(proxy, one.client_service_name, known.address, hole.port))
    return found


def known_of(proxy: ContainerNetworkTunnelProxy) -> TunnelKnown:
    """What the status alone says, when nobody remembers: the container is looked for, and all is opened anew."""
    status = proxy.status or TunnelProxyStatus()
    holes = {
        one.name: Hole(
            number=one.tunnel_id or place, port=one.client_proxy_port, error=one.error_message, at=one.timestamp
        )
        for place, one in enumerate(status.tunnel_statuses, 1)
    }
    return TunnelKnown(
        uid=proxy.metadata.uid,
        state="Failed" if status.state == "Failed" else "Pending",
        message=status.message if status.state == "Failed" else "",
        container_id=status.client_proxy_container_id,
        image=status.client_proxy_container_image,
        started_at=status.server_proxy_startup_timestamp,
        holes=holes,
        version=status.tunnel_configuration_version,
    )


def status_of(proxy: ContainerNetworkTunnelProxy, known: TunnelKnown, pid: int, now: datetime) -> TunnelProxyStatus:
    """How the proxy is now; the side on the host is the process `pid`."""
    before = proxy.status or TunnelProxyStatus()
    is_ready = known.state == "Running" and all(one.state == "Ready" for one in known.holes.values())
    conditions = set_condition(
        before.conditions,
        "Ready",
        is_ready,
        now=now,
        reason=known.state or "Pending",
        message=known.message or f"tunnels: {len(known.holes)}",
        observed_generation=proxy.metadata.generation,
    )
    is_running = known.state == "Running"
    return changed(
        before,
        state=known.state,
        message=known.message,
        tunnel_statuses=tuple(_tunnel_status(name, one, known) for name, one in sorted(known.holes.items())),
        tunnel_configuration_version=known.version,
        client_proxy_container_image=known.image,
        client_proxy_container_id=known.container_id,
        client_proxy_control_port=known.control_port if is_running else 0,
        client_proxy_data_port=known.data_port if is_running else 0,
        server_proxy_process_id=pid if is_running else None,
        server_proxy_startup_timestamp=None if known.started_at is None else MicroTime.of(known.started_at),
        conditions=conditions,
        observed_generation=proxy.metadata.generation,
    )


def _tunnel_status(name: str, hole: Hole, known: TunnelKnown) -> TunnelStatus:
    is_ready = hole.state == "Ready"
    return TunnelStatus(
        name=name,
        state=hole.state,
        tunnel_id=hole.number,
        error_message=hole.error,
        client_proxy_addresses=(known.address,) if is_ready else (),
        client_proxy_port=hole.port if is_ready else 0,
        timestamp=None if hole.at is None else MicroTime.of(hole.at),
    )


def _target(tunnel: Tunnel, find: Callable[[Ref[Service]], Service | None]) -> Target | str:
    for name in (tunnel.server_service_name, tunnel.client_service_name):
        if (found := find(Ref(Service, name))) is None or found.metadata.deletion_timestamp is not None:
            return f"Service {name} is not there"
    server, client = find(Ref(Service, tunnel.server_service_name)), find(Ref(Service, tunnel.client_service_name))
    if client is None or client.spec.address_allocation_mode != "Proxyless":
        return f"Service {tunnel.client_service_name} must have addressAllocationMode Proxyless"
    status = None if server is None else server.status
    if status is None or not (status.effective_address and status.effective_port):
        return f"Service {tunnel.server_service_name} has no address and port yet"
    return status.effective_address, status.effective_port
