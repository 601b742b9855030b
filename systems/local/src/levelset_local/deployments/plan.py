"""What a Deployment needs: its ReplicaSets as they should be, its status, and when to look again; pure.

```python
plan = make_plan(deployment, its_replica_sets, now=ctx.now())
```
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from levelset.kinds.apps_v1 import Deployment, DeploymentStatus, ReplicaSet
from levelset_local.deployments import revisions
from levelset_local.deployments.conditions import late_at
from levelset_local.deployments.sizing import has_pods, is_resized, next_sizes, sized, wanted_of
from levelset_local.deployments.status import is_complete, make_status
from levelset_local.deployments.templates import has_template_of, new_set

__all__ = ["Plan", "make_plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The next step of a Deployment."""

    status: DeploymentStatus
    new: ReplicaSet | None = None
    """The ReplicaSet to make, before anything else."""
    sets: tuple[ReplicaSet, ...] = ()
    """The others as they should be, those that grow first."""
    delete: tuple[ReplicaSet, ...] = ()
    revision: str | None = None
    """What the Deployment's annotation should say; None to leave it."""
    look: datetime | None = None


def make_plan(owner: Deployment, sets: Sequence[ReplicaSet], *, now: datetime) -> Plan:
    """The next step of a Deployment that controls these ReplicaSets."""
    ranked = sorted(sets, key=_age)
    current = next((one for one in ranked if has_template_of(one, owner)), None)
    olds = [one for one in ranked if one is not current]
    if owner.metadata.deletion_timestamp is not None:
        return Plan(status=make_status(owner, current, olds, now=now))
    made = _missing(owner, current, olds)
    target = current if made is None else made
    sizes = next_sizes(owner, target, olds)
    status = make_status(owner, target, olds, now=now, is_made=made is not None)
    revised = None if target is None else sized(_revised(owner, target, olds), sizes, owner)
    changed = [sized(one, sizes, owner) for one in olds]
    if revised is not None and made is None:
        changed.append(revised)
    is_over = owner.spec.paused or is_complete(owner, status)
    return Plan(
        status=status,
        new=None if made is None else revised,
        sets=tuple(sorted(changed, key=lambda one: _growth(one, ranked), reverse=True)),
        delete=revisions.outdated(owner, olds) if is_over else (),
        revision=_news(owner, revised),
        look=late_at(owner, status.conditions),
    )


def _missing(owner: Deployment, current: ReplicaSet | None, olds: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The ReplicaSet that is missing, if now is the time to make it."""
    if current is not None or owner.spec.paused or is_resized(owner, olds):
        return None
    if owner.spec.strategy.type == "Recreate" and any(has_pods(one) for one in olds):
        return None
    return new_set(owner, replicas=0)


def _revised(owner: Deployment, new: ReplicaSet, olds: Sequence[ReplicaSet]) -> ReplicaSet:
    """The ReplicaSet that is rolled to, with its revision and what the Deployment says about its Pods."""
    made = new.with_metadata(annotations=revisions.annotations_of_new(owner, new, olds))
    if (made.spec.min_ready_seconds or 0) == (owner.spec.min_ready_seconds or 0):
        return made
    return made.with_spec(min_ready_seconds=owner.spec.min_ready_seconds)


def _news(owner: Deployment, revised: ReplicaSet | None) -> str | None:
    """The revision, if the Deployment does not say so yet."""
    number = None if revised is None else revised.metadata.annotations.get(revisions.REVISION)
    return None if number == owner.metadata.annotations.get(revisions.REVISION) else number


def _growth(changed: ReplicaSet, before: Sequence[ReplicaSet]) -> int:
    was = next(one for one in before if one.name == changed.name)
    return wanted_of(changed) - wanted_of(was)


def _age(owned: ReplicaSet) -> tuple[float, str]:
    at = owned.metadata.creation_timestamp
    return (0.0 if at is None else at.timestamp()), owned.name
