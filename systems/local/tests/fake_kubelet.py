"""A fake kubelet: binds Pods and sets their status, in virtual time, as a timeline says."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from levelset import Action, Context, Controller, replace, requeue
from levelset.kinds.core_v1 import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodCondition,
    PodStatus,
)

__all__ = ["PodTimeline", "kubelet", "ready_after"]


@dataclass(frozen=True)
class PodTimeline:
    """The life of a Pod in seconds: when it is ready and ends (None: never), its exit code, and how long it stops."""

    ready: float | None = 0.0
    ends: float | None = None
    code: int = 0
    stops: float = 0.0


def ready_after(seconds: float | None) -> Callable[[Pod], PodTimeline]:
    return lambda pod: PodTimeline(ready=seconds)


def kubelet(timeline: Callable[[Pod], PodTimeline] = lambda pod: PodTimeline()) -> Controller[Pod]:
    """A controller that runs Pods by their timelines; it has no state of its own."""

    async def reconcile(pod: Pod, ctx: Context) -> Action | None:
        now, its = ctx.now(), timeline(pod)
        if not pod.spec.node_name and pod.metadata.deletion_timestamp is None:
            pod = await ctx.save(replace(pod, spec=replace(pod.spec, node_name="local")))
        if pod.metadata.deletion_timestamp is not None:
            return await _stop(pod, its, ctx)
        started = (pod.status.start_time if pod.status else None) or now
        status, later = _status(pod, its, started, now)
        await ctx.set_status(pod, status)
        return later

    return Controller(Pod, reconcile, name="kubelet")


async def _stop(pod: Pod, its: PodTimeline, ctx: Context) -> Action | None:
    grace = timedelta(seconds=pod.metadata.deletion_grace_period_seconds or 0)
    since = (pod.metadata.deletion_timestamp or ctx.now()) - grace
    left = its.stops - (ctx.now() - since).total_seconds()
    if left > 0:
        return requeue(left)
    await ctx.client.delete(pod.ref, uid=pod.metadata.uid, grace=0, missing_ok=True)
    return None


def _status(pod: Pod, its: PodTimeline, started: datetime, now: datetime) -> tuple[PodStatus, Action | None]:
    age = (now - started).total_seconds()
    if its.ends is not None and age >= its.ends:
        at = started + timedelta(seconds=its.ends)
        ended = ContainerStateTerminated(exit_code=its.code, finished_at=at)
        state = ContainerState(terminated=ended)
        container = ContainerStatus(image="", image_id="", name="main", ready=False, restart_count=0, state=state)
        phase: Literal["Succeeded", "Failed"] = "Succeeded" if its.code == 0 else "Failed"
        return PodStatus(phase=phase, start_time=started, container_statuses=(container,)), None
    is_ready = its.ready is not None and age >= its.ready
    since = started + timedelta(seconds=its.ready or 0.0) if is_ready else started
    ready = PodCondition(type="Ready", status="True" if is_ready else "False", last_transition_time=since)
    waits = [one - age for one in (its.ready, its.ends) if one is not None and one > age]
    later = requeue(min(waits)) if waits else None
    return PodStatus(phase="Running", start_time=started, conditions=(ready,)), later
