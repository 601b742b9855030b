"""The StatefulSet controller on a server, with a fake kubelet."""

from collections.abc import Sequence
from typing import Any

import pytest

from levelset import MergePatch, Ref
from levelset.kinds.apps_v1 import ControllerRevision, StatefulSet
from levelset.kinds.core_v1 import PersistentVolumeClaim, Pod
from levelset.objects import controller_of
from levelset.testing import Cluster, faults
from levelset_local import pod_state
from levelset_local.statefulsets import statefulsets_controller
from systems.local.tests.cluster_queries import events, status_of, versions
from systems.local.tests.fake_kubelet import PodTimeline, kubelet, ready_after
from systems.local.tests.samples import stateful_set

DB = Ref(StatefulSet, "db")


async def pods(cluster: Cluster) -> Sequence[Pod]:
    return sorted(await cluster.list(Pod, namespace="test"), key=lambda one: one.name)


def image(name: str) -> MergePatch:
    return MergePatch({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}})


def is_rolled(it: StatefulSet) -> bool:
    status, wanted = it.status, it.spec.replicas
    if status is None or status.observed_generation != it.metadata.generation:
        return False
    is_updated = status.current_revision == status.update_revision
    return is_updated and status.replicas == status.updated_replicas == status.available_replicas == wanted


async def test_pods_are_created_in_order_each_when_the_one_before_is_ready(cluster: Cluster) -> None:
    await cluster.create(stateful_set())
    async with cluster.running(statefulsets_controller(), kubelet(ready_after(10))):
        for seconds, expected in ((5, 1), (10, 2), (10, 3)):
            await cluster.advance(seconds)
            assert [one.name for one in await pods(cluster)] == [f"db-{number}" for number in range(expected)]
        await cluster.until(DB, is_rolled)
        assert await events(cluster, "SuccessfulCreate") == 3


async def test_a_rolling_update_goes_from_the_last_to_the_first(cluster: Cluster) -> None:
    await cluster.create(stateful_set())
    async with cluster.running(statefulsets_controller(), kubelet(ready_after(10))):
        await cluster.until(DB, is_rolled)
        await cluster.patch(DB, image("db:2"))
        seen: list[list[str | None]] = []
        for _ in range(5):
            seen.append([one.spec.containers[0].image for one in await pods(cluster)])
            await cluster.advance(9)
        await cluster.until(DB, is_rolled)
        order = [["db:1"] * 3, ["db:1", "db:1", "db:2"], ["db:1", "db:2", "db:2"], ["db:2"] * 3]
        assert [one for one in seen if len(one) == 3] == sorted(one for one in seen if len(one) == 3)
        assert all(one in order for one in seen if len(one) == 3)
        assert len({one.name for one in await cluster.list(ControllerRevision, namespace="test")}) == 2


async def test_a_rollback_reuses_the_revision_and_the_history_is_limited(cluster: Cluster) -> None:
    await cluster.create(stateful_set(replicas=1, revisionHistoryLimit=1))
    async with cluster.running(statefulsets_controller(), kubelet()):
        for number in (1, 2, 3, 1):
            await cluster.patch(DB, image(f"db:{number}"))
            await cluster.until(DB, is_rolled)
        await cluster.settled()
        found = await cluster.list(ControllerRevision, namespace="test")
        assert len(found) == 2  # the current one, and one of the history
        assert max(one.revision for one in found) == 4
        current = status_of(await cluster.get(DB)).current_revision
        assert next(one for one in found if one.revision == 4).name == current


async def test_an_update_stops_at_the_partition_and_a_deleted_pod_comes_back_as_it_was(cluster: Cluster) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    await cluster.create(stateful_set(updateStrategy=strategy))
    async with cluster.running(statefulsets_controller(), kubelet()):
        await cluster.until(DB, is_rolled)
        await cluster.patch(DB, image("db:2"))
        await cluster.settled()
        assert [one.spec.containers[0].image for one in await pods(cluster)] == ["db:1", "db:1", "db:2"]
        await cluster.delete(Ref(Pod, "db-0"), grace=0)
        await cluster.settled()
        assert [one.spec.containers[0].image for one in await pods(cluster)] == ["db:1", "db:1", "db:2"]
        await cluster.patch(DB, MergePatch({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}))
        await cluster.until(DB, is_rolled)


