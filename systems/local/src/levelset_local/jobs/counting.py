"""Counts the Pods of a Job that have ended, each exactly once, whatever crashes when; pure.

A Pod keeps a finalizer until it has been counted, so that none vanishes before. Counting takes three writes: the Pod's
uid goes into `uncountedTerminatedPods`, then the finalizer comes off the Pod, then the uid becomes a number. Whoever is
interrupted finds in the status and in the Pod how far it was. A Pod with an index is counted by its index, a set that
may be written twice, and needs no uid for that.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from levelset.kinds.batch_v1 import Job, JobStatus, UncountedTerminatedPods
from levelset.kinds.core_v1 import Pod
from levelset_local import podstates
from levelset_local.jobs.indexes import format_indexes, index_of, parse_indexes

__all__ = ["FINALIZER", "Tally", "counts_as_failed", "has_finalizer", "is_doubtful", "is_indexed", "tally"]

FINALIZER: Final = "batch.kubernetes.io/job-tracking"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many have succeeded and failed for good, whose uids are still to be counted, and whose finalizers may go."""

    succeeded: int = 0
    failed: int = 0
    uncounted_succeeded: tuple[str, ...] = ()
    uncounted_failed: tuple[str, ...] = ()
    indexes: frozenset[int] = frozenset()
    release: tuple[Pod, ...] = ()

    @property
    def all_succeeded(self) -> int:
        """How many have succeeded, counted or about to be."""
        return self.succeeded + len(self.uncounted_succeeded)

    @property
    def all_failed(self) -> int:
        """How many have failed, counted or about to be."""
        return self.failed + len(self.uncounted_failed)

    @property
    def is_settled(self) -> bool:
        """Whether everybody who has ended has been counted."""
        return not self.release and not self.uncounted_succeeded and not self.uncounted_failed

    def uncounted(self) -> UncountedTerminatedPods:
        """What the status says of those that are still to be counted."""
        return UncountedTerminatedPods(succeeded=self.uncounted_succeeded, failed=self.uncounted_failed)

    def completed(self, owner: Job) -> str | None:
        """What the status says of the indexes that are done."""
        return format_indexes(self.indexes) if is_indexed(owner) else None


def tally(owner: Job, pods: Sequence[Pod]) -> Tally:
    """How far the counting of a Job's Pods is, after what the status says and the Pods show."""
    status = owner.status or JobStatus()
    noted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    held = {pod.metadata.uid: pod for pod in pods if has_finalizer(pod)}
    succeeded, failed = _still(noted.succeeded, held), _still(noted.failed, held)
    counted_succeeded = status.succeeded + len(noted.succeeded) - len(succeeded)
    counted_failed = status.failed + len(noted.failed) - len(failed)
    indexes = set(parse_indexes(status.completed_indexes))
    release = [held[uid] for uid in (*succeeded, *failed)]
    for uid, pod in held.items():
        if uid in succeeded or uid in failed:
            continue
        if podstates.has_succeeded(pod):
            release.append(pod)
            if is_indexed(owner):
                indexes.update(_own_index(owner, pod))
            else:
                succeeded.append(uid)
        elif counts_as_failed(owner, pod):
            release.append(pod)
            failed.append(uid)
    return Tally(
        succeeded=len(indexes) if is_indexed(owner) else counted_succeeded,
        failed=counted_failed,
        uncounted_succeeded=tuple(succeeded),
        uncounted_failed=tuple(failed),
        indexes=frozenset(indexes),
        release=tuple(release),
    )


def is_doubtful(owner: Job, pods: Sequence[Pod]) -> bool:
    """Whether the Job and its Pods, as they were read, may be of different times, so that only the server can tell.

    Either a uid was noted of a Pod that is not there (it has gone, or it has yet to be shown), or Pods were counted of
    which the Job does not know.
    """
    status = owner.status or JobStatus()
    noted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    known = {*noted.succeeded, *noted.failed}
    if known - {pod.metadata.uid for pod in pods}:
        return True
    past = [pod for pod in pods if not has_finalizer(pod) and pod.metadata.uid not in known]
    succeeded = [pod for pod in past if podstates.has_succeeded(pod)]
    if is_indexed(owner):
        done = parse_indexes(status.completed_indexes)
        lacks = any(number not in done for pod in succeeded for number in _own_index(owner, pod))
    else:
        lacks = len(succeeded) > status.succeeded
    return lacks or sum(podstates.has_failed(pod) for pod in past) > status.failed


def has_finalizer(pod: Pod) -> bool:
    """Whether a Pod waits to be counted."""
    return FINALIZER in pod.metadata.finalizers


def is_indexed(owner: Job) -> bool:
    """Whether each of the Job's Pods has a number to work on."""
    return owner.spec.completion_mode == "Indexed"


def counts_as_failed(owner: Job, pod: Pod) -> bool:
    """Whether a Pod has failed, or was deleted before it could succeed.

    A Job that replaces only what has failed waits until nothing runs any more: then there is no grace left.
    """
    if podstates.has_failed(pod):
        return True
    is_waiting = owner.spec.pod_replacement_policy == "Failed" and pod.metadata.deletion_grace_period_seconds != 0
    return podstates.is_terminating(pod) and not is_waiting


def _still(uids: Iterable[str], held: dict[str, Pod]) -> list[str]:
    """Those whose Pods have their finalizers yet."""
    return [uid for uid in uids if uid in held]


def _own_index(owner: Job, pod: Pod) -> tuple[int, ...]:
    index = index_of(pod)
    most = owner.spec.completions or 0
    return (index,) if index is not None and index < most else ()
