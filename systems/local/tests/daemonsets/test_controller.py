"""The DaemonSet controller on a server, with a fake kubelet."""

from levelset import MergePatch, ObjectMeta, Ref
from levelset.kinds.apps_v1 import ControllerRevision, DaemonSet
from levelset.kinds.core_v1 import Node, NodeSpec, Pod
from levelset.testing import Cluster, faults
from levelset_local.daemonsets import daemonsets_controller
from systems.local.tests.cluster_queries import events, status_of, versions
from systems.local.tests.fake_kubelet import kubelet, ready_after
from systems.local.tests.samples import daemon_set

AGENT = Ref(DaemonSet, "agent")


async def make_node(cluster: Cluster, **labels: str) -> None:
    await cluster.create(Node(metadata=ObjectMeta(name="local", labels=labels), spec=NodeSpec()))


def image(name: str) -> MergePatch:
    return MergePatch({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}})


def is_rolled(it: DaemonSet) -> bool:
    status = it.status
    if status is None or status.observed_generation != it.metadata.generation:
        return False
    return status.updated_number_scheduled == status.number_available == status.desired_number_scheduled == 1


async def test_the_node_runs_one_pod_which_an_update_replaces(cluster: Cluster) -> None:
    await make_node(cluster)
    await cluster.create(daemon_set())
    async with cluster.running(daemonsets_controller(), kubelet(ready_after(2))):
        await cluster.until(AGENT, is_rolled)
        await cluster.patch(AGENT, image("agent:2"))
        await cluster.until(AGENT, is_rolled)
        (pod,) = await cluster.list(Pod, namespace="test")
        assert (pod.spec.containers[0].image, pod.spec.node_name) == ("agent:2", "local")
        found = await cluster.list(ControllerRevision, namespace="test")
        assert sorted(one.revision for one in found) == [1, 2]
        current = next(one for one in found if one.revision == 2)
        assert pod.metadata.labels["controller-revision-hash"] == current.metadata.labels["controller-revision-hash"]
        assert await events(cluster, "SuccessfulCreate") == 2
        before, reconciles = await versions(cluster), len(cluster.reconciles())
        await cluster.advance(3600)
        assert (await versions(cluster), len(cluster.reconciles())) == (before, reconciles)


async def test_a_pod_follows_the_labels_of_the_node(cluster: Cluster) -> None:
    await make_node(cluster, disk="slow")
    await cluster.create(daemon_set(pod={"nodeSelector": {"disk": "fast"}}))
    async with cluster.running(daemonsets_controller(), kubelet()):
        await cluster.until(AGENT, lambda it: it.status is not None)
        assert await cluster.list(Pod, namespace="test") == []
        await cluster.patch(Ref(Node, "local"), MergePatch({"metadata": {"labels": {"disk": "fast"}}}))
        await cluster.until(AGENT, is_rolled)
        await cluster.patch(Ref(Node, "local"), MergePatch({"metadata": {"labels": {"disk": "slow"}}}))
        await cluster.until(AGENT, lambda it: status_of(it).desired_number_scheduled == 0)
        await cluster.settled()
        assert await cluster.list(Pod, namespace="test") == []


async def test_a_failed_pod_is_replaced_and_never_two_run(cluster: Cluster) -> None:
    injected = [faults.lost_response(verbs=("create",), kinds=("Pod",), count=1)]
    await make_node(cluster)
    await cluster.create(daemon_set())
    async with cluster.running(daemonsets_controller(), faults=injected), cluster.running(kubelet(), name="node"):
        await cluster.until(AGENT, is_rolled, within=300)
        (pod,) = await cluster.list(Pod, namespace="test")
        await cluster.patch(pod.ref, MergePatch({"status": {"phase": "Failed"}}), subresource="status")
        await cluster.until_gone(pod.ref)
        await cluster.settled()
        await cluster.until(AGENT, is_rolled, within=300)
        assert len(await cluster.list(Pod, namespace="test")) == 1
