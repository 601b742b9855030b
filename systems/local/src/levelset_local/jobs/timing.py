"""When something is due for a Job: the next try after failures, its deadline, and its removal; pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from levelset.kinds.batch_v1 import Job, JobCondition
from levelset.kinds.core_v1 import Pod
from levelset_local import podstates
from levelset_local.jobs.counting import counts_as_failed

__all__ = ["FIRST_DELAY", "LONGEST_DELAY", "deadline_of", "delay_after", "expires_at", "retry_at"]

FIRST_DELAY: Final = 10.0
LONGEST_DELAY: Final = 360.0


def delay_after(failures: int) -> float:
    """For how many seconds to wait after so many failures in a row."""
    if failures <= 0:
        return 0.0
    return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(failures - 1, 30))


def retry_at(owner: Job, pods: Sequence[Pod]) -> datetime | None:
    """When the next Pod may be made, after those that failed since the last success; None for at once.

    It is computed from the Pods themselves, so that a restart changes nothing about it.
    """
    successes = [at for pod in pods if podstates.has_succeeded(pod) and (at := podstates.finished_at(pod)) is not None]
    last = max(successes, default=None)
    failed = (pod for pod in pods if counts_as_failed(owner, pod))
    times = [at for pod in failed if (at := podstates.finished_at(pod)) is not None and (last is None or at > last)]
    return max(times) + timedelta(seconds=delay_after(len(times))) if times else None


def deadline_of(owner: Job, started: datetime | None) -> datetime | None:
    """When the Job must be done; None if it may take its time."""
    seconds = owner.spec.active_deadline_seconds
    return None if seconds is None or started is None else started + timedelta(seconds=seconds)


def expires_at(owner: Job, finished: JobCondition) -> datetime | None:
    """When a Job that has finished is deleted; None if it stays."""
    seconds, at = owner.spec.ttl_seconds_after_finished, finished.last_transition_time
    return None if seconds is None or at is None else at + timedelta(seconds=seconds)
