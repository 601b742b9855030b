"""Makes the nightly backup only if it runs at the right moment, and skips it if it is down at that time.

Modelled on percona/percona-server-mongodb-operator#2526 (a backup that is due while the operator is down is never
made). The fix makes each backup that is due and does not exist.
"""

from datetime import timedelta
from typing import Any

from levelset import Context, Controller, Resource, Spec, Status, requeue
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import Expected, config_map

__all__ = ["Schedule", "broken", "expected", "fixed"]

DUE = 1800.0
WINDOW = 30.0


class ScheduleStatus(Status):
    registered: bool = False


class Schedule(Resource[Spec, ScheduleStatus], api="zoo.example.dev/v1"):
    """One backup, half an hour after it was created."""


def seconds_left(schedule: Schedule, ctx: Context) -> float:
    assert schedule.metadata.creation_timestamp is not None
    return (schedule.metadata.creation_timestamp + timedelta(seconds=DUE) - ctx.now()).total_seconds()


def controllers(*, catches_up: bool) -> list[Controller[Any]]:
    async def reconcile(schedule: Schedule, ctx: Context) -> Any:
        if schedule.status is None:
            await ctx.set_status(schedule, ScheduleStatus(registered=True))
        left = seconds_left(schedule, ctx)
        if left > 0:
            return requeue(left)
        if catches_up or left > -WINDOW:
            await ctx.apply(config_map(schedule, f"{schedule.name}-backup", source="ledger"))
        return None

    return [Controller(Schedule, reconcile)]


async def scenario(user: Cluster) -> None:
    await user.create(Schedule.new("nightly", Spec()))
    await user.settled()


broken = Exploration(scenario, lambda: controllers(catches_up=False))
fixed = Exploration(scenario, lambda: controllers(catches_up=True))
expected = Expected("end state", "patch", "Schedule")
