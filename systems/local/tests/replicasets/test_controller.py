"""The ReplicaSet controller on a server, with a fake kubelet."""

from collections.abc import Sequence
from typing import Any

import pytest

from levelset import MergePatch, Ref
from levelset.errors import Forbidden
from levelset.kinds.apps_v1 import ReplicaSet
from levelset.kinds.core_v1 import Pod
from levelset.objects import controller_of
from levelset.testing import Cluster, faults
from levelset_local import pod_state
from levelset_local.replicasets import replicasets_controller
from levelset_local.replicasets.plan import DELETION_COST
from systems.local.tests.cluster_queries import events, status_of, versions
from systems.local.tests.fake_kubelet import kubelet, ready_after
from systems.local.tests.samples import deployment, replica_set

WEB = Ref(ReplicaSet, "web")
TEMPLATE = deployment().spec.template


def fresh(replicas: int = 3, *, min_ready: int = 0) -> ReplicaSet:
    return ReplicaSet.new("web", replica_set(replicas=replicas, min_ready=min_ready).spec)


async def active(cluster: Cluster) -> Sequence[Pod]:
    return [one for one in await cluster.list(Pod, namespace="test") if pod_state.is_active(one)]


async def test_the_desired_number_of_pods_is_created(cluster: Cluster) -> None:
    owner = await cluster.create(fresh())
    async with cluster.running(replicasets_controller(), kubelet()):
        await cluster.until(WEB, lambda it: it.status is not None and it.status.available_replicas == 3)
        for one in await active(cluster):
            reference = controller_of(one)
            assert reference is not None
            assert (reference.uid, reference.block_owner_deletion) == (owner.metadata.uid, True)
            assert one.metadata.generate_name == "web-"
        assert await events(cluster, "SuccessfulCreate") == 3


async def test_the_number_of_pods_follows_the_replicas(cluster: Cluster) -> None:
    await cluster.create(fresh())
    async with cluster.running(replicasets_controller(), kubelet()):
        for wanted in (5, 1, 0):
            await cluster.patch(WEB, MergePatch({"spec": {"replicas": wanted}}))
            await cluster.settled()
            assert len(await active(cluster)) == wanted
        assert await events(cluster, "SuccessfulDelete") == 5


async def test_the_pod_with_the_lowest_deletion_cost_is_deleted_first(cluster: Cluster) -> None:
    await cluster.create(fresh())
    async with cluster.running(replicasets_controller(), kubelet()):
        await cluster.settled()
        first, *others = await active(cluster)
        for one in others:
            await cluster.patch(one.ref, MergePatch({"metadata": {"annotations": {DELETION_COST: "10"}}}))
        await cluster.patch(WEB, MergePatch({"spec": {"replicas": 2}}))
        await cluster.until_gone(first.ref)


async def test_a_deleted_or_failed_pod_is_replaced(cluster: Cluster) -> None:
    await cluster.create(fresh(2))
    async with cluster.running(replicasets_controller(), kubelet()):
        await cluster.settled()
        first, second = await active(cluster)
        await cluster.delete(first.ref, grace=0)
        await cluster.patch(second.ref, MergePatch({"status": {"phase": "Failed"}}), subresource="status")
        await cluster.settled()
        assert len(await active(cluster)) == 2
        assert await cluster.find(second.ref) is not None  # failed Pods stay for inspection


async def test_a_pod_becomes_available_at_the_exact_time(cluster: Cluster) -> None:
    await cluster.create(fresh(1, min_ready=30))
    async with cluster.running(replicasets_controller(), kubelet(ready_after(4))):
        await cluster.advance(33.9)
        await cluster.expect(
            WEB, lambda it: status_of(it).ready_replicas == 1 and status_of(it).available_replicas == 0
        )
        await cluster.advance(0.1)
        await cluster.expect(WEB, lambda it: status_of(it).available_replicas == 1)


async def test_matching_orphans_are_adopted_and_others_released(cluster: Cluster) -> None:
    await cluster.create(fresh(2))
    async with cluster.running(replicasets_controller(), kubelet()):
        await cluster.settled()
        relabeled, _ = await active(cluster)
        await cluster.patch(relabeled.ref, MergePatch({"metadata": {"labels": {"app": "debug"}}}))
        await cluster.until(relabeled.ref, lambda it: not it.metadata.owner_references)
        await cluster.settled()
        assert len(await active(cluster)) == 3
        await cluster.patch(WEB, MergePatch({"spec": {"replicas": 3}}))
        await cluster.settled()
        orphan = pod_state.pod_from_template(TEMPLATE, generate_name="orphan-", namespace="test")
        orphan = await cluster.create(orphan)
        await cluster.settled()
        mine = [one for one in await active(cluster) if controller_of(one) is not None]
        assert len(mine) == 3
        assert len(await active(cluster)) == 4


