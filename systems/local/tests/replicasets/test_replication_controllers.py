"""ReplicationControllers: the older kind, whose Pods are kept as those of a ReplicaSet."""

from collections.abc import Sequence
from datetime import UTC, datetime

from levelset import MergePatch, Ref
from levelset.kinds.apps_v1 import ReplicaSetCondition, ReplicaSetStatus
from levelset.kinds.core_v1 import Pod, ReplicationController, ReplicationControllerSpec
from levelset.objects import controller_of
from levelset.testing import Cluster, faults
from levelset_local import pod_state
from levelset_local.replicasets import replication_controllers_controller
from levelset_local.replicasets.replication_controllers import as_replica_set, as_replication_status
from systems.local.tests.cluster_queries import events, status_of
from systems.local.tests.fake_kubelet import kubelet
from systems.local.tests.samples import deployment

WEB = Ref(ReplicationController, "web")
TEMPLATE = deployment().spec.template


def fresh(replicas: int = 3) -> ReplicationController:
    return ReplicationController.new("web", ReplicationControllerSpec(replicas=replicas, template=TEMPLATE))


async def active(cluster: Cluster) -> Sequence[Pod]:
    return [one for one in await cluster.list(Pod, namespace="test") if pod_state.is_active(one)]


async def test_the_number_of_pods_follows_the_replicas(cluster: Cluster) -> None:
    owner = await cluster.create(fresh())
    async with cluster.running(replication_controllers_controller(), kubelet()):
        for wanted in (3, 5, 1, 0):
            await cluster.patch(WEB, MergePatch({"spec": {"replicas": wanted}}))
            await cluster.settled()
            pods = await active(cluster)
            assert len(pods) == wanted
            for one in pods:
                reference = controller_of(one)
                assert reference is not None
                assert (reference.kind, reference.uid) == ("ReplicationController", owner.metadata.uid)
            status = status_of(await cluster.get(WEB))
            assert (status.replicas, status.ready_replicas, status.available_replicas) == (wanted, wanted, wanted)
        assert await events(cluster, "SuccessfulDelete") == 5


async def test_orphans_are_adopted_and_pods_that_are_relabelled_released(cluster: Cluster) -> None:
    async with cluster.running(replication_controllers_controller(), kubelet()):
        await cluster.create(fresh(2))
        await cluster.settled()
        first = (await active(cluster))[0]
        labels = dict.fromkeys(first.metadata.labels, "other")
        await cluster.patch(first.ref, MergePatch({"metadata": {"labels": labels}}))
        await cluster.settled()
        assert controller_of(await cluster.get(first.ref)) is None
        assert len(await active(cluster)) == 3
        await cluster.patch(first.ref, MergePatch({"metadata": {"labels": dict(first.metadata.labels)}}))
        await cluster.settled()
        assert len(await active(cluster)) == 2


async def test_a_failure_is_a_condition_until_it_is_over(cluster: Cluster) -> None:
    await cluster.create(fresh())
    injected = faults.server_error(verbs=("create",), kinds=("Pod",), count=2)
    async with cluster.running(replication_controllers_controller(), kubelet(), faults=[injected], allow_errors=True):
        found = await cluster.until(WEB, lambda it: it.status is not None and bool(it.status.conditions))
        assert [(one.type, one.reason) for one in status_of(found).conditions] == [("ReplicaFailure", "FailedCreate")]
        await cluster.until(WEB, lambda it: it.status is not None and it.status.ready_replicas == 3)
        status = status_of(await cluster.get(WEB))
        assert status.conditions == ()


async def test_a_status_that_another_client_has_changed_is_written_again(cluster: Cluster) -> None:
    await cluster.create(fresh(2))
    wrong = MergePatch({"status": {"readyReplicas": 0, "availableReplicas": 0}})
    async with cluster.running(replication_controllers_controller(), kubelet()):
        await cluster.settled()
        await cluster.patch(WEB, wrong, subresource="status")
        await cluster.settled()
        status = status_of(await cluster.get(WEB))
        assert (status.ready_replicas, status.available_replicas) == (2, 2)


def test_a_status_has_the_fields_of_a_replica_set_that_the_kind_has() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    condition = ReplicaSetCondition(
        type="ReplicaFailure", status="True", reason="a", message="b", last_transition_time=at
    )
    numbers = {"replicas": 5, "fully_labeled_replicas": 4, "ready_replicas": 3, "available_replicas": 2}
    status = ReplicaSetStatus(**numbers, observed_generation=7, terminating_replicas=1, conditions=(condition,))
    made = as_replication_status(status)
    assert {name: getattr(made, name) for name in numbers} == numbers
    assert made.observed_generation == 7
    owner = fresh()
    view = as_replica_set(type(owner)(metadata=owner.metadata, spec=owner.spec, status=made))
    assert view.status is not None
    assert view.status.conditions == (condition,)
