"""The volumes of a Pod's claims: which claims it references, and where their volumes are on this machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from levelset import Context, Ref
from levelset.kinds.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod

__all__ = [
    "PROVISIONED_BY",
    "PROVISIONER",
    "ClaimedVolume",
    "claim_refs",
    "claimed_volumes",
    "is_provisioned",
    "provisioned_folder",
    "volume_folder",
]

PROVISIONER: Final = "local.levelset.dev"
"""The provisioner of volumes that are folders of this machine, for StorageClasses."""
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"


class ClaimedVolume(Struct, frozen=True):
    """The path on this machine of the volume that a claim is bound to; None if it is not bound to one."""

    path: str | None = None
    type: str = ""
    """What must be there, as for a hostPath."""


def claim_refs(pod: Pod) -> Iterator[Ref[PersistentVolumeClaim]]:
    """The claims that a Pod references, each once."""
    sources = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    for name in dict.fromkeys(one.claim_name for one in sources if one is not None):
        yield Ref(PersistentVolumeClaim, name, pod.namespace)


def claimed_volumes(pod: Pod, folder: Path, ctx: Context) -> dict[str, ClaimedVolume]:
    """The volumes of those claims of a Pod that exist, by the name of the claim; `folder` is that of the node."""
    claims = ((ref.name, ctx.cached(ref)) for ref in claim_refs(pod))
    return {name: _claimed_volume(claim, folder, ctx) for name, claim in claims if claim is not None}


def _claimed_volume(claim: PersistentVolumeClaim, folder: Path, ctx: Context) -> ClaimedVolume:
    is_bound = claim.status is not None and claim.status.phase == "Bound"
    volume = ctx.cached(Ref(PersistentVolume, claim.spec.volume_name or "")) if is_bound else None
    place = None if volume is None else volume_folder(volume, folder)
    if volume is None or place is None:
        return ClaimedVolume()
    source = volume.spec.host_path
    return ClaimedVolume(str(place), "Directory" if source is None else source.type or "")


def is_provisioned(volume: PersistentVolume) -> bool:
    """Whether a volume is a folder that was made for its claim."""
    return volume.metadata.annotations.get(PROVISIONED_BY) == PROVISIONER


def volume_folder(volume: PersistentVolume, folder: Path) -> Path | None:
    """The folder or file of a volume; None if it is of a type that this machine does not have.

    That of a provisioned volume is below the folder of the node, which may have moved since it was created.
    """
    if is_provisioned(volume):
        return provisioned_folder(volume.name, folder)
    source = volume.spec.host_path or volume.spec.local
    return None if source is None else Path(source.path)


def provisioned_folder(name: str, folder: Path) -> Path:
    """The folder of the provisioned volume of this name."""
    return folder / "persistent-volumes" / name
