"""Which volume a claim gets: one that exists and matches, or a new folder of this machine; pure.

As in Kubernetes, a claim gets the smallest volume that is sufficient, and keeps it. A claim without a storage class, or
with one whose provisioner is PROVISIONER, gets a new volume if none matches.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from levelset import Quantity
from levelset.kinds.core_v1 import (
    HostPathVolumeSource,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
)
from levelset.kinds.storage_v1 import StorageClass
from levelset_local.node.claimed_volumes import PROVISIONED_BY, PROVISIONER, provisioned_folder

__all__ = [
    "ClaimPlan",
    "VolumePhase",
    "bound_volume",
    "new_volume",
    "plan_claim",
    "volume_phase",
]

_NOTHING: Final = Quantity("0")

VolumePhase = Literal["Available", "Bound", "Released"]


class ClaimPlan(Struct, frozen=True):
    """The volume of a claim, whether it has to be created, or why there is none."""

    volume: str | None = None
    provisions: bool = False
    problem: str = ""


def plan_claim(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], storage_class: StorageClass | None
) -> ClaimPlan:
    """The volume that a claim should be bound to; `storage_class` is the one that it names, if that exists."""
    candidates = [one for one in volumes if one.metadata.deletion_timestamp is None]
    bound = next((one for one in candidates if _is_bound_to(one, claim)), None)
    if bound is not None:
        return ClaimPlan(bound.name)
    if claim.spec.volume_name:
        named = next((one for one in candidates if one.name == claim.spec.volume_name), None)
        if named is not None and _is_reserved_for(named, claim):
            return ClaimPlan(named.name)
        return ClaimPlan(problem=f'volume "{claim.spec.volume_name}" does not exist, or is bound to another claim')
    matching = [one for one in candidates if _is_reserved_for(one, claim) and _is_sufficient(one, claim)]
    if matching:
        # A volume that names the claim comes first, then the smallest one.
        best = min(matching, key=lambda one: (one.spec.claim_ref is None, _size(one.spec.capacity), one.name))
        return ClaimPlan(best.name)
    problem = _why_not_provisioned(claim, storage_class)
    return ClaimPlan(problem=problem) if problem else ClaimPlan(f"pvc-{claim.metadata.uid}", provisions=True)


def new_volume(claim: PersistentVolumeClaim, storage_class: StorageClass | None, folder: Path) -> PersistentVolume:
    """The volume to create for a claim: a folder of this machine, below that of the node."""
    name = f"pvc-{claim.metadata.uid}"
    path = provisioned_folder(name, folder)
    policy = None if storage_class is None else storage_class.reclaim_policy
    spec = PersistentVolumeSpec(
        access_modes=claim.spec.access_modes,
        capacity={"storage": _size(claim.spec.resources.requests)},
        claim_ref=_reference(claim),
        host_path=HostPathVolumeSource(path=str(path), type="DirectoryOrCreate"),
        persistent_volume_reclaim_policy=policy or "Delete",
        storage_class_name=claim.spec.storage_class_name,
        volume_mode="Filesystem",
    )
    return PersistentVolume.new(name, spec, annotations={PROVISIONED_BY: PROVISIONER})


def bound_volume(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume with a reference to its claim."""
    return volume if _is_bound_to(volume, claim) else volume.with_spec(claim_ref=_reference(claim))


def volume_phase(volume: PersistentVolume, claim: PersistentVolumeClaim | None) -> VolumePhase:
    """The phase of a volume; `claim` is the claim that it refers to, None if it does not exist."""
    ref = volume.spec.claim_ref
    if ref is None or not ref.uid:
        return "Available"
    return "Bound" if claim is not None and claim.metadata.uid == ref.uid else "Released"


def _reference(claim: PersistentVolumeClaim) -> ObjectReference:
    return ObjectReference(
        api_version="v1",
        kind="PersistentVolumeClaim",
        name=claim.name,
        namespace=claim.namespace,
        uid=claim.metadata.uid,
        resource_version=claim.metadata.resource_version,
    )


def _is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    ref = volume.spec.claim_ref
    return ref is not None and ref.uid == claim.metadata.uid


def _is_reserved_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume has no claim, or names this one without its uid."""
    ref = volume.spec.claim_ref
    return ref is None or (not ref.uid and (ref.name, ref.namespace) == (claim.name, claim.namespace))


def _is_sufficient(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    selector = claim.spec.selector
    return (
        (volume.spec.host_path is not None or volume.spec.local is not None)
        and (volume.spec.storage_class_name or "") == (claim.spec.storage_class_name or "")
        and (volume.spec.volume_mode or "Filesystem") == (claim.spec.volume_mode or "Filesystem")
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        and _size(volume.spec.capacity) >= _size(claim.spec.resources.requests)
        and (selector is None or selector.selector.matches(volume.metadata.labels))
    )


def _why_not_provisioned(claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> str:
    """Why a claim gets no new volume; empty if it does."""
    name = claim.spec.storage_class_name
    if claim.spec.volume_mode == "Block":
        return "this machine has no block devices for Pods; use volumeMode: Filesystem"
    if claim.spec.selector is not None:
        return "a claim with a selector is bound to an existing volume only, and none matches"
    if name is None:
        return ""
    if not name:
        return 'no volume matches, and the storage class "" means that none is created'
    if storage_class is None:
        return f'storageclass.storage.k8s.io "{name}" not found; create it with the provisioner {PROVISIONER}'
    if storage_class.provisioner != PROVISIONER:
        return f'the provisioner of storage class "{name}" does not run here; use {PROVISIONER}'
    return ""


def _size(amounts: dict[str, Quantity]) -> Quantity:
    return amounts.get("storage", _NOTHING)
