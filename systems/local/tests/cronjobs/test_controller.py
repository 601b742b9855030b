"""The CronJob controller on a server, with Jobs and a fake kubelet, in virtual time."""

from collections.abc import Sequence
from typing import Any

import pytest

from levelset import MergePatch, Ref
from levelset.kinds.batch_v1 import CronJob, Job
from levelset.objects import controller_of
from levelset.testing import Cluster, faults
from levelset_local.cronjobs import cronjobs_controller
from levelset_local.cronjobs.plan import finished_as
from levelset_local.jobs import jobs_controller
from systems.local.tests.cluster_queries import events, status_of
from systems.local.tests.fake_kubelet import PodTimeline, kubelet
from systems.local.tests.samples import cron_job

TICK = Ref(CronJob, "tick")


def controllers(*, ends: float | None = 20.0) -> Sequence[Any]:
    return [cronjobs_controller(), jobs_controller(), kubelet(lambda pod: PodTimeline(ends=ends))]


async def jobs(cluster: Cluster) -> Sequence[Job]:
    return sorted(await cluster.list(Job, namespace="test"), key=lambda one: one.name)


async def test_jobs_are_created_at_their_times_and_pruned(cluster: Cluster) -> None:
    await cluster.create(cron_job("* * * * *", successfulJobsHistoryLimit=2))
    async with cluster.running(*controllers()):
        await cluster.advance(60 * 6)
        found = await jobs(cluster)
        assert len([one for one in found if finished_as(one) == "Complete"]) <= 3
        assert all(controller_of(one) is not None for one in found)
        tick = await cluster.get(TICK)
        assert status_of(tick).last_schedule_time is not None
        assert status_of(tick).last_successful_time is not None
        assert await events(cluster, "SuccessfulCreate") >= 5
        assert await events(cluster, "SawCompletedJob") >= 4


@pytest.mark.parametrize(("policy", "expected"), [("Allow", 3), ("Forbid", 1), ("Replace", 1)])
async def test_jobs_that_take_long_follow_the_concurrency_policy(cluster: Cluster, policy: str, expected: int) -> None:
    await cluster.create(cron_job("* * * * *", concurrencyPolicy=policy))
    async with cluster.running(*controllers(ends=None)):
        await cluster.advance(60 * 3 + 1)
        assert len(await jobs(cluster)) == expected
        assert len(status_of(await cluster.get(TICK)).active) == expected


async def test_a_suspended_cron_job_starts_again_when_it_is_resumed(cluster: Cluster) -> None:
    await cluster.create(cron_job("* * * * *", suspend=True))
    async with cluster.running(*controllers()):
        await cluster.advance(300)
        assert await jobs(cluster) == []
        await cluster.patch(TICK, MergePatch({"spec": {"suspend": False}}))
        await cluster.advance(61)
        assert 1 <= len(await jobs(cluster)) <= 2


async def test_its_jobs_are_deleted_with_a_cron_job(cluster: Cluster) -> None:
    await cluster.create(cron_job("* * * * *"))
    async with cluster.running(*controllers(ends=None)):
        await cluster.advance(90)
        (one, *_) = await jobs(cluster)
        await cluster.delete(TICK)
        await cluster.until_gone(TICK)
        await cluster.until_gone(one.ref, within=120)


async def test_a_job_is_created_once_whatever_is_lost(cluster: Cluster) -> None:
    injected = [
        faults.lost_response(verbs=("create",), kinds=("Job",), count=1),
        faults.conflict(share=0.4, verbs=("update", "patch"), seed=5),
    ]
    await cluster.create(cron_job("* * * * *", successfulJobsHistoryLimit=10))
    async with cluster.running(cronjobs_controller(), faults=injected), cluster.running(jobs_controller(), name="jobs"):
        await cluster.advance(60 * 4 + 30)
        found = await jobs(cluster)
        assert len(found) == len({one.name for one in found})
        assert 4 <= len(found) <= 5
