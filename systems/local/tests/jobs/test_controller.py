"""The Job controller on a server, with a fake kubelet."""

from collections.abc import Callable
from typing import Any

import pytest

from levelset import MergePatch, Ref
from levelset.kinds.batch_v1 import Job
from levelset.kinds.core_v1 import Pod
from levelset.objects import controller_of
from levelset.testing import START, Cluster, faults
from levelset_local import pod_state
from levelset_local.jobs import FINALIZER, jobs_controller
from levelset_local.jobs.completion_indexes import INDEX
from systems.local.tests.cluster_queries import events, status_of, versions
from systems.local.tests.fake_kubelet import PodTimeline, kubelet
from systems.local.tests.samples import job

SUM = Ref(Job, "sum")


def node(*codes: int, seconds: float = 5.0) -> Any:
    """A fake kubelet whose Pods end with these exit codes, one after the other, and all later ones with 0."""
    timelines: dict[str, PodTimeline] = {}

    def timeline(pod: Pod) -> PodTimeline:
        code = codes[len(timelines)] if len(timelines) < len(codes) else 0
        return timelines.setdefault(pod.name, PodTimeline(ends=seconds, code=code, stops=1.0))

    return kubelet(timeline)


def has(kind: str, reason: str | None = None) -> Callable[[Job], bool]:
    def holds(it: Job) -> bool:
        found = () if it.status is None else it.status.conditions
        return any(one.type == kind and one.status == "True" and reason in {None, one.reason} for one in found)

    return holds


async def pods(cluster: Cluster) -> list[Pod]:
    return list(await cluster.list(Pod, namespace="test"))


async def test_a_job_runs_to_completion(cluster: Cluster) -> None:
    await cluster.create(job(completions=5, parallelism=2))
    async with cluster.running(jobs_controller(), node()):
        found = await cluster.until(SUM, has("Complete"))
        assert (status_of(found).succeeded, status_of(found).failed, status_of(found).active) == (5, 0, 0)
        assert status_of(found).completion_time is not None
        assert has("SuccessCriteriaMet")(found)
        await cluster.settled()
        assert [one.metadata.finalizers for one in await pods(cluster)] == [()] * 5
        assert await events(cluster, "Completed") == 1


async def test_pods_of_a_job_have_its_finalizer_labels_and_owner_reference(cluster: Cluster) -> None:
    owner = await cluster.create(job())
    async with cluster.running(jobs_controller()):
        await cluster.settled()
        [found] = await pods(cluster)
        assert found.metadata.finalizers == (FINALIZER,)
        assert found.metadata.labels["batch.kubernetes.io/job-name"] == "sum"
        reference = controller_of(found)
        assert reference is not None
        assert reference.uid == owner.metadata.uid


async def test_failed_pods_are_replaced_after_the_back_off(cluster: Cluster) -> None:
    await cluster.create(job(backoffLimit=4))
    async with cluster.running(jobs_controller(), node(1, 1)):
        found = await cluster.until(SUM, has("Complete"), within=300)
        assert (status_of(found).succeeded, status_of(found).failed) == (1, 2)
        begun = sorted(one.metadata.creation_timestamp or START for one in await pods(cluster))
        assert [(at - begun[0]).total_seconds() for at in begun] == [0, 15, 40]


async def test_the_back_off_survives_a_restart(cluster: Cluster) -> None:
    await cluster.create(job(backoffLimit=4))
    async with cluster.running(jobs_controller(), node(1)):
        await cluster.advance(8)
    async with cluster.running(jobs_controller()):
        await cluster.advance(6.9)
        assert len(await pods(cluster)) == 1
        await cluster.advance(0.1)
        assert len(await pods(cluster)) == 2


async def test_exceeding_the_backoff_limit_fails_the_job(cluster: Cluster) -> None:
    await cluster.create(job(completions=3, parallelism=3, backoffLimit=1))
    async with cluster.running(jobs_controller(), node(1, 1, 0)):
        found = await cluster.until(SUM, has("Failed", "BackoffLimitExceeded"), within=300)
        assert has("FailureTarget")(found)
        assert (status_of(found).failed, status_of(found).succeeded, status_of(found).active) == (2, 1, 0)
        assert await events(cluster, "BackoffLimitExceeded") == 1


async def test_the_active_deadline_fails_the_job_at_the_exact_time(cluster: Cluster) -> None:
    await cluster.create(job(activeDeadlineSeconds=30))
    async with cluster.running(jobs_controller(), node(seconds=1000.0)):
        await cluster.advance(29.9)
        assert not has("FailureTarget")(await cluster.get(SUM))
        await cluster.advance(0.1)
        await cluster.until(SUM, has("Failed", "DeadlineExceeded"), within=5)
        assert not [one for one in await pods(cluster) if pod_state.is_active(one)]


async def test_a_job_can_be_suspended_and_resumed(cluster: Cluster) -> None:
    await cluster.create(job(completions=2, parallelism=2, backoffLimit=0))
    async with cluster.running(jobs_controller(), node(seconds=50.0)):
        await cluster.advance(10)
        await cluster.patch(SUM, MergePatch({"spec": {"suspend": True}}))
        await cluster.until(SUM, has("Suspended", "JobSuspended"))
        await cluster.advance(5)
        assert await pods(cluster) == []
        await cluster.patch(SUM, MergePatch({"spec": {"suspend": False}}))
        found = await cluster.until(SUM, has("Complete"), within=100)
        assert status_of(found).failed == 0
        assert (await events(cluster, "Suspended"), await events(cluster, "Resumed")) == (1, 1)


