"""The kinds of discovery.k8s.io/v1 and their parts.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from collections.abc import Mapping
from typing import Annotated, Self

from levelset.kinds.core_v1_references import ObjectReference
from levelset.kinds.enums import AddressType, Protocol
from levelset.objects import Atomic, ListSet, Model, Object, ObjectMeta

__all__ = ["Endpoint", "EndpointConditions", "EndpointHints", "EndpointPort", "EndpointSlice", "ForNode", "ForZone"]


class EndpointConditions(Model):
    """`conditions` of Endpoint."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class ForNode(Model):
    """One of `forNodes` of EndpointHints."""

    name: str


class ForZone(Model):
    """One of `forZones` of EndpointHints."""

    name: str


class EndpointHints(Model):
    """`hints` of Endpoint."""

    for_nodes: tuple[ForNode, ...] = ()
    for_zones: tuple[ForZone, ...] = ()


class Endpoint(Model):
    """One of `endpoints` of EndpointSlice."""

    addresses: Annotated[tuple[str, ...], ListSet()]
    conditions: EndpointConditions = EndpointConditions()
    deprecated_topology: dict[str, str] = {}
    hints: EndpointHints | None = None
    hostname: str | None = None
    node_name: str | None = None
    target_ref: Annotated[ObjectReference, Atomic()] | None = None
    zone: str | None = None


class EndpointPort(Model):
    """One of `ports` of EndpointSlice."""

    app_protocol: str | None = None
    name: str | None = None
    port: int | None = None
    protocol: Protocol | None = None


class EndpointSlice(Object, api="discovery.k8s.io/v1"):
    """A part of the addresses behind a Service."""

    address_type: AddressType
    endpoints: tuple[Endpoint, ...] = ()
    ports: tuple[EndpointPort, ...] = ()

    @classmethod
    def new(
        cls,
        name: str,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        address_type: AddressType,
        endpoints: tuple[Endpoint, ...] = (),
        ports: tuple[EndpointPort, ...] = (),
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        )
        return cls(metadata=metadata, address_type=address_type, endpoints=endpoints, ports=ports)
