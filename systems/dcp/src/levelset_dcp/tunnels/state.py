"""The observed state of a tunnel proxy, the tunnels to open and close, and its status; all pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct, field

from levelset import Ref, replace, set_condition
from levelset.objects import MicroTime
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
from levelset_dcp.workloads.service_producers import endpoint_of

__all__ = [
    "ATTEMPTS",
    "Change",
    "ObservedTunnelProxy",
    "Step",
    "TunnelChanges",
    "TunnelState",
    "endpoints_of",
    "failed",
    "observed_from_status",
    "plan",
    "referenced_networks",
    "referenced_services",
    "retry_later",
    "started",
    "status_of",
    "targets_of",
    "tunnel_changes",
]

ATTEMPTS: Final = 20
"""The number of attempts to open a tunnel before it is Failed."""

Target = tuple[str, int]


class TunnelState(Struct, frozen=True, kw_only=True):
    """The observed state of one tunnel."""

    number: int
    state: Literal["Ready", "Failed", "NotReady"] = "NotReady"
    error: str = ""
    port: int = 0
    """The port inside the network; the preferred one while the tunnel is not ready."""
    target: Target | None = None
    attempts: int = 0
    at: datetime | None = None

    @property
    def is_reopening(self) -> bool:
        """Whether it was open before a restart of the controller, and is about to be opened again."""
        return self.state == "NotReady" and self.port > 0 and self.attempts == 0 and not self.error


class ObservedTunnelProxy(Struct, frozen=True, kw_only=True):
    """The observed state of a proxy with its tunnels."""

    uid: str
    state: TunnelProxyState = "Pending"
    message: str = ""
    container_id: str = ""
    address: str = ""
    """The host name of the proxy in its network."""
    image: str = ""
    control_port: int = 0
    data_port: int = 0
    started_at: datetime | None = None
    tunnels: Mapping[str, TunnelState] = field(default_factory=dict[str, TunnelState])
    version: int = 0
    is_removed: bool = False
    """Whether the client proxy was removed on request."""
    retry_at: float = 0.0


Change = Callable[[ObservedTunnelProxy], ObservedTunnelProxy | None]


class TunnelChanges(Struct, frozen=True):
    """The tunnels to open, with their targets, and the tunnels to close, with the reasons."""

    open: Mapping[str, tuple[TunnelState, Target]]
    close: Mapping[str, tuple[TunnelState, str]]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to change."""
        return not self.open and not self.close


Step = Literal["none", "start", "change_tunnels", "remove"]
"""Do nothing; start the client proxy; open and close tunnels; remove the client proxy."""


def plan(observed: ObservedTunnelProxy, changes: TunnelChanges) -> Step:
    """The next step; `changes` are those that its tunnels need."""
    match observed.state:
        case "Failed":
            return "none" if observed.is_removed else "remove"
        case "Running":
            return "none" if changes.is_empty else "change_tunnels"
        case _:
            return "start"


def referenced_services(proxy: ContainerNetworkTunnelProxy) -> Iterator[Ref[Service]]:
    """The Services that the tunnels depend on; a change of one enqueues the proxy."""
    names = {name for one in proxy.spec.tunnels for name in (one.server_service_name, one.client_service_name)}
    for name in sorted(names):
        yield Ref(Service, name)


def referenced_networks(proxy: ContainerNetworkTunnelProxy) -> Iterator[Ref[ContainerNetwork]]:
    """The network of a proxy."""
    yield Ref(ContainerNetwork, proxy.spec.container_network_name)


def targets_of(tunnels: Sequence[Tunnel], find: Callable[[Ref[Service]], Service | None]) -> Mapping[str, Target | str]:
    """The target of each tunnel, or the reason why it has none."""
    return {one.name: _target(one, find) for one in tunnels}


def tunnel_changes(observed: ObservedTunnelProxy, targets: Mapping[str, Target | str]) -> TunnelChanges:
    """The changes that make each tunnel lead to its target."""
    opened: dict[str, tuple[TunnelState, Target]] = {}
    closed: dict[str, tuple[TunnelState, str]] = {}
    free = max((one.number for one in observed.tunnels.values()), default=0)
    for name, target in targets.items():
        tunnel = observed.tunnels.get(name)
        if tunnel is None:
            free += 1
            tunnel = TunnelState(number=free)
        if isinstance(target, str):
            if tunnel.state == "Ready" or tunnel.error != target or name not in observed.tunnels:
                closed[name] = (tunnel, target)
        elif tunnel.target != target or (tunnel.state != "Ready" and tunnel.attempts < ATTEMPTS):
            opened[name] = (tunnel if tunnel.target == target else replace(tunnel, attempts=0), target)
    for name in observed.tunnels.keys() - targets.keys():
        closed[name] = (observed.tunnels[name], "")
    return TunnelChanges(opened, closed)


def started(container_id: str, image: str, address: str, ports: tuple[int, int], at: datetime) -> Change:
    """The client proxy runs, and the relay is connected to it."""

    def change(observed: ObservedTunnelProxy) -> ObservedTunnelProxy | None:
        if observed.state == "Failed":
            return None
        # All tunnels must be opened again: the client proxy is new, or has closed them with the old connection.
        tunnels = {
            name: replace(one, state="NotReady", target=None, attempts=0) for name, one in observed.tunnels.items()
        }
        return replace(
            observed,
            state="Running",
            message="",
            container_id=container_id,
            image=image,
            address=address,
            control_port=ports[0],
            data_port=ports[1],
            started_at=at,
            tunnels=tunnels,
            retry_at=0.0,
        )

    return change


