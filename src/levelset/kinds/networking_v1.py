"""The kinds of networking.k8s.io/v1 and their parts.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from collections.abc import Mapping
from typing import Annotated, Self

from levelset.kinds.core_v1_references import TypedLocalObjectReference
from levelset.kinds.enums import PathType, PolicyType, Protocol
from levelset.kinds.meta_v1 import LabelSelector
from levelset.objects import Atomic, Condition, ListMap, Model, ObjectMeta, Resource, Spec, Status

__all__ = [
    "HTTPIngressPath",
    "HTTPIngressRuleValue",
    "IPAddress",
    "IPAddressSpec",
    "IPBlock",
    "Ingress",
    "IngressBackend",
    "IngressClass",
    "IngressClassParametersReference",
    "IngressClassSpec",
    "IngressLoadBalancerIngress",
    "IngressLoadBalancerStatus",
    "IngressPortStatus",
    "IngressRule",
    "IngressServiceBackend",
    "IngressSpec",
    "IngressStatus",
    "IngressTLS",
    "NetworkPolicy",
    "NetworkPolicyEgressRule",
    "NetworkPolicyIngressRule",
    "NetworkPolicyPeer",
    "NetworkPolicyPort",
    "NetworkPolicySpec",
    "ParentReference",
    "ServiceBackendPort",
    "ServiceCIDR",
    "ServiceCIDRSpec",
    "ServiceCIDRStatus",
]


class ServiceBackendPort(Model):
    """A port of a Service, by name or number."""

    name: str | None = None
    number: int | None = None


class IngressServiceBackend(Model):
    """A Service, and its port, that requests from outside lead to."""

    name: str
    port: Annotated[ServiceBackendPort, Atomic()] = ServiceBackendPort()


class IngressBackend(Model):
    """Where requests from outside lead."""

    resource: Annotated[TypedLocalObjectReference, Atomic()] | None = None
    service: IngressServiceBackend | None = None


class HTTPIngressPath(Model):
    """A path, and where requests to it lead."""

    backend: IngressBackend
    path_type: PathType
    path: str | None = None


class HTTPIngressRuleValue(Model):
    """The paths of a host."""

    paths: tuple[HTTPIngressPath, ...]


class ParentReference(Model):
    """`parentRef` of IPAddressSpec."""

    name: str
    resource: str
    group: str | None = None
    namespace: str | None = None


class IPAddressSpec(Spec):
    """`spec` of IPAddress."""

    parent_ref: ParentReference


class IPBlock(Model):
    """`ipBlock` of NetworkPolicyPeer."""

    cidr: str
    except_: tuple[str, ...] = ()


class IngressClassParametersReference(Model):
    """`parameters` of IngressClassSpec."""

    kind: str
    name: str
    api_group: str | None = None
    namespace: str | None = None
    scope: str | None = None


class IngressClassSpec(Spec):
    """`spec` of IngressClass."""

    controller: str | None = None
    parameters: IngressClassParametersReference | None = None


class IngressPortStatus(Model):
    """One of `ports` of IngressLoadBalancerIngress."""

    port: int
    protocol: str
    error: str | None = None


class IngressLoadBalancerIngress(Model):
    """One of `ingress` of IngressLoadBalancerStatus."""

    hostname: str | None = None
    ip: str | None = None
    ports: tuple[IngressPortStatus, ...] = ()


class IngressLoadBalancerStatus(Model):
    """`loadBalancer` of IngressStatus."""

    ingress: tuple[IngressLoadBalancerIngress, ...] = ()


class IngressRule(Model):
    """A host, and where its paths lead."""

    host: str | None = None
    http: HTTPIngressRuleValue | None = None


class IngressTLS(Model):
    """The certificate for some hosts."""

    hosts: tuple[str, ...] = ()
    secret_name: str | None = None


class IngressSpec(Spec):
    """`spec` of Ingress."""

    default_backend: IngressBackend | None = None
    ingress_class_name: str | None = None
    rules: tuple[IngressRule, ...] = ()
    tls: tuple[IngressTLS, ...] = ()


class IngressStatus(Status):
    """`status` of Ingress."""

    load_balancer: IngressLoadBalancerStatus = IngressLoadBalancerStatus()


class NetworkPolicyPort(Model):
    """One of `ports` of NetworkPolicyEgressRule, and others."""

    end_port: int | None = None
    port: int | str | None = None
    protocol: Protocol | None = None


class NetworkPolicyPeer(Model):
    """One of `to` of NetworkPolicyEgressRule, and others."""

    ip_block: IPBlock | None = None
    namespace_selector: Annotated[LabelSelector, Atomic()] | None = None
    pod_selector: Annotated[LabelSelector, Atomic()] | None = None


class NetworkPolicyEgressRule(Model):
    """One of `egress` of NetworkPolicySpec."""

    ports: tuple[NetworkPolicyPort, ...] = ()
    to: tuple[NetworkPolicyPeer, ...] = ()


class NetworkPolicyIngressRule(Model):
    """One of `ingress` of NetworkPolicySpec."""

    from_: tuple[NetworkPolicyPeer, ...] = ()
    ports: tuple[NetworkPolicyPort, ...] = ()


class NetworkPolicySpec(Spec):
    """`spec` of NetworkPolicy."""

    egress: tuple[NetworkPolicyEgressRule, ...] = ()
    ingress: tuple[NetworkPolicyIngressRule, ...] = ()
    pod_selector: Annotated[LabelSelector, Atomic()] = LabelSelector()
    policy_types: tuple[PolicyType, ...] = ()


class ServiceCIDRSpec(Spec):
    """`spec` of ServiceCIDR."""

    cidrs: tuple[str, ...] = ()


class ServiceCIDRStatus(Status):
    """`status` of ServiceCIDR."""

    conditions: Annotated[tuple[Condition, ...], ListMap("type")] = ()


class IPAddress(Resource[IPAddressSpec, None], api="networking.k8s.io/v1", scope="Cluster", short_names=["ip"]):
    """An IP address that is in use."""


class Ingress(Resource[IngressSpec, IngressStatus], api="networking.k8s.io/v1", short_names=["ing"]):
    """Routes HTTP requests from outside the cluster to Services, by host and path."""

    spec: IngressSpec = IngressSpec()

    @classmethod
    def new(
        cls,
        name: str,
        spec: IngressSpec | None = None,
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


class IngressClass(Resource[IngressClassSpec, None], api="networking.k8s.io/v1", scope="Cluster"):
    """The controller of the Ingresses that name this class."""

    spec: IngressClassSpec = IngressClassSpec()

    @classmethod
    def new(
        cls,
        name: str,
        spec: IngressClassSpec | None = None,
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


class NetworkPolicy(Resource[NetworkPolicySpec, None], api="networking.k8s.io/v1", short_names=["netpol"]):
    """The network traffic that is allowed to and from selected Pods."""

    spec: NetworkPolicySpec = NetworkPolicySpec()

    @classmethod
    def new(
        cls,
        name: str,
        spec: NetworkPolicySpec | None = None,
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


class ServiceCIDR(Resource[ServiceCIDRSpec, ServiceCIDRStatus], api="networking.k8s.io/v1", scope="Cluster"):
    """A range that Services get their addresses from."""

    spec: ServiceCIDRSpec = ServiceCIDRSpec()

    @classmethod
    def new(
        cls,
        name: str,
        spec: ServiceCIDRSpec | None = None,
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
