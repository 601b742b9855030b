"""Pods, and what is made of their templates.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Self

from levelset.kinds.core_v1_references import ObjectReference
from levelset.kinds.core_v1_templates import PodSpec, PodTemplateSpec, ResourceRequirements
from levelset.kinds.enums import ConditionStatus, PodPhase, QOSClass, RecursiveReadOnly
from levelset.objects import (
    Atomic,
    ListMap,
    ListSet,
    Model,
    Object,
    ObjectMeta,
    Quantity,
    Resource,
    Scale,
    Spec,
    Status,
)

__all__ = [
    "Binding",
    "ContainerExtendedResourceRequest",
    "ContainerState",
    "ContainerStateRunning",
    "ContainerStateTerminated",
    "ContainerStateWaiting",
    "ContainerStatus",
    "ContainerUser",
    "HostIP",
    "ImageVolumeStatus",
    "LinuxContainerUser",
    "NodeAllocatableResourceClaimStatus",
    "Pod",
    "PodCondition",
    "PodExtendedResourceClaimStatus",
    "PodIP",
    "PodResourceClaimStatus",
    "PodStatus",
    "PodTemplate",
    "ReplicationController",
    "ReplicationControllerCondition",
    "ReplicationControllerSpec",
    "ReplicationControllerStatus",
    "ResourceHealth",
    "ResourceStatus",
    "VolumeMountStatus",
    "VolumeStatus",
]


class ContainerExtendedResourceRequest(Model):
    """One of `requestMappings` of PodExtendedResourceClaimStatus."""

    container_name: str
    request_name: str
    resource_name: str


class ContainerStateRunning(Model):
    """`running` of ContainerState."""

    started_at: datetime | None = None


class ContainerStateTerminated(Model):
    """`terminated` of ContainerState."""

    exit_code: int
    container_id: str | None = None
    finished_at: datetime | None = None
    message: str | None = None
    reason: str | None = None
    signal: int | None = None
    started_at: datetime | None = None


class ContainerStateWaiting(Model):
    """`waiting` of ContainerState."""

    message: str | None = None
    reason: str | None = None


class ContainerState(Model):
    """Whether a container is waiting, running or terminated."""

    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None
    waiting: ContainerStateWaiting | None = None


class ResourceHealth(Model):
    """One of `resources` of ResourceStatus."""

    resource_id: str
    health: str | None = None
    message: str | None = None


class ResourceStatus(Model):
    """One of `allocatedResourcesStatus` of ContainerStatus."""

    name: str
    resources: Annotated[tuple[ResourceHealth, ...], ListMap("resourceID")] = ()


class LinuxContainerUser(Model):
    """`linux` of ContainerUser."""

    gid: int
    uid: int
    supplemental_groups: tuple[int, ...] = ()


class ContainerUser(Model):
    """`user` of ContainerStatus."""

    linux: LinuxContainerUser | None = None


class ImageVolumeStatus(Model):
    """`image` of VolumeStatus."""

    image_ref: str


class VolumeStatus(Model):
    """`volumeStatus` of VolumeMountStatus."""

    image: ImageVolumeStatus | None = None


class VolumeMountStatus(Model):
    """One of `volumeMounts` of ContainerStatus."""

    mount_path: str
    name: str
    read_only: bool | None = None
    recursive_read_only: RecursiveReadOnly | None = None
    volume_status: VolumeStatus | None = None


class ContainerStatus(Model):
    """The state of a container of a Pod."""

    image: str
    image_id: str
    name: str
    ready: bool
    restart_count: int
    allocated_resources: dict[str, Quantity] = {}
    allocated_resources_status: Annotated[tuple[ResourceStatus, ...], ListMap("name")] = ()
    container_id: str | None = None
    last_state: ContainerState = ContainerState()
    resources: ResourceRequirements | None = None
    started: bool | None = None
    state: ContainerState = ContainerState()
    stop_signal: str | None = None
    user: ContainerUser | None = None
    volume_mounts: Annotated[tuple[VolumeMountStatus, ...], ListMap("mountPath")] = ()


class HostIP(Model):
    """One of `hostIPs` of PodStatus."""

    ip: str


class NodeAllocatableResourceClaimStatus(Model):
    """One of `nodeAllocatableResourceClaimStatuses` of PodStatus."""

    resource_claim_name: str
    resources: dict[str, Quantity]
    containers: Annotated[tuple[str, ...], ListSet()] = ()


class PodCondition(Model):
    """One of `conditions` of PodStatus."""

    status: ConditionStatus
    type: str
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None
    message: str | None = None
    observed_generation: int | None = None
    reason: str | None = None


class PodExtendedResourceClaimStatus(Model):
    """`extendedResourceClaimStatus` of PodStatus."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...]
    resource_claim_name: str


class PodIP(Model):
    """One of `podIPs` of PodStatus."""

    ip: str


class PodResourceClaimStatus(Model):
    """One of `resourceClaimStatuses` of PodStatus."""

    name: str
    resource_claim_name: str | None = None


class PodStatus(Status):
    """`status` of Pod."""

    allocated_resources: dict[str, Quantity] = {}
    conditions: Annotated[tuple[PodCondition, ...], ListMap("type")] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    host_ip: str | None = None
    host_ips: tuple[HostIP, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    message: str | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
    nominated_node_name: str | None = None
    observed_generation: int | None = None
    phase: PodPhase | None = None
    pod_ip: str | None = None
    pod_ips: Annotated[tuple[PodIP, ...], ListMap("ip")] = ()
    qos_class: QOSClass | None = None
    reason: str | None = None
    resize: str | None = None
    resource_claim_statuses: Annotated[tuple[PodResourceClaimStatus, ...], ListMap("name")] = ()
    resources: ResourceRequirements | None = None
    start_time: datetime | None = None


class ReplicationControllerCondition(Model):
    """One of `conditions` of ReplicationControllerStatus."""

    status: ConditionStatus
    type: str
    last_transition_time: datetime | None = None
    message: str | None = None
    reason: str | None = None


class ReplicationControllerSpec(Spec):
    """`spec` of ReplicationController."""

    min_ready_seconds: int | None = None
    replicas: int | None = None
    selector: Annotated[dict[str, str], Atomic()] = {}
    template: PodTemplateSpec | None = None


class ReplicationControllerStatus(Status):
    """`status` of ReplicationController."""

    replicas: int
    available_replicas: int = 0
    conditions: Annotated[tuple[ReplicationControllerCondition, ...], ListMap("type")] = ()
    fully_labeled_replicas: int = 0
    observed_generation: int = 0
    ready_replicas: int = 0


class Binding(Object, api="v1"):
    """The decision to run a Pod on a node."""

    target: Annotated[ObjectReference, Atomic()]

    @classmethod
    def new(
        cls,
        name: str,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        target: ObjectReference,
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        )
        return cls(metadata=metadata, target=target)


class Pod(Resource[PodSpec, PodStatus], api="v1", short_names=["po"], categories=["all"]):
    """Containers that run together on one node."""


class PodTemplate(Object, api="v1"):
    """A stored template for Pods."""

    template: PodTemplateSpec | None = None

    @classmethod
    def new(
        cls,
        name: str,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        template: PodTemplateSpec | None = None,
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        )
        return cls(metadata=metadata, template=template)


class ReplicationController(
    Resource[ReplicationControllerSpec, ReplicationControllerStatus],
    api="v1",
    short_names=["rc"],
    categories=["all"],
    scale=Scale(),
):
    """Runs a number of identical Pods; superseded by ReplicaSet."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()

    @classmethod
    def new(
        cls,
        name: str,
        spec: ReplicationControllerSpec | None = None,
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
