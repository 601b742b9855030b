"""Services, and where their Pods are reached.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from collections.abc import Mapping
from typing import Annotated, Self

from levelset.kinds.core_v1_references import ObjectReference
from levelset.kinds.enums import IPFamily, IPFamilyPolicy, Protocol, ServiceType, SessionAffinity, TrafficPolicy
from levelset.objects import Atomic, Condition, ListMap, Model, Object, ObjectMeta, Resource, Spec, Status

__all__ = [
    "ClientIPConfig",
    "EndpointAddress",
    "EndpointPort",
    "EndpointSubset",
    "Endpoints",
    "LoadBalancerIngress",
    "LoadBalancerStatus",
    "PortStatus",
    "Service",
    "ServicePort",
    "ServiceSpec",
    "ServiceStatus",
    "SessionAffinityConfig",
]


class ClientIPConfig(Model):
    """`clientIP` of SessionAffinityConfig."""

    timeout_seconds: int | None = None


class EndpointAddress(Model):
    """One of `addresses` of EndpointSubset, and others."""

    ip: str
    hostname: str | None = None
    node_name: str | None = None
    target_ref: Annotated[ObjectReference, Atomic()] | None = None


class EndpointPort(Model):
    """One of `ports` of EndpointSubset."""

    port: int
    app_protocol: str | None = None
    name: str | None = None
    protocol: Protocol | None = None


class EndpointSubset(Model):
    """One of `subsets` of Endpoints."""

    addresses: tuple[EndpointAddress, ...] = ()
    not_ready_addresses: tuple[EndpointAddress, ...] = ()
    ports: tuple[EndpointPort, ...] = ()


class PortStatus(Model):
    """One of `ports` of LoadBalancerIngress."""

    port: int
    protocol: Protocol
    error: str | None = None


class LoadBalancerIngress(Model):
    """One of `ingress` of LoadBalancerStatus."""

    hostname: str | None = None
    ip: str | None = None
    ip_mode: str | None = None
    ports: tuple[PortStatus, ...] = ()


class LoadBalancerStatus(Model):
    """`loadBalancer` of ServiceStatus."""

    ingress: tuple[LoadBalancerIngress, ...] = ()


class ServicePort(Model):
    """A port of a Service, and the port of its Pods that it leads to."""

    port: int
    app_protocol: str | None = None
    name: str | None = None
    node_port: int | None = None
    protocol: Protocol | None = None
    target_port: int | str | None = None


class SessionAffinityConfig(Model):
    """`sessionAffinityConfig` of ServiceSpec."""

    client_ip: ClientIPConfig | None = None


class ServiceSpec(Spec):
    """`spec` of Service."""

    allocate_load_balancer_node_ports: bool | None = None
    cluster_ip: str | None = None
    cluster_ips: tuple[str, ...] = ()
    external_ips: tuple[str, ...] = ()
    external_name: str | None = None
    external_traffic_policy: TrafficPolicy | None = None
    health_check_node_port: int | None = None
    internal_traffic_policy: TrafficPolicy | None = None
    ip_families: tuple[IPFamily, ...] = ()
    ip_family_policy: IPFamilyPolicy | None = None
    load_balancer_class: str | None = None
    load_balancer_ip: str | None = None
    load_balancer_source_ranges: tuple[str, ...] = ()
    ports: Annotated[tuple[ServicePort, ...], ListMap("port", "protocol")] = ()
    publish_not_ready_addresses: bool | None = None
    selector: Annotated[dict[str, str], Atomic()] = {}
    session_affinity: SessionAffinity | None = None
    session_affinity_config: SessionAffinityConfig | None = None
    traffic_distribution: str | None = None
    type: ServiceType | None = None


class ServiceStatus(Status):
    """`status` of Service."""

    conditions: Annotated[tuple[Condition, ...], ListMap("type")] = ()
    load_balancer: LoadBalancerStatus = LoadBalancerStatus()


class Endpoints(Object, api="v1", plural="endpoints", short_names=["ep"]):
    """The addresses behind a Service; superseded by EndpointSlice."""

    subsets: tuple[EndpointSubset, ...] = ()

    @classmethod
    def new(
        cls,
        name: str,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        subsets: tuple[EndpointSubset, ...] = (),
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        )
        return cls(metadata=metadata, subsets=subsets)


class Service(Resource[ServiceSpec, ServiceStatus], api="v1", short_names=["svc"], categories=["all"]):
    """A stable address for a set of Pods."""

    spec: ServiceSpec = ServiceSpec()

    @classmethod
    def new(
        cls,
        name: str,
        spec: ServiceSpec | None = None,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> Self:
        """A new object that no server has seen yet; without a spec, an empty one."""
        metadata = ObjectMeta(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        )
        return cls(metadata=metadata) if spec is None else cls(metadata=metadata, spec=spec)
