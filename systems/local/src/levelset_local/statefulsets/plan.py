"""The next step of a StatefulSet: which Pods and claims it creates, updates and deletes, and its status; pure.

With `OrderedReady`, a Pod is created when all Pods before it are available, and the Pods of a scale down are deleted
one by one, the last one first. With `Parallel` neither waits. A rolling update replaces one Pod at a time in either
case, the last one first, down to the `partition`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from levelset.kinds.apps_v1 import StatefulSet, StatefulSetStatus
from levelset.kinds.core_v1 import PersistentVolumeClaim, Pod
from levelset_local import pod_state
from levelset_local.controller_revisions import POD_REVISION, History, template_of
from levelset_local.statefulsets.identity import (
    claims_of,
    has_identity,
    has_stale_owner,
    new_pod,
    ordinal_of,
    ordinals,
    with_identity,
    with_retention,
)

__all__ = ["NewPod", "Plan", "make_plan"]


class NewPod(Struct, frozen=True):
    """A Pod to create, after those of its claims that do not exist."""

    pod: Pod
    claims: tuple[PersistentVolumeClaim, ...] = ()


class Plan(Struct, frozen=True, kw_only=True):
    """The next step of a StatefulSet."""

    status: StatefulSetStatus
    claims: tuple[PersistentVolumeClaim, ...] = ()
    """The claims to create for Pods that exist."""
    retained: tuple[PersistentVolumeClaim, ...] = ()
    """The claims to save, with the owners of the retention policy."""
    relabeled: tuple[Pod, ...] = ()
    """The Pods to save, with the labels of their identity."""
    create: tuple[NewPod, ...] = ()
    delete: tuple[Pod, ...] = ()
    is_waiting_for_claim: bool = False
    """Whether a claim of an earlier Pod has to be deleted before its Pod can be created."""
    requeue_at: datetime | None = None
    """When the next of its Pods becomes available."""


def make_plan(
    owner: StatefulSet,
    pods: Sequence[Pod],
    claims: Mapping[str, PersistentVolumeClaim],
    history: History,
    *,
    now: datetime,
) -> Plan:
    """Plans the next step of a StatefulSet that controls these Pods; `claims` are those that exist, by name."""
    planner = _Planner(owner, pods, claims, history, now)
    if owner.metadata.deletion_timestamp is None:
        planner.plan()
    return planner.result()


class _Planner:
    """Collects the steps; every method that returns a bool returns whether the Pods after it may be handled, too."""

    def __init__(
        self,
        owner: StatefulSet,
        pods: Sequence[Pod],
        claims: Mapping[str, PersistentVolumeClaim],
        history: History,
        now: datetime,
    ) -> None:
        self._owner = owner
        self._history = history
        self._now = now
        self._existing_claims = claims
        self._members = {ordinal_of(pod): pod for pod in pods}
        self._is_ordered = owner.spec.pod_management_policy != "Parallel"
        self._claims: list[PersistentVolumeClaim] = []
        self._retained: list[PersistentVolumeClaim] = []
        self._relabeled: list[Pod] = []
        self._create: list[NewPod] = []
        self._delete: list[Pod] = []
        self._is_waiting_for_claim = False

    def plan(self) -> None:
        """Plans the Pods that should exist, then the surplus ones, then the rolling update."""
        wanted = ordinals(self._owner)
        if not self._for_each(wanted, self._plan_replica):
            return
        surplus = sorted((one for one in self._members if one not in wanted), reverse=True)
        for ordinal in surplus:
            self._apply_retention(self._members[ordinal])
        if self._for_each(surplus, self._plan_surplus) and self._owner.spec.update_strategy.type != "OnDelete":
            self._plan_update()

    def result(self) -> Plan:
        """The plan of all steps that were collected."""
        return Plan(
            status=self._status(),
            claims=tuple(self._claims),
            retained=tuple(self._retained),
            relabeled=tuple(self._relabeled),
            create=tuple(self._create),
            delete=tuple(self._delete),
            is_waiting_for_claim=self._is_waiting_for_claim,
            requeue_at=pod_state.next_available_at(self._members.values(), self._min_ready, now=self._now),
        )

    @property
    def _min_ready(self) -> int:
        return self._owner.spec.min_ready_seconds or 0

    def _for_each(self, numbers: Iterable[int], step: Callable[[int], bool]) -> bool:
        return all(step(ordinal) or not self._is_ordered for ordinal in numbers)

    def _plan_replica(self, ordinal: int) -> bool:
        pod = self._members.get(ordinal)
        if pod is None:
            self._plan_create(ordinal)
            return False
        if pod_state.is_finished(pod):  # whatever its exit code was: it is replaced once it is gone
            if pod.metadata.deletion_timestamp is None:
                self._delete.append(pod)
            return False
        if pod.status is not None and pod.status.phase == "Pending":
            self._claims += self._missing_claims(ordinal)
        if not self._is_healthy(pod):
            return False
        if not has_identity(pod):
            self._relabeled.append(with_identity(pod))
        self._apply_retention(pod)
        return True

    def _plan_create(self, ordinal: int) -> None:
        name = f"{self._owner.name}-{ordinal}"
        present = [self._existing_claims.get(one.name) for one in claims_of(self._owner, ordinal)]
        if any(one is not None and (_is_deleted(one) or has_stale_owner(one, name)) for one in present):
            self._is_waiting_for_claim = True
            return
        revision = self._history.current if self._keeps_current(ordinal) else self._history.update
        template = template_of(revision) or self._owner.spec.template
        pod = new_pod(self._owner, ordinal, template, revision.name)
        self._create.append(NewPod(pod, tuple(self._missing_claims(ordinal))))

    def _keeps_current(self, ordinal: int) -> bool:
        """Whether a new Pod of this ordinal has the template from before the rolling update."""
        strategy = self._owner.spec.update_strategy
        if strategy.type == "OnDelete":
            return False
        status = self._owner.status
        if strategy.rolling_update is None:
            last = 0 if status is None else status.current_replicas
        else:
            last = strategy.rolling_update.partition or 0
        return ordinal < ordinals(self._owner).start + last

    def _missing_claims(self, ordinal: int) -> Iterable[PersistentVolumeClaim]:
        return (one for one in claims_of(self._owner, ordinal) if one.name not in self._existing_claims)

    def _apply_retention(self, pod: Pod) -> None:
        for template in claims_of(self._owner, ordinal_of(pod)):
            claim = self._existing_claims.get(template.name)
            if claim is None or _is_deleted(claim):
                continue
            wanted = with_retention(claim, self._owner, pod)
            if wanted is not claim:
                self._retained.append(wanted)

    def _plan_surplus(self, ordinal: int) -> bool:
        pod = self._members[ordinal]
        if _is_deleted(pod):
            return False
        if self._is_ordered and not self._is_healthy(pod) and pod is not self._first_unhealthy():
            return False
        self._delete.append(pod)
        return False

    def _first_unhealthy(self) -> Pod | None:
        wanted = ordinals(self._owner)
        ranked = [*wanted, *sorted(one for one in self._members if one not in wanted)]
        found = (self._members[one] for one in ranked if one in self._members)
        return next((one for one in found if not self._is_healthy(one)), None)

    def _plan_update(self) -> None:
        """Deletes the last Pod with another revision, if all updated Pods are available."""
        rolling = self._owner.spec.update_strategy.rolling_update
        partition = 0 if rolling is None else rolling.partition or 0
        for ordinal in reversed(ordinals(self._owner)[partition:]):
            pod = self._members.get(ordinal)
            if pod is None:
                return
            if _revision_of(pod) != self._history.update.name and not _is_deleted(pod):
                if all(one is not pod for one in self._delete):  # it may have finished, too
                    self._delete.append(pod)
                return
            if not self._is_healthy(pod):
                return

    def _is_healthy(self, pod: Pod) -> bool:
        """Whether a Pod is available and not being deleted."""
        return not _is_deleted(pod) and pod_state.is_available(pod, self._min_ready, now=self._now)

    def _status(self) -> StatefulSetStatus:
        owner, history = self._owner, self._history
        before = owner.status or StatefulSetStatus(replicas=0)
        pods = list(self._members.values())
        deleted = {pod.name for pod in self._delete}
        revisions = [_revision_of(pod) for pod in pods if not _is_deleted(pod) and pod.name not in deleted]
        updated, current, name = revisions.count(history.update.name), history.current.name, history.update.name
        ready = sum(pod_state.is_ready(pod) for pod in pods)
        is_rolling = owner.spec.update_strategy.type != "OnDelete"
        if is_rolling and updated == ready == len(pods) == len(ordinals(owner)):
            current = name  # the rolling update is complete
        return StatefulSetStatus(
            replicas=len(pods),
            ready_replicas=ready,
            available_replicas=sum(pod_state.is_available(pod, self._min_ready, now=self._now) for pod in pods),
            current_replicas=revisions.count(current),
            updated_replicas=updated,
            current_revision=current,
            update_revision=name,
            collision_count=before.collision_count or 0,
            observed_generation=owner.metadata.generation,
            conditions=before.conditions,
        )


def _is_deleted(obj: Pod | PersistentVolumeClaim) -> bool:
    return obj.metadata.deletion_timestamp is not None


def _revision_of(pod: Pod) -> str | None:
    return pod.metadata.labels.get(POD_REVISION)
