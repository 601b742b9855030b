"""The Pods of a Job at one look: who runs, who is too many, and who is missing; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from levelset.kinds.batch_v1 import Job
from levelset.kinds.core_v1 import Pod
from levelset_local import podstates
from levelset_local.jobs import timing
from levelset_local.jobs.counting import Tally, has_finalizer, is_indexed, tally
from levelset_local.jobs.indexes import index_of, missing_indexes

__all__ = ["Look", "look_at", "missing", "surplus", "terminating", "wanted"]


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a Job has found: all its Pods, how far they are counted, and which of them run.

    Who runs without a finalizer is a stray: it was about to be dropped when somebody was interrupted.
    """

    owner: Job
    pods: Sequence[Pod]
    count: Tally
    now: datetime
    active: tuple[Pod, ...] = ()
    strays: tuple[Pod, ...] = ()


def look_at(owner: Job, pods: Sequence[Pod], *, now: datetime) -> Look:
    """A look at a Job that has these Pods."""
    running = [pod for pod in pods if podstates.is_active(pod)]
    active = tuple(one for one in running if has_finalizer(one))
    strays = tuple(one for one in running if not has_finalizer(one))
    return Look(owner, pods, tally(owner, pods), now, active, strays)


def wanted(look: Look) -> int:
    """How many Pods should run now."""
    spec = look.owner.spec
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is not None:
        return max(0, min(parallelism, spec.completions - look.count.all_succeeded))
    # A queue of work: once one has succeeded, the others finish what is left, and no new ones begin.
    return min(parallelism, len(look.active)) if look.count.all_succeeded else parallelism


def surplus(look: Look) -> tuple[Pod, ...]:
    """Pods that are too many: those that got the least far."""
    doubles = _doubles(look) if is_indexed(look.owner) else ()
    rest = [pod for pod in look.active if pod not in doubles]
    more = len(rest) - wanted(look)
    ranked = sorted(rest, key=_progress)
    return (*doubles, *ranked[: max(0, more)])


def missing(look: Look) -> tuple[tuple[int | None, ...], datetime | None]:
    """The Pods to make now, or the time when they may be made."""
    owner = look.owner
    waiting = 0
    if owner.spec.pod_replacement_policy == "Failed":
        waiting = terminating(look)  # what is about to end may still succeed
    doubles = len(_doubles(look)) if is_indexed(owner) else 0
    more = wanted(look) - (len(look.active) - doubles) - waiting
    if more <= 0:
        return (), None
    at = timing.retry_at(owner, look.pods)
    if at is not None and at > look.now:
        return (), at
    if not is_indexed(owner):
        return (None,) * more, None
    busy = {index for pod in look.active if (index := index_of(pod)) is not None}
    return missing_indexes(owner.spec.completions or 0, look.count.indexes | busy, more), None


def terminating(look: Look) -> int:
    """How many are about to end."""
    return sum(podstates.is_terminating(pod) for pod in look.pods)


def _doubles(look: Look) -> tuple[Pod, ...]:
    """Pods that work on what is done, is worked on by another one, or is no part of the Job."""
    taken = set(look.count.indexes)
    found: list[Pod] = []
    for pod in sorted(look.active, key=_progress, reverse=True):
        index = index_of(pod)
        if index is None or index in taken or index >= (look.owner.spec.completions or 0):
            found.append(pod)
        else:
            taken.add(index)
    return tuple(found)


def _progress(pod: Pod) -> tuple[bool, bool, float, str]:
    at = pod.metadata.creation_timestamp
    bound = bool(pod.spec.node_name)
    return bound, podstates.is_ready(pod), 0.0 if at is None else -at.timestamp(), pod.name
