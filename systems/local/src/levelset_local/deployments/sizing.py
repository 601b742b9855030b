"""How many Pods each ReplicaSet of a Deployment should have next, whatever its strategy, paused or not; pure."""

from collections.abc import Mapping, Sequence

from levelset.kinds.apps_v1 import Deployment, ReplicaSet, ReplicaSetStatus
from levelset_local.deployments import revisions
from levelset_local.deployments.rolling import Limits, Size, limits_of, roll, spread

__all__ = ["has_pods", "is_resized", "next_sizes", "size_of", "sized", "wanted_of"]

_NO_STATUS = ReplicaSetStatus(replicas=0)


def next_sizes(owner: Deployment, new: ReplicaSet | None, olds: Sequence[ReplicaSet]) -> dict[str, int]:
    """The next sizes by name; who is not named keeps its size."""
    limits = limits_of(owner.spec)
    if owner.spec.paused or is_resized(owner, _all(new, olds)):
        return _resized(owner, new, olds, limits)
    if owner.spec.strategy.type == "Recreate":
        # The others go first, to the last of their Pods.
        may_start = new is not None and not any(has_pods(one) for one in olds)
        started = {new.name: limits.desired} if new is not None and may_start else {}
        return {**{one.name: 0 for one in olds}, **started}
    if new is None:
        return {}
    return roll(size_of(new), [size_of(one) for one in olds], limits)


def sized(owned: ReplicaSet, sizes: Mapping[str, int], owner: Deployment) -> ReplicaSet:
    """A ReplicaSet with its next size; one that has Pods remembers what it is a part of."""
    limits = limits_of(owner.spec)
    before = wanted_of(owned)
    size = sizes.get(owned.name, before)
    if size or size != before:
        marks = revisions.size_annotations(limits.desired, limits.most)
        owned = owned.with_metadata(annotations={**owned.metadata.annotations, **marks})
    return owned if owned.spec.replicas == size else owned.with_spec(replicas=size)


def is_resized(owner: Deployment, sets: Sequence[ReplicaSet]) -> bool:
    """Whether the Deployment's size is another one than its ReplicaSets know of."""
    desired = str(limits_of(owner.spec).desired)
    known = [one.metadata.annotations.get(revisions.DESIRED) for one in sets if wanted_of(one)]
    return any(one is not None and one != desired for one in known)


def has_pods(owned: ReplicaSet) -> bool:
    """Whether a Pod of it may still run, also one that is about to end."""
    status = owned.status or _NO_STATUS
    is_current = status.observed_generation >= owned.metadata.generation
    return bool(wanted_of(owned) or not is_current or status.replicas or status.terminating_replicas)


def size_of(owned: ReplicaSet) -> Size:
    """A ReplicaSet in numbers."""
    status = owned.status or _NO_STATUS
    room = owned.metadata.annotations.get(revisions.MOST, "")
    return Size(
        name=owned.name,
        wanted=wanted_of(owned),
        there=status.replicas,
        available=status.available_replicas,
        # One that was not made yet has nothing to take notice of.
        is_current=not owned.metadata.uid or status.observed_generation >= owned.metadata.generation,
        created=owned.metadata.creation_timestamp,
        room=int(room) if room.isascii() and room.isdigit() else None,
    )


def wanted_of(owned: ReplicaSet) -> int:
    """How many Pods a ReplicaSet is told to have."""
    return 1 if owned.spec.replicas is None else owned.spec.replicas


def _resized(owner: Deployment, new: ReplicaSet | None, olds: Sequence[ReplicaSet], limits: Limits) -> dict[str, int]:
    """The sizes after the Deployment's own size has changed, or while it is paused: templates stay as they are."""
    everybody = _all(new, olds)
    active = [one for one in everybody if wanted_of(one)]
    if len(active) <= 1:
        latest = new if new is not None else max(olds, key=revisions.revision_of, default=None)
        only = active[0] if active else latest
        return {} if only is None else {only.name: limits.desired}
    if new is not None and _is_saturated(new, limits):
        return {one.name: 0 for one in olds}
    if owner.spec.strategy.type == "Recreate" or not is_resized(owner, everybody):
        return {}
    return spread([size_of(one) for one in active], limits)


def _is_saturated(new: ReplicaSet, limits: Limits) -> bool:
    size = size_of(new)
    return size.is_current and size.wanted == size.available == limits.desired


def _all(new: ReplicaSet | None, olds: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    return [*([] if new is None else [new]), *olds]
