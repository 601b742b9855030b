"""The controllers of claims and volumes: bind claims to folders of this machine, and reclaim those folders."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from levelset import Action, Context, Controller, Ref, references, watches
from levelset.errors import AlreadyExists
from levelset.kinds.core_v1 import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    PersistentVolumeStatus,
)
from levelset.kinds.storage_v1 import StorageClass
from levelset.objects import seconds_precision
from levelset_local.node.claimed_volumes import is_provisioned, provisioned_folder
from levelset_local.node.mounts import remove_folder
from levelset_local.ownership import matches_server
from levelset_local.persistent_volumes.plan import (
    bound_volume,
    new_volume,
    plan_claim,
    volume_phase,
)

__all__ = ["claims_controller", "volumes_controller"]

_BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
_BOUND_BY_CONTROLLER = {"pv.kubernetes.io/bound-by-controller": "yes"}


def claims_controller(folder: Path, *, concurrency: int = 4) -> Controller[PersistentVolumeClaim]:
    """The controller that binds each claim to a volume, and makes one below the folder if none matches."""

    async def reconcile(claim: PersistentVolumeClaim, ctx: Context) -> Action | None:
        if claim.metadata.deletion_timestamp is not None:
            return None
        volumes = await ctx.list(PersistentVolume)
        storage_class = _storage_class(claim, ctx)
        plan = plan_claim(claim, volumes, storage_class)
        if plan.volume is None:
            ctx.record(claim, "ProvisioningFailed", plan.problem, warning=True)
            return None
        if plan.provisions:
            volume = await _provision(claim, storage_class, folder, ctx)
        else:
            volume = next(one for one in volumes if one.name == plan.volume)
        if volume is not None:
            await _bind(claim, volume, ctx)
        return None

    return Controller(
        PersistentVolumeClaim,
        reconcile,
        watches(PersistentVolume, to=_claim_of),
        references(StorageClass, _class_refs),
        concurrency=concurrency,
        name="persistent-volume-claims",
    )


def volumes_controller(folder: Path, *, concurrency: int = 4) -> Controller[PersistentVolume]:
    """The controller that maintains the phase of each volume, and removes its folder when its claim is gone."""

    async def reconcile(volume: PersistentVolume, ctx: Context) -> Action | None:
        if volume.metadata.deletion_timestamp is not None:
            return None
        claim = await _referenced_claim(volume, ctx)
        phase = volume_phase(volume, claim)
        before = volume.status or PersistentVolumeStatus()
        if before.phase != phase:
            since = seconds_precision(ctx.now())
            await ctx.set_status(volume, PersistentVolumeStatus(phase=phase, last_phase_transition_time=since))
        if not is_provisioned(volume):
            return None
        place = provisioned_folder(volume.name, folder)
        if phase == "Released" and volume.spec.persistent_volume_reclaim_policy == "Delete":
            await asyncio.to_thread(remove_folder, place)
            await ctx.delete(volume)
        elif phase == "Bound" and await asyncio.to_thread(_make_folder, place):
            message = (
                "The folder of this volume was gone, so it is empty now; "
                "with Options(folder=...) volumes outlive the manager"
            )
            ctx.record(volume, "VolumeFolderCreated", message, warning=True)
        return None

    return Controller(
        PersistentVolume,
        reconcile,
        references(PersistentVolumeClaim, _claim_of),
        concurrency=concurrency,
        name="persistent-volumes",
    )


def _claim_of(volume: PersistentVolume) -> Iterable[Ref[PersistentVolumeClaim]]:
    """The claim that a volume refers to."""
    ref = volume.spec.claim_ref
    return () if ref is None or not ref.name else (Ref(PersistentVolumeClaim, ref.name, ref.namespace),)


def _class_refs(claim: PersistentVolumeClaim) -> Iterable[Ref[StorageClass]]:
    name = claim.spec.storage_class_name
    return (Ref(StorageClass, name),) if name else ()


def _storage_class(claim: PersistentVolumeClaim, ctx: Context) -> StorageClass | None:
    return next((found for ref in _class_refs(claim) if (found := ctx.cached(ref)) is not None), None)


async def _provision(
    claim: PersistentVolumeClaim, storage_class: StorageClass | None, folder: Path, ctx: Context
) -> PersistentVolume | None:
    """Creates the folder and the volume of a claim; None if the claim has changed meanwhile."""
    if not await matches_server(ctx, claim):
        return None  # its event is on the way
    wanted = new_volume(claim, storage_class, folder)
    await asyncio.to_thread(_make_folder, provisioned_folder(wanted.name, folder))
    try:
        made = await ctx.create(wanted)
    except AlreadyExists:
        return await ctx.live(wanted.ref)
    ctx.record(claim, "ProvisioningSucceeded", f"Successfully provisioned volume {made.name}")
    return made


async def _bind(claim: PersistentVolumeClaim, volume: PersistentVolume, ctx: Context) -> None:
    """Writes the reference of the volume first: it is what decides which claim has the volume."""
    volume = await ctx.save(bound_volume(volume, claim))
    annotations = {**claim.metadata.annotations, **_BOUND}
    if not claim.spec.volume_name:
        annotations |= _BOUND_BY_CONTROLLER
    claim = await ctx.save(claim.with_metadata(annotations=annotations).with_spec(volume_name=volume.name))
    status = claim.status or PersistentVolumeClaimStatus()
    if status.phase != "Bound":
        modes, capacity = volume.spec.access_modes, volume.spec.capacity
        await ctx.set_status(claim, PersistentVolumeClaimStatus(phase="Bound", access_modes=modes, capacity=capacity))


async def _referenced_claim(volume: PersistentVolume, ctx: Context) -> PersistentVolumeClaim | None:
    """The claim of a volume; read from the server before it is taken for deleted, as its folder would be removed."""
    for ref in _claim_of(volume):
        found = ctx.cached(ref)
        uid = volume.spec.claim_ref.uid if volume.spec.claim_ref is not None else None
        return found if found is not None and found.metadata.uid == uid else await ctx.live(ref)
    return None


def _make_folder(place: Path) -> bool:
    """Creates a folder; returns whether it did not exist."""
    if place.is_dir():
        return False
    place.mkdir(mode=0o700, parents=True)
    return True
