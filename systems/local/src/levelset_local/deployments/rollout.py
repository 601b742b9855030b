"""The next sizes of a Deployment's ReplicaSets: rolling update, Recreate, and proportional scaling; pure.

During a rolling update there are never more than `desired + surge` Pods, and never fewer than `desired - unavailable`
of them available, unless available Pods fail on their own. To guarantee that, a step is taken only when the status of
each ReplicaSet has observed its latest spec: until then its counts are about an earlier size.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from levelset import replace
from levelset.kinds.apps_v1 import Deployment, DeploymentSpec, ReplicaSet, ReplicaSetStatus
from levelset_local.deployments import revisions
from levelset_local.pod_state import int_or_percent

__all__ = [
    "ReplicaSetSize",
    "RolloutLimits",
    "desired_replicas",
    "has_pods",
    "is_scaled",
    "next_sizes",
    "rolling_sizes",
    "rollout_limits",
    "scale_proportionally",
    "size_of",
    "with_size",
]

_NO_STATUS = ReplicaSetStatus(replicas=0)


class RolloutLimits(Struct, frozen=True):
    """The desired number of Pods, and how many more (surge) or fewer (unavailable) there may be during a rollout."""

    desired: int
    surge: int = 0
    unavailable: int = 0

    @property
    def max_total(self) -> int:
        """The most Pods that may exist at once."""
        return self.desired + self.surge if self.desired else 0

    @property
    def min_available(self) -> int:
        """The fewest Pods that must be available."""
        return self.desired - self.unavailable


class ReplicaSetSize(Struct, frozen=True, kw_only=True):
    """A ReplicaSet in numbers: `replicas` of its spec, and `current` and `available` of its status."""

    name: str
    replicas: int
    current: int = 0
    available: int = 0
    is_observed: bool = True
    """Whether the status has observed the latest spec."""
    created: datetime | None = None
    max_total: int | None = None
    """The most Pods that the Deployment allowed when this ReplicaSet was last scaled."""

    @property
    def serving(self) -> int:
        """How many of the desired Pods are available."""
        return min(self.replicas, self.available)


def rollout_limits(spec: DeploymentSpec) -> RolloutLimits:
    """The limits of a Deployment; if it allows neither, one Pod may be unavailable, or no step would be possible."""
    desired = 1 if spec.replicas is None else spec.replicas
    if spec.strategy.type == "Recreate":
        return RolloutLimits(desired)
    given = spec.strategy.rolling_update
    surge = int_or_percent("25%" if given is None or given.max_surge is None else given.max_surge, desired, up=True)
    max_unavailable = "25%" if given is None or given.max_unavailable is None else given.max_unavailable
    unavailable = int_or_percent(max_unavailable, desired, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return RolloutLimits(desired, surge, min(unavailable, desired))


def next_sizes(owner: Deployment, new: ReplicaSet | None, olds: Sequence[ReplicaSet]) -> dict[str, int]:
    """The next sizes of ReplicaSets by name; those without an entry keep their sizes."""
    limits = rollout_limits(owner.spec)
    if owner.spec.paused or is_scaled(owner, _all(new, olds)):
        return _scaled_sizes(owner, new, olds, limits)
    if owner.spec.strategy.type == "Recreate":
        # The new ReplicaSet starts only when the last Pod of the old ones is gone.
        may_start = new is not None and not any(has_pods(one) for one in olds)
        started = {new.name: limits.desired} if new is not None and may_start else {}
        return {**{one.name: 0 for one in olds}, **started}
    if new is None:
        return {}
    return rolling_sizes(size_of(new), [size_of(one) for one in olds], limits)


def rolling_sizes(new: ReplicaSetSize, olds: Sequence[ReplicaSetSize], limits: RolloutLimits) -> dict[str, int]:
    """The sizes by name after the next step of a rolling update from the old ReplicaSets to the new one."""
    scaled = replace(new, replicas=_scaled_up(new, olds, limits))
    return {new.name: scaled.replicas, **_scaled_down(scaled, olds, limits)}


def scale_proportionally(sizes: Sequence[ReplicaSetSize], limits: RolloutLimits) -> dict[str, int]:
    """The sizes by name after the Deployment was scaled during a rolling update: each ReplicaSet keeps its share.

    What is left after rounding is added to or taken from the largest.
    """
    total = sum(one.replicas for one in sizes)
    change = limits.max_total - total
    found: dict[str, int] = {}
    given = 0
    for one in _by_size(sizes, growing=change > 0):
        share = _share(one, limits, change, given)
        given += share
        found[one.name] = one.replicas + share
    for name, count in found.items():
        left = max(change - given, -count)
        found[name] += left
        given += left
    return found


def with_size(owned: ReplicaSet, sizes: Mapping[str, int], owner: Deployment) -> ReplicaSet:
    """The ReplicaSet with its next size; one with Pods is annotated with the limits of the Deployment."""
    limits = rollout_limits(owner.spec)
    before = desired_replicas(owned)
    size = sizes.get(owned.name, before)
    if size or size != before:
        marks = revisions.size_annotations(limits.desired, limits.max_total)
        owned = owned.with_metadata(annotations={**owned.metadata.annotations, **marks})
    return owned if owned.spec.replicas == size else owned.with_spec(replicas=size)


def is_scaled(owner: Deployment, sets: Sequence[ReplicaSet]) -> bool:
    """Whether the Deployment was scaled since its ReplicaSets were annotated with its size."""
    desired = str(rollout_limits(owner.spec).desired)
    annotated = [one.metadata.annotations.get(revisions.DESIRED_REPLICAS) for one in sets if desired_replicas(one)]
    return any(one is not None and one != desired for one in annotated)


def has_pods(owned: ReplicaSet) -> bool:
    """Whether a ReplicaSet may still have Pods, including terminating ones."""
    status = owned.status or _NO_STATUS
    is_observed = status.observed_generation >= owned.metadata.generation
    return bool(desired_replicas(owned) or not is_observed or status.replicas or status.terminating_replicas)


def size_of(owned: ReplicaSet) -> ReplicaSetSize:
    """A ReplicaSet in numbers."""
    status = owned.status or _NO_STATUS
    max_total = owned.metadata.annotations.get(revisions.MAX_REPLICAS, "")
    return ReplicaSetSize(
        name=owned.name,
        replicas=desired_replicas(owned),
        current=status.replicas,
        available=status.available_replicas,
        # A ReplicaSet that is not created yet has no spec to observe.
        is_observed=not owned.metadata.uid or status.observed_generation >= owned.metadata.generation,
        created=owned.metadata.creation_timestamp,
        max_total=int(max_total) if max_total.isascii() and max_total.isdigit() else None,
    )


def desired_replicas(owned: ReplicaSet) -> int:
    """The desired number of Pods of a ReplicaSet."""
    return 1 if owned.spec.replicas is None else owned.spec.replicas


def _scaled_sizes(
    owner: Deployment, new: ReplicaSet | None, olds: Sequence[ReplicaSet], limits: RolloutLimits
) -> dict[str, int]:
    """The sizes of a Deployment that was scaled or is paused: no rollout step is taken."""
    sets = _all(new, olds)
    active = [one for one in sets if desired_replicas(one)]
    if len(active) <= 1:
        latest = new if new is not None else max(olds, key=revisions.revision_of, default=None)
        only = active[0] if active else latest
        return {} if only is None else {only.name: limits.desired}
    if new is not None and _is_saturated(new, limits):
        return {one.name: 0 for one in olds}
    if owner.spec.strategy.type == "Recreate" or not is_scaled(owner, sets):
        return {}
    return scale_proportionally([size_of(one) for one in active], limits)


def _is_saturated(new: ReplicaSet, limits: RolloutLimits) -> bool:
    size = size_of(new)
    return size.is_observed and size.replicas == size.available == limits.desired


def _all(new: ReplicaSet | None, olds: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    return [*([] if new is None else [new]), *olds]


def _scaled_up(new: ReplicaSetSize, olds: Sequence[ReplicaSetSize], limits: RolloutLimits) -> int:
    if new.replicas >= limits.desired:
        return limits.desired
    if not _is_observed((new, *olds)):
        return new.replicas
    total = sum(max(one.replicas, one.current) for one in (new, *olds))
    return new.replicas + max(0, min(limits.max_total - total, limits.desired - new.replicas))


def _scaled_down(new: ReplicaSetSize, olds: Sequence[ReplicaSetSize], limits: RolloutLimits) -> dict[str, int]:
    sizes = {one.name: one.replicas for one in olds}
    spare = new.serving + sum(sizes.values()) - limits.min_available
    if spare <= 0 or not _is_observed((new, *olds)):
        return sizes
    ranked = sorted(olds, key=_age)
    for one in ranked:  # unavailable Pods first: deleting them loses no availability
        cut = min(one.replicas - one.serving, spare)
        sizes[one.name] -= cut
        spare -= cut
    spare = new.serving + sum(one.serving for one in olds) - limits.min_available
    for one in ranked:
        cut = max(0, min(sizes[one.name], spare))
        sizes[one.name] -= cut
        spare -= cut
    return sizes


def _is_observed(sizes: Iterable[ReplicaSetSize]) -> bool:
    return all(one.is_observed for one in sizes)


def _by_size(sizes: Sequence[ReplicaSetSize], *, growing: bool) -> list[ReplicaSetSize]:
    """The largest first; of equal ones the youngest first to grow, and the oldest first to shrink."""
    aged = sorted(sizes, key=_age, reverse=growing)
    return sorted(aged, key=lambda one: -one.replicas)


def _share(one: ReplicaSetSize, limits: RolloutLimits, change: int, given: int) -> int:
    if one.replicas == 0 or change in {0, given}:
        return 0
    if limits.max_total == 0:
        return -one.replicas
    before = one.max_total or limits.max_total
    share = math.floor(one.replicas * limits.max_total / before + 0.5) - one.replicas
    left = change - given
    return max(0, min(share, left)) if change > 0 else max(-one.replicas, min(0, max(share, left)))


def _age(one: ReplicaSetSize) -> tuple[float, str]:
    return (0.0 if one.created is None else one.created.timestamp()), one.name
