"""Service: an address under which workloads are reached; Endpoint: one place where a workload produces it."""

from typing import Annotated, Final, Literal

from levelset import Column, Meta, Resource, Spec, Status, field
from levelset_dcp.kinds.common import Conditions
from levelset_dcp.naming import API

__all__ = [
    "AllocationMode",
    "Endpoint",
    "EndpointSpec",
    "Protocol",
    "Service",
    "ServiceSpec",
    "ServiceStatus",
]

Protocol = Literal["TCP", "UDP"]
AllocationMode = Literal[
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
    """What somebody wants of a service."""

    address: str = ""
    port: Port = 0
    """Any free one if 0."""
    protocol: Protocol = "TCP"
    address_allocation_mode: AllocationMode = "Localhost"
    """`Proxyless`: the address of the first endpoint; otherwise where a proxy listens."""


class ServiceStatus(Status):
    """How a service is."""

    state: Literal["NotReady", "Ready"] = "NotReady"
    proxy_process_pid: int | None = field(name="proxyProcessPid", default=None)
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
    short_names=["svc", "dcpsvc"],
    categories=["dcp"],
    columns=[
        Column("State", ".status.state"),
        Column("Address", ".status.effectiveAddress"),
        Column("Port", ".status.effectivePort", "integer"),
        Column("Protocol", ".spec.protocol"),
        _AGE,
    ],
):
    """An address under which workloads of this machine are reached."""


class EndpointSpec(Spec):
    """Where a workload produces a service."""

    service_name: Annotated[str, Meta(min_length=1)]
    address: Annotated[str, Meta(min_length=1)]
    port: Annotated[int, Meta(ge=1, le=65535)]
    service_namespace: str = ""


class Endpoint(
    Resource[EndpointSpec, None],
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
    """One place where a workload produces a service; made by the workload's controller."""
