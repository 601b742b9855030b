"""PodDisruptionBudgets on a server, with Deployments and a fake kubelet."""

from typing import Any

import pytest

from levelset import MergePatch, Ref
from levelset.errors import TooManyRequests
from levelset.kinds.apps_v1 import Deployment
from levelset.kinds.core_v1 import Pod, ReplicationController, ReplicationControllerSpec
from levelset.kinds.policy_v1 import Eviction, PodDisruptionBudget
from levelset.objects import from_tree
from levelset.testing import Cluster
from levelset_local.deployments import deployments_controller
from levelset_local.disruption_budgets import disruption_budgets_controller
from levelset_local.replicasets import replicasets_controller, replication_controllers_controller
from systems.local.tests.cluster_queries import status_of
from systems.local.tests.fake_kubelet import kubelet, ready_after
from systems.local.tests.samples import deployment

WEB = Ref(PodDisruptionBudget, "web")


def budget() -> PodDisruptionBudget:
    tree = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}}
    return from_tree(PodDisruptionBudget, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", **tree})


async def test_the_status_follows_pods_and_scale_and_evictions_rely_on_it(cluster: Cluster) -> None:
    await cluster.create(budget())
    await cluster.create(deployment(replicas=3))
    controllers: list[Any] = [disruption_budgets_controller(), deployments_controller(), replicasets_controller()]
    async with cluster.running(*controllers, kubelet(ready_after(5))):
        found = await cluster.until(WEB, lambda it: it.status is not None and it.status.disruptions_allowed == 1)
        assert (status_of(found).expected_pods, status_of(found).desired_healthy) == (3, 2)
        first, second, *_ = await cluster.list(Pod, namespace="test")
        await evict(cluster, first)
        with pytest.raises(TooManyRequests):
            await evict(cluster, second)
        await cluster.until(WEB, lambda it: status_of(it).disruptions_allowed == 1)  # the Pod was replaced
        await cluster.patch(Ref(Deployment, "web"), MergePatch({"spec": {"replicas": 5}}))
        await cluster.until(WEB, lambda it: status_of(it).expected_pods == 5)
        await cluster.advance(60)
        reconciles = len(cluster.reconciles())
        await cluster.advance(3600)
        assert len(cluster.reconciles()) == reconciles


async def test_the_pods_of_a_replication_controller_are_counted_by_its_scale(cluster: Cluster) -> None:
    await cluster.create(budget())
    spec = ReplicationControllerSpec(replicas=4, template=deployment().spec.template)
    await cluster.create(ReplicationController.new("web", spec))
    async with cluster.running(disruption_budgets_controller(), replication_controllers_controller(), kubelet()):
        found = await cluster.until(WEB, lambda it: it.status is not None and it.status.disruptions_allowed == 1)
    assert (status_of(found).expected_pods, status_of(found).desired_healthy) == (4, 3)


async def evict(cluster: Cluster, pod: Pod) -> None:
    await cluster.create(Eviction.new(pod.name, namespace=pod.namespace), on=pod.ref, subresource="eviction")
