"""Machines, and what they report.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Self

from levelset.kinds.enums import ConditionStatus, NodeAddressType, TaintEffect
from levelset.objects import ListMap, ListSet, Model, Object, ObjectMeta, Quantity, Resource, Spec, Status, field

__all__ = [
    "AttachedVolume",
    "ComponentCondition",
    "ComponentStatus",
    "ConfigMapNodeConfigSource",
    "ContainerImage",
    "DaemonEndpoint",
    "Node",
    "NodeAddress",
    "NodeCondition",
    "NodeConfigSource",
    "NodeConfigStatus",
    "NodeDaemonEndpoints",
    "NodeFeatures",
    "NodeRuntimeHandler",
    "NodeRuntimeHandlerFeatures",
    "NodeSpec",
    "NodeStatus",
    "NodeSwapStatus",
    "NodeSystemInfo",
    "Taint",
]


class AttachedVolume(Model):
    """One of `volumesAttached` of NodeStatus."""

    device_path: str
    name: str


class ComponentCondition(Model):
    """One of `conditions` of ComponentStatus."""

    status: ConditionStatus
    type: str
    error: str | None = None
    message: str | None = None


class ConfigMapNodeConfigSource(Model):
    """`configMap` of NodeConfigSource."""

    kubelet_config_key: str
    name: str
    namespace: str
    resource_version: str | None = None
    uid: str | None = None


class ContainerImage(Model):
    """One of `images` of NodeStatus."""

    names: tuple[str, ...] = ()
    size_bytes: int | None = None


class DaemonEndpoint(Model):
    """`kubeletEndpoint` of NodeDaemonEndpoints."""

    port: int = field(name="Port")


class NodeAddress(Model):
    """One of `addresses` of NodeStatus."""

    address: str
    type: NodeAddressType


class NodeCondition(Model):
    """One of `conditions` of NodeStatus."""

    status: ConditionStatus
    type: str
    last_heartbeat_time: datetime | None = None
    last_transition_time: datetime | None = None
    message: str | None = None
    reason: str | None = None


class NodeConfigSource(Model):
    """`active` of NodeConfigStatus, and others."""

    config_map: ConfigMapNodeConfigSource | None = None


class NodeConfigStatus(Model):
    """`config` of NodeStatus."""

    active: NodeConfigSource | None = None
    assigned: NodeConfigSource | None = None
    error: str | None = None
    last_known_good: NodeConfigSource | None = None


class NodeDaemonEndpoints(Model):
    """`daemonEndpoints` of NodeStatus."""

    kubelet_endpoint: DaemonEndpoint | None = None


class NodeFeatures(Model):
    """`features` of NodeStatus."""

    supplemental_groups_policy: bool | None = None


class NodeRuntimeHandlerFeatures(Model):
    """`features` of NodeRuntimeHandler."""

    recursive_read_only_mounts: bool | None = None
    user_namespaces: bool | None = None


class NodeRuntimeHandler(Model):
    """One of `runtimeHandlers` of NodeStatus."""

    features: NodeRuntimeHandlerFeatures | None = None
    name: str | None = None


class Taint(Model):
    """One of `taints` of NodeSpec."""

    effect: TaintEffect
    key: str
    time_added: datetime | None = None
    value: str | None = None


class NodeSpec(Spec):
    """`spec` of Node."""

    config_source: NodeConfigSource | None = None
    external_id: str | None = None
    pod_cidr: str | None = None
    pod_cidrs: Annotated[tuple[str, ...], ListSet()] = ()
    provider_id: str | None = None
    taints: tuple[Taint, ...] = ()
    unschedulable: bool | None = None


class NodeSwapStatus(Model):
    """`swap` of NodeSystemInfo."""

    capacity: int | None = None


class NodeSystemInfo(Model):
    """`nodeInfo` of NodeStatus."""

    architecture: str
    boot_id: str
    container_runtime_version: str
    kernel_version: str
    kube_proxy_version: str
    kubelet_version: str
    machine_id: str
    operating_system: str
    os_image: str
    system_uuid: str
    swap: NodeSwapStatus | None = None


class NodeStatus(Status):
    """`status` of Node."""

    addresses: Annotated[tuple[NodeAddress, ...], ListMap("type")] = ()
    allocatable: dict[str, Quantity] = {}
    capacity: dict[str, Quantity] = {}
    conditions: Annotated[tuple[NodeCondition, ...], ListMap("type")] = ()
    config: NodeConfigStatus | None = None
    daemon_endpoints: NodeDaemonEndpoints = NodeDaemonEndpoints()
    declared_features: tuple[str, ...] = ()
    features: NodeFeatures | None = None
    images: tuple[ContainerImage, ...] = ()
    node_info: NodeSystemInfo | None = None
    phase: str | None = None
    runtime_handlers: tuple[NodeRuntimeHandler, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    volumes_in_use: tuple[str, ...] = ()


class ComponentStatus(Object, api="v1", scope="Cluster", short_names=["cs"]):
    """The health of a part of the control plane; deprecated, no longer updated."""

    conditions: Annotated[tuple[ComponentCondition, ...], ListMap("type")] = ()

    @classmethod
    def new(
        cls,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        conditions: tuple[ComponentCondition, ...] = (),
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(name=name, labels=dict(labels or {}), annotations=dict(annotations or {}))
        return cls(metadata=metadata, conditions=conditions)


class Node(Resource[NodeSpec, NodeStatus], api="v1", scope="Cluster", short_names=["no"]):
    """A machine that runs Pods."""

    spec: NodeSpec = NodeSpec()

    @classmethod
    def new(
        cls,
        name: str,
        spec: NodeSpec | None = None,
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
