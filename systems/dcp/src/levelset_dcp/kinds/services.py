"""Service: a stable address of workloads; Endpoint: the address of one workload behind it."""

from typing import Annotated, Final, Literal

from levelset import Column, Meta, Resource, Spec, Status, field
from levelset_dcp.kinds.common import Conditions, fill_empty
from levelset_dcp.names import API

__all__ = [
    "AllocationMode",
    "Endpoint",
    "EndpointSpec",
    "EndpointStatus",
    "Protocol",
    "Service",
    "ServiceSpec",
    "ServiceStatus",
]

Protocol = Literal["", "TCP", "UDP"]
AllocationMode = Literal[
    "",
    "Localhost",
    "IPv4ZeroOne",
    "IPv4Loopback",
    "IPv6ZeroOne",
    "AllInterfaces",
    "IPv4AllInterfaces",
    "IPv6AllInterfaces",
    "Proxyless",
]
Port = Annotated[int, Meta(ge=0, le=65535)]

_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")


class ServiceSpec(Spec):
    """The desired state of a Service."""

    address: str = ""
    port: Port = 0
    """0 for any free port."""
    protocol: Protocol = "TCP"
    address_allocation_mode: AllocationMode = "Localhost"
    """`Proxyless`: the address of the first Endpoint; otherwise the address of a proxy."""

    def __post_init__(self) -> None:
        fill_empty(self)


class ServiceStatus(Status):
    """The observed state of a Service."""

    state: Literal["NotReady", "Ready"] = "NotReady"
    proxy_process_pid: int | None = field(name="proxyProcessPid", default=None)
    proxy_config_file: str = ""
    """Always empty: the proxy has no file. Upstream has the field, and leaves it empty as well."""
    effective_address: str = ""
    effective_port: int = 0
    proxyless_endpoint_namespace: str = ""
    proxyless_endpoint_name: str = ""
    message: str = ""
    conditions: Conditions = ()
    observed_generation: int | None = None


class Service(
    Resource[ServiceSpec, ServiceStatus],
    api=API,
    scope="Cluster",
    short_names=["dcpsvc"],
    categories=["dcp"],
    columns=[
        Column("State", ".status.state"),
        Column("Address", ".status.effectiveAddress"),
        Column("Port", ".status.effectivePort", "integer"),
        Column("Protocol", ".spec.protocol"),
        _AGE,
    ],
):
    """A stable address of workloads of this machine."""


class EndpointSpec(Spec):
    """The Service, and the address of the workload."""

    service_name: Annotated[str, Meta(min_length=1)]
    address: Annotated[str, Meta(min_length=1)]
    port: Annotated[int, Meta(ge=1, le=65535)]
    service_namespace: str = ""


class EndpointStatus(Status):
    """The observed state of an Endpoint: there is none, as upstream."""


class Endpoint(
    Resource[EndpointSpec, EndpointStatus],
    api=API,
    scope="Cluster",
    short_names=["end"],
    categories=["dcp"],
    columns=[
        Column("Service", ".spec.serviceName"),
        Column("Address", ".spec.address"),
        Column("Port", ".spec.port", "integer"),
        _AGE,
    ],
):
    """The address of one workload behind a Service; created by the workload's controller."""
