"""The next step of a Deployment: its ReplicaSets, its status, and when to reconcile again; pure.

```python
plan = make_plan(deployment, replica_sets, now=ctx.now())
```
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from levelset.kinds.apps_v1 import Deployment, DeploymentStatus, ReplicaSet
from levelset_local.deployments import revisions
from levelset_local.deployments.revisions import matches_template, new_replica_set
from levelset_local.deployments.rollout import desired_replicas, has_pods, is_scaled, next_sizes, with_size
from levelset_local.deployments.status import is_complete, make_status, progress_deadline_at

__all__ = ["Plan", "make_plan"]


class Plan(Struct, frozen=True, kw_only=True):
    """The next step of a Deployment."""

    status: DeploymentStatus
    new: ReplicaSet | None = None
    """The ReplicaSet to create, before any other write."""
    sets: tuple[ReplicaSet, ...] = ()
    """The existing ReplicaSets as they should be, those that scale up first."""
    delete: tuple[ReplicaSet, ...] = ()
    revision: str | None = None
    """The revision for the Deployment's annotation; None if it is up to date."""
    requeue_at: datetime | None = None
    """When the progress deadline is exceeded."""


def make_plan(owner: Deployment, sets: Sequence[ReplicaSet], *, now: datetime) -> Plan:
    """Plans the next step of a Deployment that controls these ReplicaSets."""
    ranked = sorted(sets, key=_age)
    current = next((one for one in ranked if matches_template(one, owner)), None)
    olds = [one for one in ranked if one is not current]
    if owner.metadata.deletion_timestamp is not None:
        return Plan(status=make_status(owner, current, olds, now=now))
    made = _missing(owner, current, olds)
    target = current if made is None else made
    sizes = next_sizes(owner, target, olds)
    status = make_status(owner, target, olds, now=now, is_new=made is not None)
    revised = None if target is None else with_size(_revised(owner, target, olds), sizes, owner)
    changed = [with_size(one, sizes, owner) for one in olds]
    if revised is not None and made is None:
        changed.append(revised)
    is_over = owner.spec.paused or is_complete(owner, status)
    return Plan(
        status=status,
        new=None if made is None else revised,
        sets=tuple(sorted(changed, key=lambda one: _growth(one, ranked), reverse=True)),
        delete=revisions.revisions_to_prune(owner, olds) if is_over else (),
        revision=_changed_revision(owner, revised),
        requeue_at=progress_deadline_at(owner, status.conditions),
    )


def _missing(owner: Deployment, current: ReplicaSet | None, olds: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The ReplicaSet for the current template, if it is missing and may be created now."""
    if current is not None or owner.spec.paused or is_scaled(owner, olds):
        return None
    if owner.spec.strategy.type == "Recreate" and any(has_pods(one) for one in olds):
        return None
    return new_replica_set(owner, replicas=0)


def _revised(owner: Deployment, new: ReplicaSet, olds: Sequence[ReplicaSet]) -> ReplicaSet:
    """The current ReplicaSet with its revision and the Deployment's `minReadySeconds`."""
    made = new.with_metadata(annotations=revisions.new_revision_annotations(owner, new, olds))
    if (made.spec.min_ready_seconds or 0) == (owner.spec.min_ready_seconds or 0):
        return made
    return made.with_spec(min_ready_seconds=owner.spec.min_ready_seconds)


def _changed_revision(owner: Deployment, revised: ReplicaSet | None) -> str | None:
    """The revision, if the Deployment's annotation differs."""
    number = None if revised is None else revised.metadata.annotations.get(revisions.REVISION)
    return None if number == owner.metadata.annotations.get(revisions.REVISION) else number


def _growth(changed: ReplicaSet, before: Sequence[ReplicaSet]) -> int:
    was = next(one for one in before if one.name == changed.name)
    return desired_replicas(changed) - desired_replicas(was)


def _age(owned: ReplicaSet) -> tuple[float, str]:
    at = owned.metadata.creation_timestamp
    return (0.0 if at is None else at.timestamp()), owned.name
