"""The CronJob controller: creates Jobs at the times of a schedule, deletes old ones, and writes the status."""

import asyncio
from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo

from levelset import Action, ApiError, Context, Controller, Retry, owns, requeue
from levelset.errors import AlreadyExists, Unreachable
from levelset.kinds.batch_v1 import CronJob, CronJobStatus, Job
from levelset.objects import (
    BadSchedule,
    CronSchedule,
    controller_of,
    parse_schedule,
    seconds_precision,
    split_time_zone,
)
from levelset_local.cronjobs.plan import Plan, make_plan, reference_to
from levelset_local.ownership import CACHE_LAG_SECONDS, matches_server, requeue_action
from levelset_local.slow_start import is_namespace_terminating

__all__ = ["cronjobs_controller"]


def cronjobs_controller(*, concurrency: int = 4) -> Controller[CronJob]:
    """The controller that creates the Jobs of each CronJob when they are due."""

    async def reconcile(owner: CronJob, ctx: Context) -> Action | None:
        jobs = await ctx.children(Job)
        schedule, zone = await _read_schedule(owner, ctx)
        plan = make_plan(owner, jobs, schedule, zone, now=ctx.now())
        if plan.create is not None and not await matches_server(ctx, owner):
            return requeue(CACHE_LAG_SECONDS)
        for note in plan.notes:
            ctx.record(owner, note.reason, note.message, warning=note.is_warning)
        for job in plan.delete:
            await ctx.delete(job, propagation="Background")
            ctx.record(owner, "SuccessfulDelete", f"Deleted job {job.name}", action="Delete", related=job)
        await ctx.set_status(owner, await _create(owner, plan, ctx))
        return requeue_action(ctx, plan.requeue_at, has_deleted=False)

    return Controller(CronJob, reconcile, owns(Job, metadata_only=False), concurrency=concurrency, name="cronjobs")


async def _read_schedule(owner: CronJob, ctx: Context) -> tuple[CronSchedule | None, tzinfo]:
    """The schedule of a CronJob and its time zone; no schedule if one of them is not valid here, with an Event."""
    named, text = split_time_zone(owner.spec.schedule)
    if named is not None:
        message = f'CRON_TZ or TZ used in schedule "{owner.spec.schedule}" is not officially supported, use timeZone'
        ctx.record(owner, "UnsupportedSchedule", message, warning=True)
    name = named or owner.spec.time_zone
    try:
        zone: tzinfo = UTC if name is None else await asyncio.to_thread(ZoneInfo, name)
    except (LookupError, ValueError, OSError) as error:
        ctx.record(owner, "UnknownTimeZone", f'invalid timeZone: "{name}": {error}', warning=True)
        return None, UTC
    try:
        return parse_schedule(text), zone
    except BadSchedule as error:
        ctx.record(owner, "UnparseableSchedule", f'unparseable schedule: "{text}" : {error}', warning=True)
        return None, zone


async def _create(owner: CronJob, plan: Plan, ctx: Context) -> CronJobStatus:
    """Creates the planned Job and returns the status with it; raises Retry if it cannot be created."""
    if plan.create is None or plan.scheduled_at is None:
        return plan.status
    try:
        made = await ctx.create(plan.create, owner=owner)
    except AlreadyExists:
        found = await ctx.live(plan.create.ref)
        controller = None if found is None else controller_of(found)
        if found is None or controller is None or controller.uid != owner.metadata.uid:
            return plan.status  # another Job has this name
        made = found
    except (ApiError, Unreachable) as error:
        if is_namespace_terminating(error):
            return plan.status
        ctx.record(owner, "FailedCreate", f"Error creating job: {error}", warning=True, action="Create")
        raise Retry(f"{plan.create.ref} cannot be created: {error}") from error
    else:
        ctx.record(owner, "SuccessfulCreate", f"Created job {made.name}", action="Create", related=made)
    return CronJobStatus(
        active=(*plan.status.active, reference_to(made)),
        last_schedule_time=seconds_precision(plan.scheduled_at),
        last_successful_time=plan.status.last_successful_time,
    )
