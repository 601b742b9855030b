"""The kinds of storage.k8s.io/v1 and their parts.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Self

from levelset.kinds.core_v1_references import TopologySelectorTerm
from levelset.kinds.core_v1_volumes import PersistentVolumeSpec
from levelset.kinds.enums import FSGroupPolicy, ReclaimPolicy, VolumeBindingMode, VolumeLifecycleMode
from levelset.kinds.meta_v1 import LabelSelector
from levelset.objects import (
    Atomic,
    ListMap,
    ListSet,
    Model,
    Object,
    ObjectMeta,
    Quantity,
    Resource,
    Spec,
    Status,
    field,
)

__all__ = [
    "CSIDriver",
    "CSIDriverSpec",
    "CSINode",
    "CSINodeDriver",
    "CSINodeSpec",
    "CSIStorageCapacity",
    "StorageClass",
    "TokenRequest",
    "VolumeAttachment",
    "VolumeAttachmentSource",
    "VolumeAttachmentSpec",
    "VolumeAttachmentStatus",
    "VolumeAttributesClass",
    "VolumeError",
    "VolumeNodeResources",
]


class TokenRequest(Model):
    """One of `tokenRequests` of CSIDriverSpec."""

    audience: str
    expiration_seconds: int | None = None


class CSIDriverSpec(Spec):
    """`spec` of CSIDriver."""

    attach_required: bool | None = None
    fs_group_policy: FSGroupPolicy | None = None
    node_allocatable_update_period_seconds: int | None = None
    pod_info_on_mount: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None
    requires_republish: bool | None = None
    se_linux_mount: bool | None = None
    service_account_token_in_secrets: bool | None = None
    storage_capacity: bool | None = None
    token_requests: tuple[TokenRequest, ...] = ()
    volume_lifecycle_modes: Annotated[tuple[VolumeLifecycleMode, ...], ListSet()] = ()


class VolumeNodeResources(Model):
    """`allocatable` of CSINodeDriver."""

    count: int | None = None


class CSINodeDriver(Model):
    """One of `drivers` of CSINodeSpec."""

    name: str
    node_id: str
    allocatable: VolumeNodeResources | None = None
    topology_keys: tuple[str, ...] = ()


class CSINodeSpec(Spec):
    """`spec` of CSINode."""

    drivers: Annotated[tuple[CSINodeDriver, ...], ListMap("name")] = field(default_factory=lambda: ())


class VolumeAttachmentSource(Model):
    """`source` of VolumeAttachmentSpec."""

    inline_volume_spec: PersistentVolumeSpec | None = None
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Spec):
    """`spec` of VolumeAttachment."""

    attacher: str
    node_name: str
    source: VolumeAttachmentSource


class VolumeError(Model):
    """`attachError` of VolumeAttachmentStatus, and others."""

    error_code: int | None = None
    message: str | None = None
    time: datetime | None = None


class VolumeAttachmentStatus(Status):
    """`status` of VolumeAttachment."""

    attached: bool
    attach_error: VolumeError | None = None
    attachment_metadata: dict[str, str] = {}
    detach_error: VolumeError | None = None


class CSIDriver(Resource[CSIDriverSpec, None], api="storage.k8s.io/v1", scope="Cluster"):
    """A storage driver that is installed in the cluster, and what it can do."""


class CSINode(Resource[CSINodeSpec, None], api="storage.k8s.io/v1", scope="Cluster"):
    """The storage drivers that one node has."""


class CSIStorageCapacity(Object, api="storage.k8s.io/v1"):
    """The free capacity of a storage class in one topology segment."""

    storage_class_name: str
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None
    node_topology: Annotated[LabelSelector, Atomic()] | None = None

    @classmethod
    def new(
        cls,
        name: str,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        storage_class_name: str,
        capacity: Quantity | None = None,
        maximum_volume_size: Quantity | None = None,
        node_topology: LabelSelector | None = None,
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(
            name=name, namespace=namespace, labels=dict(labels or {}), annotations=dict(annotations or {})
        )
        return cls(
            metadata=metadata,
            storage_class_name=storage_class_name,
            capacity=capacity,
            maximum_volume_size=maximum_volume_size,
            node_topology=node_topology,
        )


class StorageClass(Object, api="storage.k8s.io/v1", scope="Cluster", short_names=["sc"]):
    """A way to make volumes."""

    provisioner: str
    allow_volume_expansion: bool | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()
    mount_options: tuple[str, ...] = ()
    parameters: dict[str, str] = {}
    reclaim_policy: ReclaimPolicy | None = None
    volume_binding_mode: VolumeBindingMode | None = None

    @classmethod
    def new(
        cls,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        provisioner: str,
        allow_volume_expansion: bool | None = None,
        allowed_topologies: tuple[TopologySelectorTerm, ...] = (),
        mount_options: tuple[str, ...] = (),
        parameters: Mapping[str, str] | None = None,
        reclaim_policy: ReclaimPolicy | None = None,
        volume_binding_mode: VolumeBindingMode | None = None,
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(name=name, labels=dict(labels or {}), annotations=dict(annotations or {}))
        return cls(
            metadata=metadata,
            provisioner=provisioner,
            allow_volume_expansion=allow_volume_expansion,
            allowed_topologies=allowed_topologies,
            mount_options=mount_options,
            parameters=dict(parameters or {}),
            reclaim_policy=reclaim_policy,
            volume_binding_mode=volume_binding_mode,
        )


class VolumeAttachment(
    Resource[VolumeAttachmentSpec, VolumeAttachmentStatus], api="storage.k8s.io/v1", scope="Cluster"
):
    """A request to attach a volume to a node."""


class VolumeAttributesClass(Object, api="storage.k8s.io/v1", scope="Cluster", short_names=["vac"]):
    """Properties of volumes that may change while they are used."""

    driver_name: str
    parameters: dict[str, str] = {}

    @classmethod
    def new(
        cls,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        driver_name: str,
        parameters: Mapping[str, str] | None = None,
    ) -> Self:
        """A new object that no server has seen yet."""
        metadata = ObjectMeta(name=name, labels=dict(labels or {}), annotations=dict(annotations or {}))
        return cls(metadata=metadata, driver_name=driver_name, parameters=dict(parameters or {}))