async def test_orphans_are_adopted_before_pods_are_created(cluster: Cluster) -> None:
    draft = pod_state.pod_from_template(TEMPLATE, generate_name="orphan-", namespace="test")
    for _ in range(2):
        await cluster.create(draft)
    await cluster.create(fresh(2))
    async with cluster.running(replicasets_controller(), kubelet()):
        await cluster.settled()
        found = await active(cluster)
        assert [one.metadata.generate_name for one in found] == ["orphan-", "orphan-"]
        assert all(controller_of(one) is not None for one in found)


async def test_orphans_of_a_deleted_replica_set_stay_orphans(cluster: Cluster) -> None:
    await cluster.create(fresh(2))
    async with cluster.running(replicasets_controller(), kubelet()):
        await cluster.settled()
        await cluster.delete(WEB, propagation="Orphan")
        await cluster.until_gone(WEB)
        await cluster.settled()
        assert [one.metadata.owner_references for one in await active(cluster)] == [(), ()]


async def test_pods_are_deleted_with_their_replica_set(cluster: Cluster) -> None:
    await cluster.create(fresh())
    async with cluster.running(replicasets_controller(), kubelet()):
        await cluster.settled()
        await cluster.delete(WEB, propagation="Foreground")
        await cluster.until_gone(WEB)
        assert await active(cluster) == []


async def test_a_refused_create_is_tried_once_per_reconcile_and_reported(cluster: Cluster) -> None:
    creates: list[str] = []

    async def refuse(call, go_on):
        if call.verb == "create" and call.path.endswith("/pods"):
            creates.append("create")
            raise Forbidden("exceeded quota")
        return await go_on(call)

    await cluster.create(fresh(8))
    async with cluster.running(replicasets_controller(), faults=[refuse]):
        found = await cluster.until(WEB, lambda it: it.status is not None and it.status.conditions)
        condition = status_of(found).conditions[0]
        assert (condition.type, condition.status, condition.reason) == ("ReplicaFailure", "True", "FailedCreate")
        assert "exceeded quota" in (condition.message or "")
        assert len(creates) == 1  # not eight
        await cluster.advance(60)
        assert len(creates) < 8


async def test_a_resolved_failure_is_removed_from_the_conditions(cluster: Cluster) -> None:
    await cluster.create(fresh())
    injected = faults.server_error(verbs=("create",), kinds=("Pod",), count=2)
    async with cluster.running(replicasets_controller(), kubelet(), faults=[injected]):
        await cluster.until(WEB, lambda it: it.status is not None and it.status.available_replicas == 3)
        await cluster.expect(WEB, lambda it: status_of(it).conditions == ())
        assert len(await active(cluster)) == 3


@pytest.mark.parametrize(
    "injected",
    [
        [faults.delayed_watch(30, kinds=("Pod",))],
        [faults.lost_response(verbs=("create",), kinds=("Pod",), count=2)],
        [faults.conflict(share=0.3, verbs=("update", "patch"), seed=3)],
        [faults.repeated_events(3), faults.dropped_watch(5)],
    ],
    ids=["slow cache", "lost answers", "conflicts", "restless watch"],
)
async def test_there_are_never_too_many_pods(cluster: Cluster, injected: list[Any]) -> None:
    await cluster.create(fresh(4))
    async with cluster.running(replicasets_controller(), faults=injected), cluster.running(kubelet(), name="node"):
        await cluster.until(WEB, lambda it: it.status is not None and it.status.available_replicas == 4, within=300)
        await cluster.patch(WEB, MergePatch({"spec": {"replicas": 6}}))
        await cluster.until(WEB, lambda it: status_of(it).available_replicas == 6, within=300)
        assert len(await cluster.list(Pod, namespace="test")) == 6
    assert await events(cluster, "SuccessfulDelete") == 0


async def test_no_writes_and_no_reconciles_after_convergence(cluster: Cluster) -> None:
    await cluster.create(fresh())
    async with cluster.running(replicasets_controller(), kubelet(ready_after(2))):
        await cluster.advance(10)
        before, reconciles = await versions(cluster), len(cluster.reconciles())
        await cluster.advance(3600)
        assert await versions(cluster) == before
        assert len(cluster.reconciles()) == reconciles
