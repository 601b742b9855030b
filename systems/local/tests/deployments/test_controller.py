"""The Deployment and ReplicaSet controllers on a server, with a fake kubelet."""

from collections.abc import Sequence
from typing import Any

import pytest

from levelset import MergePatch, ObjectMeta, Ref, replace, set_controller
from levelset.errors import Forbidden
from levelset.kinds.apps_v1 import Deployment, ReplicaSet, ReplicaSetSpec
from levelset.kinds.core_v1 import ConfigMap, Pod
from levelset.kinds.meta_v1 import LabelSelector
from levelset.objects import controller_of
from levelset.testing import Cluster, faults
from levelset_local import pod_state
from levelset_local.deployments import HASH_LABEL, deployments_controller, hash_template
from levelset_local.deployments.revisions import REVISION
from levelset_local.replicasets import replicasets_controller
from systems.local.tests.cluster_queries import events, status_of, versions
from systems.local.tests.explorations import image, is_rolled
from systems.local.tests.fake_kubelet import PodTimeline, kubelet
from systems.local.tests.samples import deployment

WEB = Ref(Deployment, "web")


def controllers(ready: float | None = 2.0, stops: float = 1.0) -> list[Any]:
    node = kubelet(lambda pod: PodTimeline(ready=ready, stops=stops))
    return [deployments_controller(), replicasets_controller(), node]


async def sets(cluster: Cluster) -> dict[str, int | None]:
    """The images of the ReplicaSets, with their sizes."""
    found = await cluster.list(ReplicaSet, namespace="test")
    return {str(one.spec.template.spec.containers[0].image): one.spec.replicas for one in found if one.spec.template}


async def pods(cluster: Cluster) -> Sequence[Pod]:
    return [one for one in await cluster.list(Pod, namespace="test") if pod_state.is_active(one)]


def reason(it: Deployment, kind: str = "Progressing") -> str | None:
    found = () if it.status is None else it.status.conditions
    return next((one.reason for one in found if one.type == kind), None)


async def test_a_deployment_becomes_available(cluster: Cluster) -> None:
    await cluster.create(deployment())
    async with cluster.running(*controllers()):
        found = await cluster.until(WEB, is_rolled)
        assert found.metadata.annotations[REVISION] == "1"
        assert (reason(found), reason(found, "Available")) == ("NewReplicaSetAvailable", "MinimumReplicasAvailable")
        assert len(await pods(cluster)) == 3
        assert all(one.metadata.labels[HASH_LABEL] for one in await pods(cluster))
        assert await events(cluster, "ScalingReplicaSet") == 1


async def test_a_rollout_replaces_all_pods_and_keeps_the_old_replica_set(cluster: Cluster) -> None:
    await cluster.create(deployment())
    async with cluster.running(*controllers()):
        await cluster.until(WEB, is_rolled)
        await cluster.patch(WEB, image("web:2"))
        found = await cluster.until(WEB, is_rolled)
        assert found.metadata.annotations[REVISION] == "2"
        assert await sets(cluster) == {"web:1": 0, "web:2": 3}
        assert {one.spec.containers[0].image for one in await pods(cluster)} == {"web:2"}


async def test_a_rollback_reuses_the_old_replica_set(cluster: Cluster) -> None:
    await cluster.create(deployment())
    async with cluster.running(*controllers()):
        for name in ("web:1", "web:2", "web:1"):
            await cluster.patch(WEB, image(name))
            found = await cluster.until(WEB, is_rolled)
        assert found.metadata.annotations[REVISION] == "3"
        assert await sets(cluster) == {"web:1": 3, "web:2": 0}


async def test_a_third_template_during_a_rollout_wins(cluster: Cluster) -> None:
    await cluster.create(deployment(replicas=6))
    async with cluster.running(*controllers()):
        await cluster.until(WEB, is_rolled)
        await cluster.patch(WEB, image("web:2"))
        await cluster.advance(3)
        await cluster.patch(WEB, image("web:3"))
        await cluster.until(WEB, is_rolled)
        assert await sets(cluster) == {"web:1": 0, "web:2": 0, "web:3": 6}


async def test_a_deployment_can_be_scaled_during_a_rollout(cluster: Cluster) -> None:
    await cluster.create(deployment(replicas=4))
    async with cluster.running(*controllers()):
        await cluster.until(WEB, is_rolled)
        await cluster.patch(WEB, image("web:2"))
        await cluster.advance(3)
        await cluster.patch(WEB, MergePatch({"spec": {"replicas": 8}}))
        await cluster.until(WEB, is_rolled)
        assert await sets(cluster) == {"web:1": 0, "web:2": 8}