async def test_a_scale_down_deletes_the_last_pods_first_one_at_a_time(cluster: Cluster) -> None:
    await cluster.create(stateful_set())
    async with cluster.running(statefulsets_controller(), kubelet(lambda pod: PodTimeline(stops=5.0))):
        await cluster.until(DB, is_rolled)
        await cluster.patch(DB, MergePatch({"spec": {"replicas": 1}}))
        await cluster.advance(2)
        assert [pod_state.is_terminating(one) for one in await pods(cluster)] == [False, False, True]
        await cluster.advance(5)
        assert [pod_state.is_terminating(one) for one in await pods(cluster)] == [False, True]
        await cluster.advance(10)
        assert [one.name for one in await pods(cluster)] == ["db-0"]


async def test_claims_are_created_and_stay_unless_the_policy_deletes_them(cluster: Cluster) -> None:
    policy = {"whenScaled": "Delete", "whenDeleted": "Retain"}
    await cluster.create(stateful_set(replicas=2, claims=1, persistentVolumeClaimRetentionPolicy=policy))
    async with cluster.running(statefulsets_controller(), kubelet()):
        await cluster.until(DB, is_rolled)
        found = await cluster.list(PersistentVolumeClaim, namespace="test")
        assert sorted(one.name for one in found) == ["data-db-0", "data-db-1"]
        await cluster.patch(DB, MergePatch({"spec": {"replicas": 1}}))
        await cluster.until_gone(Ref(PersistentVolumeClaim, "data-db-1"))
        await cluster.delete(DB)
        await cluster.until_gone(DB)
        await cluster.settled()
        assert [one.name for one in await cluster.list(PersistentVolumeClaim, namespace="test")] == ["data-db-0"]


async def test_only_orphans_with_the_name_of_a_member_are_adopted(cluster: Cluster) -> None:
    draft = stateful_set().spec.template
    for name in ("db-0", "other"):
        orphan = pod_state.pod_from_template(draft, generate_name="", namespace="test")
        await cluster.create(orphan.with_metadata(name=name, generate_name=None))
    await cluster.create(stateful_set(replicas=1))
    async with cluster.running(statefulsets_controller(), kubelet()):
        await cluster.settled()
        owners = {one.name: controller_of(one) is not None for one in await pods(cluster)}
        assert owners == {"db-0": True, "other": False}


async def test_a_name_that_another_revision_has_is_counted_as_a_collision(cluster: Cluster) -> None:
    async with cluster.running(statefulsets_controller(), kubelet(), name="first"):
        await cluster.create(stateful_set(replicas=1))
        await cluster.until(DB, is_rolled)
        taken = status_of(await cluster.get(DB)).current_revision
        await cluster.delete(DB)
        await cluster.until_gone(DB)
    await cluster.create(ControllerRevision.new(taken, namespace="test", revision=1, data={"other": True}))
    await cluster.create(stateful_set(replicas=1))
    async with cluster.running(statefulsets_controller(), kubelet(), name="second"):
        found = await cluster.until(DB, is_rolled)
        assert status_of(found).collision_count == 1
        assert status_of(found).current_revision != taken


@pytest.mark.parametrize(
    "injected",
    [
        [faults.delayed_watch(20, kinds=("Pod",))],
        [faults.lost_response(verbs=("create",), kinds=("Pod",), count=2)],
        [faults.conflict(share=0.3, verbs=("update", "patch"), seed=3)],
    ],
    ids=["slow cache", "lost answers", "conflicts"],
)
async def test_it_converges_with_faults(cluster: Cluster, injected: list[Any]) -> None:
    await cluster.create(stateful_set(replicas=2))
    async with cluster.running(statefulsets_controller(), faults=injected), cluster.running(kubelet(), name="node"):
        await cluster.until(DB, is_rolled, within=300)
        await cluster.patch(DB, image("db:2"))
        await cluster.until(DB, is_rolled, within=300)
        assert len(await pods(cluster)) == 2


async def test_no_writes_and_no_reconciles_after_convergence(cluster: Cluster) -> None:
    await cluster.create(stateful_set(claims=1))
    async with cluster.running(statefulsets_controller(), kubelet(ready_after(2))):
        await cluster.advance(20)
        before, reconciles = await versions(cluster), len(cluster.reconciles())
        await cluster.advance(3600)
        assert await versions(cluster) == before
        assert len(cluster.reconciles()) == reconciles
