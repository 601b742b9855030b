"""Volumes that outlive their Pods, and claims to them.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Self

from levelset.kinds.core_v1_references import NodeSelector, ObjectReference, SecretReference
from levelset.kinds.core_v1_templates import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    FCVolumeSource,
    FlockerVolumeSource,
    GCEPersistentDiskVolumeSource,
    HostPathVolumeSource,
    NFSVolumeSource,
    PersistentVolumeClaimSpec,
    PhotonPersistentDiskVolumeSource,
    PortworxVolumeSource,
    QuobyteVolumeSource,
    VsphereVirtualDiskVolumeSource,
)
from levelset.kinds.enums import AccessMode, ClaimPhase, ConditionStatus, ReclaimPolicy, VolumeMode, VolumePhase
from levelset.objects import Atomic, ListMap, Model, ObjectMeta, Quantity, Resource, Spec, Status

__all__ = [
    "AzureFilePersistentVolumeSource",
    "CSIPersistentVolumeSource",
    "CephFSPersistentVolumeSource",
    "CinderPersistentVolumeSource",
    "FlexPersistentVolumeSource",
    "GlusterfsPersistentVolumeSource",
    "ISCSIPersistentVolumeSource",
    "LocalVolumeSource",
    "ModifyVolumeStatus",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimCondition",
    "PersistentVolumeClaimStatus",
    "PersistentVolumeSpec",
    "PersistentVolumeStatus",
    "RBDPersistentVolumeSource",
    "ScaleIOPersistentVolumeSource",
    "StorageOSPersistentVolumeSource",
    "VolumeNodeAffinity",
]


class AzureFilePersistentVolumeSource(Model):
    """`azureFile` of PersistentVolumeSpec."""

    secret_name: str
    share_name: str
    read_only: bool | None = None
    secret_namespace: str | None = None


class CSIPersistentVolumeSource(Model):
    """`csi` of PersistentVolumeSpec."""

    driver: str
    volume_handle: str
    controller_expand_secret_ref: Annotated[SecretReference, Atomic()] | None = None
    controller_publish_secret_ref: Annotated[SecretReference, Atomic()] | None = None
    fs_type: str | None = None
    node_expand_secret_ref: Annotated[SecretReference, Atomic()] | None = None
    node_publish_secret_ref: Annotated[SecretReference, Atomic()] | None = None
    node_stage_secret_ref: Annotated[SecretReference, Atomic()] | None = None
    read_only: bool | None = None
    volume_attributes: dict[str, str] = {}


class CephFSPersistentVolumeSource(Model):
    """`cephfs` of PersistentVolumeSpec."""

    monitors: tuple[str, ...]
    path: str | None = None
    read_only: bool | None = None
    secret_file: str | None = None
    secret_ref: Annotated[SecretReference, Atomic()] | None = None
    user: str | None = None


class CinderPersistentVolumeSource(Model):
    """`cinder` of PersistentVolumeSpec."""

    volume_id: str
    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: Annotated[SecretReference, Atomic()] | None = None


class FlexPersistentVolumeSource(Model):
    """`flexVolume` of PersistentVolumeSpec."""

    driver: str
    fs_type: str | None = None
    options: dict[str, str] = {}
    read_only: bool | None = None
    secret_ref: Annotated[SecretReference, Atomic()] | None = None


class GlusterfsPersistentVolumeSource(Model):
    """`glusterfs` of PersistentVolumeSpec."""

    endpoints: str
    path: str
    endpoints_namespace: str | None = None
    read_only: bool | None = None


class ISCSIPersistentVolumeSource(Model):
    """`iscsi` of PersistentVolumeSpec."""

    iqn: str
    lun: int
    target_portal: str
    chap_auth_discovery: bool | None = None
    chap_auth_session: bool | None = None
    fs_type: str | None = None
    initiator_name: str | None = None
    iscsi_interface: str | None = None
    portals: tuple[str, ...] = ()
    read_only: bool | None = None
    secret_ref: Annotated[SecretReference, Atomic()] | None = None


class LocalVolumeSource(Model):
    """`local` of PersistentVolumeSpec."""

    path: str
    fs_type: str | None = None


class ModifyVolumeStatus(Model):
    """`modifyVolumeStatus` of PersistentVolumeClaimStatus."""

    status: str
    target_volume_attributes_class_name: str | None = None


class PersistentVolumeClaimCondition(Model):
    """One of `conditions` of PersistentVolumeClaimStatus."""

    status: ConditionStatus
    type: str
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None
    message: str | None = None
    reason: str | None = None


class PersistentVolumeClaimStatus(Status):
    """`status` of PersistentVolumeClaim."""

    access_modes: tuple[AccessMode, ...] = ()
    allocated_resource_statuses: dict[str, str] = {}
    allocated_resources: dict[str, Quantity] = {}
    capacity: dict[str, Quantity] = {}
    conditions: Annotated[tuple[PersistentVolumeClaimCondition, ...], ListMap("type")] = ()
    current_volume_attributes_class_name: str | None = None
    modify_volume_status: ModifyVolumeStatus | None = None
    phase: ClaimPhase | None = None


class VolumeNodeAffinity(Model):
    """`nodeAffinity` of PersistentVolumeSpec."""

    required: Annotated[NodeSelector, Atomic()] | None = None


class RBDPersistentVolumeSource(Model):
    """`rbd` of PersistentVolumeSpec."""

    image: str
    monitors: tuple[str, ...]
    fs_type: str | None = None
    keyring: str | None = None
    pool: str | None = None
    read_only: bool | None = None
    secret_ref: Annotated[SecretReference, Atomic()] | None = None
    user: str | None = None


class ScaleIOPersistentVolumeSource(Model):
    """`scaleIO` of PersistentVolumeSpec."""

    gateway: str
    secret_ref: Annotated[SecretReference, Atomic()]
    system: str
    fs_type: str | None = None
    protection_domain: str | None = None
    read_only: bool | None = None
    ssl_enabled: bool | None = None
    storage_mode: str | None = None
    storage_pool: str | None = None
    volume_name: str | None = None


class StorageOSPersistentVolumeSource(Model):
    """`storageos` of PersistentVolumeSpec."""

    fs_type: str | None = None
    read_only: bool | None = None
    secret_ref: Annotated[ObjectReference, Atomic()] | None = None
    volume_name: str | None = None
    volume_namespace: str | None = None


class PersistentVolumeSpec(Spec):
    """`spec` of PersistentVolume."""

    access_modes: tuple[AccessMode, ...] = ()
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFilePersistentVolumeSource | None = None
    capacity: dict[str, Quantity] = {}
    cephfs: CephFSPersistentVolumeSource | None = None
    cinder: CinderPersistentVolumeSource | None = None
    claim_ref: Annotated[ObjectReference, Atomic()] | None = None
    csi: CSIPersistentVolumeSource | None = None
    fc: FCVolumeSource | None = None
    flex_volume: FlexPersistentVolumeSource | None = None
    flocker: FlockerVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    glusterfs: GlusterfsPersistentVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    iscsi: ISCSIPersistentVolumeSource | None = None
    local: LocalVolumeSource | None = None
    mount_options: tuple[str, ...] = ()
    nfs: NFSVolumeSource | None = None
    node_affinity: VolumeNodeAffinity | None = None
    persistent_volume_reclaim_policy: ReclaimPolicy | None = None
    photon_persistent_disk: PhotonPersistentDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    quobyte: QuobyteVolumeSource | None = None
    rbd: RBDPersistentVolumeSource | None = None
    scale_io: ScaleIOPersistentVolumeSource | None = None
    storage_class_name: str | None = None
    storageos: StorageOSPersistentVolumeSource | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: VolumeMode | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None


class PersistentVolumeStatus(Status):
    """`status` of PersistentVolume."""

    last_phase_transition_time: datetime | None = None
    message: str | None = None
    phase: VolumePhase | None = None
    reason: str | None = None


class PersistentVolume(
    Resource[PersistentVolumeSpec, PersistentVolumeStatus], api="v1", scope="Cluster", short_names=["pv"]
):
    """A volume that outlives the Pods that use it."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()

    @classmethod
    def new(
        cls,
        name: str,
        spec: PersistentVolumeSpec | None = None,
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


class PersistentVolumeClaim(
    Resource[PersistentVolumeClaimSpec, PersistentVolumeClaimStatus], api="v1", short_names=["pvc"]
):
    """A request for a volume, and the volume that was bound to it."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()

    @classmethod
    def new(
        cls,
        name: str,
        spec: PersistentVolumeClaimSpec | None = None,
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