async def test_recreate_never_runs_two_templates_at_once(cluster: Cluster) -> None:
    await cluster.create(deployment(strategy={"type": "Recreate"}))
    async with cluster.running(*controllers(stops=20.0)):
        await cluster.until(WEB, is_rolled)
        await cluster.patch(WEB, image("web:2"))
        await cluster.advance(19)
        assert await sets(cluster) == {"web:1": 0}
        await cluster.until(WEB, is_rolled)
        assert await sets(cluster) == {"web:1": 0, "web:2": 3}


async def test_a_paused_deployment_waits_until_it_is_resumed(cluster: Cluster) -> None:
    await cluster.create(deployment())
    async with cluster.running(*controllers()):
        await cluster.until(WEB, is_rolled)
        await cluster.patch(WEB, MergePatch({"spec": {"paused": True}}))
        await cluster.patch(WEB, image("web:2"))
        await cluster.settled()
        await cluster.patch(WEB, MergePatch({"spec": {"replicas": 5}}))
        await cluster.settled()
        assert await sets(cluster) == {"web:1": 5}
        assert reason(await cluster.get(WEB)) == "DeploymentPaused"
        await cluster.patch(WEB, MergePatch({"spec": {"paused": False}}))
        await cluster.until(WEB, is_rolled)
        assert await sets(cluster) == {"web:1": 0, "web:2": 5}


async def test_old_replica_sets_are_pruned(cluster: Cluster) -> None:
    await cluster.create(deployment(replicas=1, revisionHistoryLimit=1))
    async with cluster.running(*controllers()):
        for name in ("web:1", "web:2", "web:3", "web:4"):
            await cluster.patch(WEB, image(name))
            await cluster.until(WEB, is_rolled)
        await cluster.advance(5)
        assert await sets(cluster) == {"web:3": 0, "web:4": 1}


async def test_min_ready_seconds_delay_a_rollout(cluster: Cluster) -> None:
    await cluster.create(deployment(replicas=1, minReadySeconds=30))
    async with cluster.running(*controllers()):
        await cluster.advance(31)
        assert not is_rolled(await cluster.get(WEB))
        await cluster.advance(1)
        assert is_rolled(await cluster.get(WEB))


async def test_a_stuck_rollout_is_reported_in_time_also_after_a_restart(cluster: Cluster) -> None:
    await cluster.create(deployment(progressDeadlineSeconds=60))
    async with cluster.running(*controllers(ready=None)):
        await cluster.advance(40)
    async with cluster.running(*controllers(ready=None)):
        await cluster.advance(19)
        assert reason(await cluster.get(WEB)) == "ReplicaSetUpdated"
        await cluster.advance(1)
        assert reason(await cluster.get(WEB)) == "ProgressDeadlineExceeded"
        await cluster.patch(WEB, image("web:2"))
        await cluster.settled()
        assert reason(await cluster.get(WEB)) in {"NewReplicaSetCreated", "ReplicaSetUpdated"}


async def test_a_foreign_replica_set_with_the_same_name_is_a_collision(cluster: Cluster) -> None:
    owner = await cluster.create(deployment())
    taken = f"web-{hash_template(owner.spec.template)}"
    other = await cluster.create(ConfigMap(metadata=ObjectMeta(name="other", namespace="test")))
    await cluster.create(set_controller(stray(taken, owner, {"app": "other"}), other))
    async with cluster.running(deployments_controller()):
        await cluster.settled()
        await cluster.expect(WEB, lambda it: status_of(it).collision_count == 1)
        names = {one.name for one in await cluster.list(ReplicaSet) if _owner(one) == owner.metadata.uid}
        assert names == {f"web-{hash_template(owner.spec.template, 1)}"}


async def test_an_orphan_is_adopted_with_its_pods(cluster: Cluster) -> None:
    await cluster.create(deployment())
    async with cluster.running(*controllers()):
        await cluster.until(WEB, is_rolled)
        before = {one.name for one in await pods(cluster)}
        await cluster.delete(WEB, propagation="Orphan")
        await cluster.until_gone(WEB)
        await cluster.settled()
        assert [_owner(one) for one in await cluster.list(ReplicaSet)] == [None]
        owner = await cluster.create(deployment())
        await cluster.until(WEB, is_rolled)
        assert [_owner(one) for one in await cluster.list(ReplicaSet)] == [owner.metadata.uid]
        assert {one.name for one in await pods(cluster)} == before


