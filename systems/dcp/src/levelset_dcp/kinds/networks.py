"""Networks, volumes and tunnels of containers."""

from typing import Annotated, Final, Literal

from levelset import Column, ListMap, Meta, Model, Resource, Rule, Spec, Status, field
from levelset.objects import MicroTime
from levelset_dcp.kinds.common import Conditions
from levelset_dcp.kinds.containers import ContainerMode
from levelset_dcp.naming import API

__all__ = [
    "ContainerNetwork",
    "ContainerNetworkConnection",
    "ContainerNetworkConnectionSpec",
    "ContainerNetworkSpec",
    "ContainerNetworkStatus",
    "ContainerNetworkTunnelProxy",
    "ContainerVolume",
    "ContainerVolumeSpec",
    "ContainerVolumeStatus",
    "NetworkState",
    "Tunnel",
    "TunnelProxySpec",
    "TunnelProxyState",
    "TunnelProxyStatus",
    "TunnelStatus",
]

NetworkState = Literal["", "Pending", "Running", "FailedToStart", "Removed", "NotFound"]
TunnelProxyState = Literal["", "Pending", "BuildingImage", "Starting", "Running", "Failed"]

_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")


class ContainerNetworkSpec(Spec):
    """What somebody wants of a network."""

    network_name: Annotated[str, Meta(max_length=253)] = ""
    """Its name in the engine; made up unless given."""
    ipv6: bool = False
    mode: ContainerMode = "session"
    persistent: bool = False


class ContainerNetworkStatus(Status):
    """How a network is."""

    state: NetworkState = ""
    message: str = ""
    id: str = ""
    network_name: str = ""
    driver: str = ""
    ipv6: bool = False
    subnets: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()
    container_ids: tuple[str, ...] = field(name="containerIds", default=())
    conditions: Conditions = ()
    observed_generation: int | None = None


class ContainerNetwork(
    Resource[ContainerNetworkSpec, ContainerNetworkStatus],
    api=API,
    scope="Cluster",
    short_names=["ctrnet"],
    categories=["dcp"],
    columns=[Column("State", ".status.state"), Column("Network", ".status.networkName"), _AGE],
):
    """A network that containers are in."""


class ContainerNetworkConnectionSpec(Spec):
    """Which container is to be in which network."""

    container_network_name: Annotated[str, Meta(min_length=1)]
    container_id: str = field(name="containerID")
    aliases: tuple[str, ...] = ()


class ContainerNetworkConnection(
    Resource[ContainerNetworkConnectionSpec, None],
    api=API,
    scope="Cluster",
    short_names=["ctrnetconn"],
    categories=["dcp"],
    columns=[Column("Network", ".spec.containerNetworkName"), Column("Container", ".spec.containerID"), _AGE],
):
    """That a container is to be in a network; made by the container's controller, read by the network's."""


class ContainerVolumeSpec(Spec, rules=[Rule("self == oldSelf", "a volume cannot be changed; make another one")]):
    """What somebody wants of a volume."""

    name: Annotated[str, Meta(min_length=1, max_length=253)]
    persistent: bool = True
    """Whether the engine's volume stays when this object is deleted."""


class ContainerVolumeStatus(Status):
    """How a volume is."""

    state: Literal["", "Pending", "RuntimeUnhealthy", "Ready"] = ""
    message: str = ""
    conditions: Conditions = ()
    observed_generation: int | None = None


class ContainerVolume(
    Resource[ContainerVolumeSpec, ContainerVolumeStatus],
    api=API,
    scope="Cluster",
    short_names=["ctrvol"],
    categories=["dcp"],
    columns=[Column("State", ".status.state"), Column("Volume", ".spec.name"), _AGE],
):
    """A volume that containers keep data in."""


class Tunnel(Model):
    """One service of this machine, and the service by which containers reach it."""

    name: Annotated[str, Meta(min_length=1)]
    server_service_name: Annotated[str, Meta(min_length=1)]
    client_service_name: Annotated[str, Meta(min_length=1)]
    server_service_namespace: str = ""
    client_service_namespace: str = ""


class TunnelProxySpec(Spec):
    """What somebody wants of a proxy."""

    container_network_name: Annotated[str, Meta(min_length=1)]
    aliases: tuple[str, ...] = ()
    tunnels: Annotated[tuple[Tunnel, ...], ListMap("name")] = ()
    base_image: str = ""


class TunnelStatus(Model):
    """How one tunnel is."""

    name: str
    state: Literal["Ready", "Failed", "NotReady"] = "NotReady"
    tunnel_id: int | None = field(name="tunnelId", default=None)
    error_message: str = ""
    client_proxy_addresses: tuple[str, ...] = ()
    client_proxy_port: int = 0
    timestamp: MicroTime | None = None


class TunnelProxyStatus(Status):
    """How a proxy is."""

    state: TunnelProxyState = ""
    message: str = ""
    tunnel_statuses: Annotated[tuple[TunnelStatus, ...], ListMap("name")] = ()
    tunnel_configuration_version: int = 0
    client_proxy_container_image: str = ""
    client_proxy_container_id: str = field(name="clientProxyContainerID", default="")
    client_proxy_control_port: int = 0
    client_proxy_data_port: int = 0
    server_proxy_process_id: int | None = field(name="serverProxyProcessID", default=None)
    server_proxy_startup_timestamp: MicroTime | None = None
    server_proxy_std_out_file: str = ""
    server_proxy_std_err_file: str = ""
    conditions: Conditions = ()
    observed_generation: int | None = None


class ContainerNetworkTunnelProxy(
    Resource[TunnelProxySpec, TunnelProxyStatus],
    api=API,
    plural="containernetworktunnelproxies",
    scope="Cluster",
    short_names=["cntp"],
    categories=["dcp"],
    columns=[Column("State", ".status.state"), Column("Network", ".spec.containerNetworkName"), _AGE],
):
    """Lets containers of a network reach services of this machine."""
