"""HorizontalPodAutoscalers on a server, with Deployments, a fake kubelet and given processor times."""

from collections.abc import Mapping
from typing import Any

from levelset import Ref
from levelset.kinds.apps_v1 import Deployment
from levelset.kinds.autoscaling_v2 import HorizontalPodAutoscaler
from levelset.kinds.core_v1 import Pod, ReplicationController, ReplicationControllerSpec
from levelset.objects import from_tree, to_tree
from levelset.testing import Cluster
from levelset_local.autoscalers import autoscalers_controller
from levelset_local.deployments import deployments_controller
from levelset_local.replicasets import replicasets_controller, replication_controllers_controller
from systems.local.tests.cluster_queries import events, status_of
from systems.local.tests.fake_kubelet import kubelet
from systems.local.tests.samples import deployment

WEB = Ref(Deployment, "web")
SCALER = Ref(HorizontalPodAutoscaler, "web")


class Load:
    """The same processor time for every Pod."""

    def __init__(self, cores: float) -> None:
        self.cores = cores
        self.cluster: Cluster | None = None

    async def __call__(self) -> Mapping[str, float]:
        assert self.cluster is not None
        return {pod.metadata.uid: self.cores for pod in await self.cluster.list(Pod)}


def autoscaler(kind: str = "Deployment") -> HorizontalPodAutoscaler:
    target = {"type": "Utilization", "averageUtilization": 50}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": "web"},
        "maxReplicas": 6,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
    tree = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"}}
    return from_tree(HorizontalPodAutoscaler, {**tree, "spec": spec})


def requesting() -> Deployment:
    tree = to_tree(deployment(replicas=1))
    tree["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    return from_tree(Deployment, tree)


async def test_a_deployment_grows_with_the_load_and_shrinks_after_it(cluster: Cluster) -> None:
    load = Load(0.2)
    load.cluster = cluster
    await cluster.create(requesting())
    await cluster.create(autoscaler())
    controllers: list[Any] = [autoscalers_controller(load), deployments_controller(), replicasets_controller()]
    async with cluster.running(*controllers, kubelet()):
        await cluster.until(WEB, lambda it: it.spec.replicas == 6, within=120)
        found = await cluster.until(SCALER, lambda it: it.status is not None and it.status.current_replicas == 6)
        conditions = {one.type: (one.status, one.reason) for one in status_of(found).conditions}
        assert conditions["ScalingActive"] == ("True", "ValidMetricFound")
        load.cores = 0.01
        await cluster.advance(250)
        await cluster.expect(WEB, lambda it: it.spec.replicas == 6)  # stabilized for five minutes
        await cluster.until(WEB, lambda it: it.spec.replicas == 2, within=120)
        assert await events(cluster, "SuccessfulRescale") >= 2


async def test_a_replication_controller_grows_with_the_load(cluster: Cluster) -> None:
    load = Load(0.2)
    load.cluster = cluster
    spec = ReplicationControllerSpec(replicas=1, template=requesting().spec.template)
    await cluster.create(ReplicationController.new("web", spec))
    await cluster.create(autoscaler("ReplicationController"))
    async with cluster.running(autoscalers_controller(load), replication_controllers_controller(), kubelet()):
        await cluster.until(Ref(ReplicationController, "web"), lambda it: it.spec.replicas == 6, within=120)


async def test_without_requests_the_status_says_what_is_missing(cluster: Cluster) -> None:
    load = Load(0.2)
    load.cluster = cluster
    await cluster.create(deployment(replicas=1))
    await cluster.create(autoscaler())
    controllers: list[Any] = [autoscalers_controller(load), deployments_controller(), replicasets_controller()]
    async with cluster.running(*controllers, kubelet()):
        await cluster.advance(20)  # the first measurement finds no Pod that is ready
        condition = status_of(await cluster.get(SCALER)).conditions[0]
        assert (condition.type, condition.status) == ("ScalingActive", "False")
        assert "missing request for cpu in container main" in (condition.message or "")
        await cluster.expect(WEB, lambda it: it.spec.replicas == 1)