async def test_an_orphan_that_is_created_later_is_adopted(cluster: Cluster) -> None:
    owner = await cluster.create(deployment(replicas=1))
    async with cluster.running(*controllers()):
        await cluster.until(WEB, is_rolled)
        labels = {"app": "web", HASH_LABEL: "old"}
        await cluster.create(stray("stray", deployment(image="web:0"), labels))
        found = await cluster.until(Ref(ReplicaSet, "stray"), lambda it: it.metadata.owner_references)
        assert _owner(found) == owner.metadata.uid
        await cluster.until(Ref(ReplicaSet, "stray"), lambda it: it.spec.replicas == 0)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
async def test_replica_sets_and_pods_are_deleted_with_the_deployment(cluster: Cluster, propagation: Any) -> None:
    await cluster.create(deployment())
    async with cluster.running(*controllers()):
        await cluster.until(WEB, is_rolled)
        await cluster.delete(WEB, propagation=propagation)
        await cluster.settled()
        await cluster.advance(5)
        assert await versions(cluster) == {}


async def test_a_failed_create_of_a_replica_set_is_reported(cluster: Cluster) -> None:
    async def refuse(call: Any, go_on: Any) -> Any:
        if call.verb == "create" and call.path.endswith("/replicasets"):
            raise Forbidden("exceeded quota")
        return await go_on(call)

    await cluster.create(deployment())
    async with cluster.running(deployments_controller(), faults=[refuse]):
        await cluster.until(WEB, lambda it: reason(it) == "FailedCreate")
        assert await events(cluster, "ReplicaSetCreateError") == 1


async def test_a_failed_create_of_pods_is_reported_by_the_deployment(cluster: Cluster) -> None:
    async def refuse(call: Any, go_on: Any) -> Any:
        if call.verb == "create" and call.path.endswith("/pods"):
            raise Forbidden("exceeded quota")
        return await go_on(call)

    await cluster.create(deployment())
    async with cluster.running(*controllers(), faults=[refuse]):
        await cluster.until(WEB, lambda it: reason(it, "ReplicaFailure") == "FailedCreate")


async def test_no_writes_and_no_reconciles_after_convergence(cluster: Cluster) -> None:
    await cluster.create(deployment())
    async with cluster.running(*controllers()):
        await cluster.until(WEB, is_rolled)
        await cluster.patch(WEB, image("web:2"))
        await cluster.until(WEB, is_rolled)
        await cluster.advance(5)
        before, reconciles = await versions(cluster), len(cluster.reconciles())
        await cluster.advance(3600)
        assert await versions(cluster) == before
        assert len(cluster.reconciles()) == reconciles


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "Pod"])
async def test_a_rollout_converges_with_a_slow_cache(cluster: Cluster, kind: str) -> None:
    await cluster.create(deployment())
    injected = [faults.delayed_watch(7, kinds=(kind,)), faults.conflict(share=0.1, verbs=("patch",), seed=4)]
    *ours, node = controllers()
    async with cluster.running(*ours, faults=injected), cluster.running(node, name="node"):
        await cluster.until(WEB, is_rolled, within=300)
        changed = (await cluster.patch(WEB, image("web:2"))).metadata.generation or 0
        await cluster.until(WEB, lambda it: is_rolled(it) and (it.metadata.generation or 0) >= changed, within=600)
        assert await sets(cluster) == {"web:1": 0, "web:2": 3}
        assert len(await pods(cluster)) == 3


async def test_many_deployments_converge_independently(cluster: Cluster) -> None:
    for number in range(30):
        await cluster.create(deployment(f"web-{number}", replicas=1))
    async with cluster.running(*controllers(ready=0.0)):
        await cluster.settled()
        found = await cluster.list(Deployment)
        assert all(map(is_rolled, found))


def _owner(one: ReplicaSet) -> str | None:
    found = controller_of(one)
    return None if found is None else found.uid


def stray(name: str, owner: Deployment, labels: dict[str, str]) -> ReplicaSet:
    """A ReplicaSet of another creator."""
    template = replace(owner.spec.template, metadata=ObjectMeta(labels=labels))
    spec = ReplicaSetSpec(replicas=1, selector=LabelSelector(match_labels=labels), template=template)
    return ReplicaSet.new(name, spec, namespace="test", labels=labels)
