"""Job tracking with finalizers: counts the finished Pods of a Job, each exactly once, across crashes; pure.

A Pod has a finalizer until it is counted, so that none is deleted uncounted. Counting takes three writes: the Pod's uid
is added to `uncountedTerminatedPods`, then the finalizer is removed from the Pod, then the uid is replaced by a higher
count. After a crash the status and the finalizers show which of the writes are missing. A Pod with an index is counted
by its index: adding an index to a set twice has no effect, so no uid is needed.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from levelset.kinds.batch_v1 import Job, JobStatus, UncountedTerminatedPods
from levelset.kinds.core_v1 import Pod
from levelset_local import pod_state
from levelset_local.jobs.completion_indexes import format_indexes, index_of, parse_indexes
from levelset_local.jobs.policies import has_index_limit, index_fails, is_ignored

__all__ = ["FINALIZER", "PodCounts", "count_pods", "counts_as_failed", "has_finalizer", "is_indexed", "may_be_stale"]

FINALIZER: Final = "batch.kubernetes.io/job-tracking"


class PodCounts(Struct, frozen=True, kw_only=True):
    """The counted Pods, the uids of those that are still to be counted, and the Pods to release."""

    succeeded: int = 0
    failed: int = 0
    uncounted_succeeded: tuple[str, ...] = ()
    uncounted_failed: tuple[str, ...] = ()
    indexes: frozenset[int] = frozenset()
    failed_indexes: frozenset[int] = frozenset()
    release: tuple[Pod, ...] = ()
    """Pods whose finalizers can be removed once this is in the status."""

    @property
    def all_succeeded(self) -> int:
        """How many Pods have succeeded, counted or not."""
        return self.succeeded + len(self.uncounted_succeeded)

    @property
    def all_failed(self) -> int:
        """How many Pods have failed, counted or not."""
        return self.failed + len(self.uncounted_failed)

    @property
    def is_settled(self) -> bool:
        """Whether all finished Pods are counted."""
        return not self.release and not self.uncounted_succeeded and not self.uncounted_failed

    def uncounted(self) -> UncountedTerminatedPods:
        """The `uncountedTerminatedPods` of the status."""
        return UncountedTerminatedPods(succeeded=self.uncounted_succeeded, failed=self.uncounted_failed)

    def completed(self, owner: Job) -> str | None:
        """The `completedIndexes` of the status; None if the Job is not indexed."""
        return format_indexes(self.indexes) if is_indexed(owner) else None

    def all_failed_indexes(self, owner: Job) -> str | None:
        """The `failedIndexes` of the status; None if the indexes of the Job have no limit of their own."""
        return format_indexes(self.failed_indexes) if has_index_limit(owner) else None


def count_pods(owner: Job, pods: Sequence[Pod]) -> PodCounts:
    """Counts a Job's Pods, from its status and the Pods."""
    status = owner.status or JobStatus()
    noted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    tracked = {pod.metadata.uid: pod for pod in pods if has_finalizer(pod)}
    succeeded, failed = _still_tracked(noted.succeeded, tracked), _still_tracked(noted.failed, tracked)
    counted_succeeded = status.succeeded + len(noted.succeeded) - len(succeeded)
    counted_failed = status.failed + len(noted.failed) - len(failed)
    indexes = set(parse_indexes(status.completed_indexes))
    failed_indexes = set(parse_indexes(status.failed_indexes))
    release = [tracked[uid] for uid in (*succeeded, *failed)]
    for uid, pod in tracked.items():
        if uid in succeeded or uid in failed:
            continue
        if pod_state.has_succeeded(pod):
            release.append(pod)
            if is_indexed(owner):
                indexes.update(_own_index(owner, pod))
            else:
                succeeded.append(uid)
        elif counts_as_failed(owner, pod):
            release.append(pod)
            if is_ignored(owner, pod):
                continue
            failed.append(uid)
            if index_fails(owner, pods, pod):
                failed_indexes.update(_own_index(owner, pod))
    return PodCounts(
        succeeded=len(indexes) if is_indexed(owner) else counted_succeeded,
        failed=counted_failed,
        uncounted_succeeded=tuple(succeeded),
        uncounted_failed=tuple(failed),
        indexes=frozenset(indexes),
        failed_indexes=frozenset(failed_indexes - indexes),
        release=tuple(release),
    )


def may_be_stale(owner: Job, pods: Sequence[Pod]) -> bool:
    """Whether the Job or its Pods may come from a stale cache, so that they have to be read from the server.

    Either a Pod of `uncountedTerminatedPods` is missing (deleted, or not in the cache yet), or Pods without a finalizer
    are not in the counts of the Job.
    """
    status = owner.status or JobStatus()
    noted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    uncounted = {*noted.succeeded, *noted.failed}
    if uncounted - {pod.metadata.uid for pod in pods}:
        return True
    released = [pod for pod in pods if not has_finalizer(pod) and pod.metadata.uid not in uncounted]
    succeeded = [pod for pod in released if pod_state.has_succeeded(pod)]
    if is_indexed(owner):
        done = parse_indexes(status.completed_indexes)
        lacks = any(number not in done for pod in succeeded for number in _own_index(owner, pod))
    else:
        lacks = len(succeeded) > status.succeeded
    failed = sum(pod_state.has_failed(pod) and not is_ignored(owner, pod) for pod in released)
    return lacks or failed > status.failed


def has_finalizer(pod: Pod) -> bool:
    """Whether a Pod has the tracking finalizer, and is still to be counted."""
    return FINALIZER in pod.metadata.finalizers


def is_indexed(owner: Job) -> bool:
    """Whether the Pods of a Job have completion indexes."""
    return owner.spec.completion_mode == "Indexed"


def counts_as_failed(owner: Job, pod: Pod) -> bool:
    """Whether a Pod has failed, or was deleted before it could succeed.

    With the Pod replacement policy Failed, a deleted Pod counts only when its containers have stopped, which the node
    shows by a grace period of 0.
    """
    if pod_state.has_failed(pod):
        return True
    is_waiting = owner.spec.pod_replacement_policy == "Failed" and pod.metadata.deletion_grace_period_seconds != 0
    return pod_state.is_terminating(pod) and not is_waiting


def _still_tracked(uids: Iterable[str], tracked: dict[str, Pod]) -> list[str]:
    """The uids whose Pods still have the finalizer."""
    return [uid for uid in uids if uid in tracked]


def _own_index(owner: Job, pod: Pod) -> tuple[int, ...]:
    index = index_of(pod)
    most = owner.spec.completions or 0
    return (index,) if index is not None and index < most else ()
