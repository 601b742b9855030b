"""The controller of ExecutableReplicaSets: creates replicas, and removes surplus ones."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from random import Random
from typing import Final

from msgspec import Struct

from levelset import (
    Action,
    Context,
    Controller,
    MergePatch,
    NotFound,
    ObjectMeta,
    Ref,
    await_change,
    owns,
    replace,
    requeue,
    set_condition,
)
from levelset.objects import MicroTime
from levelset_dcp.kinds import Executable, ExecutableReplicaSet, ExecutableReplicaSetStatus, HealthStatus
from levelset_dcp.names import DISPLAY_NAME, REPLICA_ID, REPLICA_SET_NAME, REPLICA_STATE, finalizer

__all__ = ["PAUSE", "Scaling", "active_of", "plan", "replica_of", "replicasets_controller", "status_of"]

PAUSE: Final = 2.0
"""The minimum of seconds between two changes of the number of replicas."""
_LETTERS: Final = "0123456789abcdefghijklmnopqrstuv"
_FINAL: Final = ("Finished", "Terminated", "FailedToStart", "Unknown")


class Scaling(Struct, frozen=True):
    """The replicas to create, the surplus replicas to remove, or the seconds to wait."""

    create: int = 0
    surplus: tuple[Executable, ...] = ()
    wait: float | None = None


def active_of(replicas: Sequence[Executable]) -> Sequence[Executable]:
    """The replicas that count: neither inactive nor being deleted."""
    return [
        one
        for one in replicas
        if one.metadata.annotations.get(REPLICA_STATE) != "inactive" and one.metadata.deletion_timestamp is None
    ]


def plan(owner: ExecutableReplicaSet, active: Sequence[Executable], last: datetime | None, now: datetime) -> Scaling:
    """The step towards the desired number of replicas, at most one every `PAUSE` seconds."""
    wanted = owner.spec.replicas
    missing = wanted - len(active)
    if missing == 0:
        return Scaling()
    passed = PAUSE if last is None else (now - last).total_seconds()
    if passed < PAUSE and wanted > 0:
        return Scaling(wait=PAUSE - passed)
    if missing > 0:
        return Scaling(create=missing)
    return Scaling(surplus=tuple(sorted(active, key=_removal_order)[:-missing]))


def _removal_order(one: Executable) -> tuple[bool, float, str]:
    """The sort key of removal: finished replicas first, then the youngest."""
    state = one.status.state if one.status else ""
    made = one.metadata.creation_timestamp
    return state not in _FINAL, -(made.timestamp() if made else 0.0), one.name


def replica_of(owner: ExecutableReplicaSet, number: int, random: Random) -> Executable:
    """A new replica with a unique name."""
    template = owner.spec.template
    suffix = "".join(random.choice(_LETTERS) for _ in range(10))
    annotations = {
        **template.annotations,
        REPLICA_STATE: "active",
        DISPLAY_NAME: f"{owner.name}-{number}",
        REPLICA_ID: suffix,
        REPLICA_SET_NAME: owner.name,
        "otel-service-instance-id": suffix,
    }
    metadata = ObjectMeta(name=f"{owner.name}-{suffix}", labels=dict(template.labels), annotations=annotations)
    return Executable(metadata=metadata, spec=template.spec)


def status_of(
    owner: ExecutableReplicaSet, active: Sequence[Executable], scaled: datetime | None, now: datetime
) -> ExecutableReplicaSetStatus:
    """The new status of a set."""
    before = owner.status or ExecutableReplicaSetStatus()
    states = [one.status.state if one.status else "" for one in active]
    health = _health(owner.spec.replicas, active)
    conditions = set_condition(
        before.conditions,
        "Ready",
        health == "Healthy",
        now=now,
        reason="AllHealthy" if health == "Healthy" else "Unhealthy",
        message=f"{states.count('Running')} of {owner.spec.replicas} replicas are running",
        observed_generation=owner.metadata.generation,
    )
    return replace(
        before,
        observed_replicas=len(active),
        running_replicas=states.count("Running"),
        failed_replicas=states.count("FailedToStart"),
        finished_replicas=states.count("Finished"),
        last_scale_time=before.last_scale_time if scaled is None else MicroTime.of(scaled),
        health_status=health,
        conditions=conditions,
        observed_generation=owner.metadata.generation,
    )


def _health(wanted: int, active: Sequence[Executable]) -> HealthStatus:
    healthy = sum(one.status is not None and one.status.health_status == "Healthy" for one in active)
    if healthy >= wanted:
        return "Healthy"
    return "Caution" if healthy else "Unhealthy"


def replicasets_controller(*, random: Random | None = None) -> Controller[ExecutableReplicaSet]:
    """The controller of ExecutableReplicaSets; `random` generates the names of replicas."""
    generator = random or Random()  # noqa: S311 - for names that must differ, not for secrets

    async def reconcile(owner: ExecutableReplicaSet, ctx: Context) -> Action:
        return await _reconcile(owner, ctx, generator)

    return Controller(
        ExecutableReplicaSet,
        reconcile,
        owns(Executable, metadata_only=False),
        cleanup=_clean_up,
        finalizer=finalizer("executable-replica-set-reconciler"),
        name="dcp-replicasets",
    )


async def _reconcile(owner: ExecutableReplicaSet, ctx: Context, random: Random) -> Action:
    children = await ctx.children(Executable)
    active = active_of(children)
    last = owner.status.last_scale_time if owner.status else None
    scaling = plan(owner, active, last, ctx.now())
    scaled: datetime | None = ctx.now() if scaling.create or scaling.surplus else None
    if scaled is not None:
        await _act(
            scaling, owner, ctx, (replica_of(owner, len(children) + 1 + n, random) for n in range(scaling.create))
        )
        active = active_of(await ctx.children(Executable))
    await ctx.set_status(owner, status_of(owner, active, scaled, ctx.now()))
    return await_change() if scaling.wait is None else requeue(seconds=scaling.wait)


async def _act(scaling: Scaling, owner: ExecutableReplicaSet, ctx: Context, replicas: Iterable[Executable]) -> None:
    """Creates these replicas, and removes the surplus ones."""
    for one in replicas:
        await ctx.create(one, owner=owner)
    for one in scaling.surplus:
        await _remove_surplus(owner, one, ctx)
    ctx.record(owner, "Scaled", f"created {scaling.create} replicas, removed {len(scaling.surplus)}")


async def _remove_surplus(owner: ExecutableReplicaSet, one: Executable, ctx: Context) -> None:
    """Deletes a surplus replica, or, with stopOnScaleDown, stops it and marks it inactive."""
    ref = Ref(Executable, one.name)
    if not owner.spec.stop_on_scale_down:
        await ctx.delete(ref, propagation="Background")
        return
    change = {"metadata": {"annotations": {REPLICA_STATE: "inactive"}}, "spec": {"stop": True}}
    try:
        await ctx.patch(ref, MergePatch(change))
    except NotFound:
        return  # deleted already


async def _clean_up(owner: ExecutableReplicaSet, ctx: Context) -> Action | None:
    """Deletes all replicas, also inactive ones; the finalizer stays until they are gone."""
    children = await ctx.children(Executable)
    for one in children:
        if one.metadata.deletion_timestamp is None:
            await ctx.delete(Ref(Executable, one.name), propagation="Background")
    left = await ctx.children(Executable)
    await ctx.set_status(owner, status_of(owner, active_of(left), None, ctx.now()))
    return requeue(seconds=5.0) if left else None
