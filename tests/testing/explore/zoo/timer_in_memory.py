"""Lets a job expire by a timer in memory, which is lost with the process.

Modelled on dapr/dapr#3512 (timers are not persisted: they are lost on a restart, without a notice) and
sensu/sensu-go#2602. The fix derives from the object when it expires, and asks to be reconciled again then.
"""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

from levelset import Context, Controller, LevelsetError, Resource, Spec, Status, requeue
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import Expected

__all__ = ["Run", "broken", "expected", "fixed"]

LIFETIME = 3600.0


class RunStatus(Status):
    phase: str = ""


class Run(Resource[Spec, RunStatus], api="zoo.example.dev/v1"):
    """A run, which is deleted an hour after it was created."""


def remembering() -> list[Controller[Any]]:
    timers: dict[str, asyncio.Task[None]] = {}

    async def reconcile(run: Run, ctx: Context) -> None:
        if run.status is None:
            timers[run.name] = asyncio.create_task(expire(run, ctx), name=f"expiry of {run.name}")
            await ctx.set_status(run, RunStatus(phase="Waiting"))

    return [Controller(Run, reconcile)]


async def expire(run: Run, ctx: Context) -> None:
    await asyncio.sleep(LIFETIME)
    with suppress(LevelsetError):
        await ctx.client.delete(run.ref, missing_ok=True)


async def expire_when_due(run: Run, ctx: Context) -> Any:
    if run.status is None:
        await ctx.set_status(run, RunStatus(phase="Waiting"))
    assert run.metadata.creation_timestamp is not None
    left = run.metadata.creation_timestamp + timedelta(seconds=LIFETIME) - ctx.now()
    if left > timedelta(0):
        return requeue(left.total_seconds())
    await ctx.delete(run)
    return None


async def scenario(user: Cluster) -> None:
    await user.create(Run.new("nightly", Spec()))
    await user.settled()


broken = Exploration(scenario, remembering)
fixed = Exploration(scenario, lambda: [Controller(Run, expire_when_due)])
expected = Expected("leaked", "patch", "Run")