def failed(message: str) -> Change:
    """The client proxy or the relay has failed, which is final."""

    def change(observed: ObservedTunnelProxy) -> ObservedTunnelProxy | None:
        if observed.state == "Failed":
            return None
        tunnels = {name: replace(one, state="Failed", error=message) for name, one in observed.tunnels.items()}
        return replace(observed, state="Failed", message=message, tunnels=tunnels, version=observed.version + 1)

    return change


def retry_later(message: str, retry_at: float) -> Change:
    """Nothing can be done before `retry_at`."""
    return lambda observed: replace(observed, message=message, retry_at=retry_at)


def endpoints_of(proxy: ContainerNetworkTunnelProxy, observed: ObservedTunnelProxy) -> list[Endpoint]:
    """The Endpoints of the client Services: one for each tunnel that is ready or being reopened."""
    found: list[Endpoint] = []
    for one in proxy.spec.tunnels:
        tunnel = observed.tunnels.get(one.name)
        if observed.state == "Running" and tunnel is not None and (tunnel.state == "Ready" or tunnel.is_reopening):
            found.append(endpoint_of(proxy, one.client_service_name, observed.address, tunnel.port))
    return found


def observed_from_status(proxy: ContainerNetworkTunnelProxy) -> ObservedTunnelProxy:
    """Restores the observed state from the status after a restart; all tunnels are opened again."""
    status = proxy.status or TunnelProxyStatus()
    tunnels = {
        one.name: TunnelState(
            number=one.tunnel_id or place, port=one.client_proxy_port, error=one.error_message, at=one.timestamp
        )
        for place, one in enumerate(status.tunnel_statuses, 1)
    }
    return ObservedTunnelProxy(
        uid=proxy.metadata.uid,
        state="Failed" if status.state == "Failed" else "Pending",
        message=status.message if status.state == "Failed" else "",
        container_id=status.client_proxy_container_id,
        image=status.client_proxy_container_image,
        started_at=status.server_proxy_startup_timestamp,
        tunnels=tunnels,
        version=status.tunnel_configuration_version,
    )


def status_of(
    proxy: ContainerNetworkTunnelProxy, observed: ObservedTunnelProxy, pid: int, now: datetime
) -> TunnelProxyStatus:
    """The new status of a proxy; `pid` is the process of the relay."""
    before = proxy.status or TunnelProxyStatus()
    is_ready = observed.state == "Running" and all(one.state == "Ready" for one in observed.tunnels.values())
    conditions = set_condition(
        before.conditions,
        "Ready",
        is_ready,
        now=now,
        reason=observed.state or "Pending",
        message=observed.message or f"tunnels: {len(observed.tunnels)}",
        observed_generation=proxy.metadata.generation,
    )
    is_running = observed.state == "Running"
    return replace(
        before,
        state=observed.state,
        message=observed.message,
        tunnel_statuses=tuple(_tunnel_status(name, one, observed) for name, one in sorted(observed.tunnels.items())),
        tunnel_configuration_version=observed.version,
        client_proxy_container_image=observed.image,
        client_proxy_container_id=observed.container_id,
        client_proxy_control_port=observed.control_port if is_running else 0,
        client_proxy_data_port=observed.data_port if is_running else 0,
        server_proxy_process_id=pid if is_running else None,
        server_proxy_startup_timestamp=None if observed.started_at is None else MicroTime.of(observed.started_at),
        conditions=conditions,
        observed_generation=proxy.metadata.generation,
    )


def _tunnel_status(name: str, tunnel: TunnelState, observed: ObservedTunnelProxy) -> TunnelStatus:
    is_ready = tunnel.state == "Ready"
    return TunnelStatus(
        name=name,
        state=tunnel.state,
        tunnel_id=tunnel.number,
        error_message=tunnel.error,
        client_proxy_addresses=(observed.address,) if is_ready else (),
        client_proxy_port=tunnel.port if is_ready else 0,
        timestamp=None if tunnel.at is None else MicroTime.of(tunnel.at),
    )


def _target(tunnel: Tunnel, find: Callable[[Ref[Service]], Service | None]) -> Target | str:
    for name in (tunnel.server_service_name, tunnel.client_service_name):
        if (found := find(Ref(Service, name))) is None or found.metadata.deletion_timestamp is not None:
            return f"Service {name} does not exist"
        if found.spec.protocol == "UDP":
            return f"Service {name} has protocol UDP, and tunnels carry TCP only; use a Service with protocol TCP"
    server, client = find(Ref(Service, tunnel.server_service_name)), find(Ref(Service, tunnel.client_service_name))
    if client is None or client.spec.address_allocation_mode != "Proxyless":
        return f"Service {tunnel.client_service_name} must have addressAllocationMode Proxyless"
    status = None if server is None else server.status
    if status is None or not (status.effective_address and status.effective_port):
        return f"Service {tunnel.server_service_name} has no address and port yet"
    return status.effective_address, status.effective_port