async def test_parallelism_can_be_changed(cluster: Cluster) -> None:
    await cluster.create(job(completions=9, parallelism=4))
    async with cluster.running(jobs_controller(), node(seconds=50.0)):
        await cluster.settled()
        await cluster.patch(SUM, MergePatch({"spec": {"parallelism": 1}}))
        await cluster.advance(3)
        assert len(await pods(cluster)) == 1
        await cluster.expect(SUM, lambda it: status_of(it).active == 1 and status_of(it).failed == 0)


async def test_a_finished_job_is_deleted_with_its_pods_after_its_ttl(cluster: Cluster) -> None:
    await cluster.create(job(ttlSecondsAfterFinished=60))
    async with cluster.running(jobs_controller(), node()):
        await cluster.until(SUM, has("Complete"))
        await cluster.advance(59)
        await cluster.expect(SUM)
        await cluster.advance(2)
        assert await versions(cluster) == {}


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_a_deleted_job_leaves_no_objects(cluster: Cluster, propagation: Any) -> None:
    await cluster.create(job(completions=2, parallelism=2))
    async with cluster.running(jobs_controller(), node(seconds=50.0)):
        await cluster.settled()
        await cluster.delete(SUM, propagation=propagation)
        await cluster.advance(5)
        assert await versions(cluster) == {}


async def test_orphaned_pods_of_a_job_lose_the_finalizer(cluster: Cluster) -> None:
    await cluster.create(job())
    async with cluster.running(jobs_controller(), node(seconds=50.0)):
        await cluster.settled()
        await cluster.delete(SUM, propagation="Orphan")
        await cluster.until_gone(SUM)
        await cluster.settled()
        assert [one.metadata.finalizers for one in await pods(cluster)] == [()]


async def test_a_job_that_was_deleted_while_no_controller_ran_leaves_no_pods(cluster: Cluster) -> None:
    await cluster.create(job())
    async with cluster.running(jobs_controller(), node(seconds=50.0)):
        await cluster.settled()
    await cluster.delete(SUM, propagation="Background")
    await cluster.create(job(parallelism=0))  # a Job of the same name without Pods
    async with cluster.running(jobs_controller(), node(seconds=50.0)):
        await cluster.advance(5)
        assert await pods(cluster) == []


async def test_a_deleted_pod_is_a_failure(cluster: Cluster) -> None:
    await cluster.create(job())
    async with cluster.running(jobs_controller(), node(seconds=5.0)):
        await cluster.settled()
        [first] = await pods(cluster)
        await cluster.delete(first.ref)
        await cluster.until_gone(first.ref)
        found = await cluster.until(SUM, has("Complete"), within=60)
        assert (status_of(found).failed, status_of(found).succeeded) == (1, 1)


async def test_an_indexed_job_completes_each_index(cluster: Cluster) -> None:
    await cluster.create(job(completions=4, parallelism=2, completionMode="Indexed"))
    async with cluster.running(jobs_controller(), node(1)):
        found = await cluster.until(SUM, has("Complete"), within=100)
        assert (status_of(found).completed_indexes, status_of(found).succeeded, status_of(found).failed) == (
            "0-3",
            4,
            1,
        )
        numbers = [one.metadata.annotations[INDEX] for one in await pods(cluster) if pod_state.has_succeeded(one)]
        assert sorted(numbers) == ["0", "1", "2", "3"]


async def test_a_job_managed_by_another_controller_is_ignored(cluster: Cluster) -> None:
    await cluster.create(job(managedBy="example.dev/mine"))
    async with cluster.running(jobs_controller()):
        await cluster.settled()
        assert await pods(cluster) == []
        await cluster.expect(SUM, lambda it: it.status is None or it.status.start_time is None)


@pytest.mark.parametrize(
    "injected",
    [
        [faults.delayed_watch(7, kinds=("Pod",))],
        [faults.delayed_watch(7, kinds=("Job",))],
        [faults.lost_response(share=0.2, seed=5)],
        [faults.conflict(share=0.3, verbs=("patch",), seed=6)],
        [faults.server_error(share=0.2, seed=7)],
    ],
    ids=["slow pods", "slow jobs", "lost answers", "conflicts", "errors"],
)
async def test_each_pod_is_counted_once(cluster: Cluster, injected: list[Any]) -> None:
    await cluster.create(job(completions=4, parallelism=2, backoffLimit=9))
    async with cluster.running(jobs_controller(), faults=injected), cluster.running(node(0, 1, 0, 1), name="node"):
        found = await cluster.until(SUM, has("Complete"), within=900)
        assert (status_of(found).succeeded, status_of(found).failed) == (4, 2)
        await cluster.advance(60)
        assert len(await pods(cluster)) == 6


async def test_no_writes_and_no_reconciles_after_convergence(cluster: Cluster) -> None:
    await cluster.create(job(completions=3, parallelism=2))
    async with cluster.running(jobs_controller(), node()):
        await cluster.until(SUM, has("Complete"))
        await cluster.settled()
        before, reconciles = await versions(cluster), len(cluster.reconciles())
        await cluster.advance(3600)
        assert await versions(cluster) == before
        assert len(cluster.reconciles()) == reconciles
