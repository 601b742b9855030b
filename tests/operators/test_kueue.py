"""Kueue (controller-runtime), unmodified: its Lease, its webhooks, Jobs that wait until a queue has quota for them.

Its metrics proxy is a stand-in, as its image is not here.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from scripts.operator_binaries import build, source_of

from tests.operators.operator_cluster import OperatorCluster, Refused, open_cluster, render_kustomization

NAMESPACE = "kueue-system"
API = "kueue.x-k8s.io/v1beta1"
QUEUE = "kueue.x-k8s.io/queue-name"


def resource_flavor(name: str) -> dict[str, Any]:
    return {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": name}}


def cluster_queue(name: str, cpu: str, *, flavor: str = "default") -> dict[str, Any]:
    flavors = [{"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpu}]}]
    spec: dict[str, Any] = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
    }
    return {"apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def local_queue(name: str, queue: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": API, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": queue}}


def job(name: str, queue: str, *, cpu: str = "1", command: str = "echo done") -> dict[str, Any]:
    main = {"name": "main", "image": "bash:latest", "command": ["sh", "-c", command]}
    containers = [{**main, "resources": {"requests": {"cpu": cpu}}}]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": {QUEUE: queue}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}},
    }


@pytest.fixture(scope="module")
def cluster() -> Iterator[OperatorCluster]:
    images = {
        "*/kueue/kueue:*": [str(build("kueue"))],
        "*/kube-rbac-proxy:*": ["/bin/sh", "-c", "exec sleep infinity", "proxy"],
    }
    with open_cluster("kueue", images) as opened:
        opened.install(render_kustomization(source_of("kueue") / "config" / "default"))
        opened.wait_available("kueue-controller-manager", NAMESPACE)
        yield opened


@pytest.fixture(scope="module")
def queue(cluster: OperatorCluster) -> str:
    """The name of a LocalQueue with quota for one CPU."""
    for one in (resource_flavor("default"), cluster_queue("small", "1"), local_queue("users", "small")):
        cluster.create(one)
    cluster.wait(lambda: is_true(cluster.status("localqueue", "users"), "Active"))
    return "users"


def is_true(status: dict[str, Any], condition: str) -> bool:
    return any(one["type"] == condition and one["status"] == "True" for one in status.get("conditions", []))


def workload_of(cluster: OperatorCluster, name: str) -> dict[str, Any] | None:
    """The Workload that the operator has made for a Job."""
    owned = (
        one
        for one in cluster.find_all("workloads")
        if any(owner["kind"] == "Job" and owner["name"] == name for owner in one["metadata"].get("ownerReferences", []))
    )
    return next(owned, None)


def test_it_takes_its_lease(cluster: OperatorCluster) -> None:
    assert cluster.lease_holder(NAMESPACE).startswith("kueue-controller-manager-")


def test_its_webhooks_default_and_refuse(cluster: OperatorCluster) -> None:
    made = cluster.create(cluster_queue("defaulted", "3"))
    assert made["metadata"]["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]
    with pytest.raises(Refused, match=r'admission webhook "vclusterqueue.kb.io" denied the request: .*nominalQuota'):
        cluster.create(cluster_queue("wrong", "-1"))


def test_a_job_runs_when_its_queue_has_quota_for_it(cluster: OperatorCluster, queue: str) -> None:
    made = cluster.create(job("first", queue))
    assert made["spec"]["suspend"] is True  # by its webhook
    workload = cluster.wait(lambda: workload_of(cluster, "first"))
    name = workload["metadata"]["name"]
    assert workload["spec"]["queueName"] == queue
    cluster.wait(lambda: is_true(cluster.status("job", "first"), "Complete"))
    cluster.wait(lambda: is_true(cluster.status("workload", name), "Finished"))
    status = cluster.status("workload", name)
    assert is_true(status, "QuotaReserved")
    assert is_true(status, "Admitted")
    assert status["admission"]["clusterQueue"] == "small"


def test_a_job_waits_until_another_one_returns_its_quota(cluster: OperatorCluster, queue: str) -> None:
    cluster.create(job("long", queue, command="sleep infinity"))
    cluster.wait(lambda: cluster.status("job", "long").get("active") == 1)
    cluster.create(job("waiting", queue))
    name = cluster.wait(lambda: workload_of(cluster, "waiting"))["metadata"]["name"]

    def is_pending() -> bool:
        conditions = cluster.status("workload", name).get("conditions", [])
        return any(one["type"] == "QuotaReserved" and one["reason"] == "Pending" for one in conditions)

    cluster.wait(is_pending)
    cluster.wait(lambda: cluster.status("clusterqueue", "small").get("pendingWorkloads") == 1)
    assert (cluster.get("job", "waiting") or {})["spec"]["suspend"] is True

    cluster.kubectl("delete", "job", "long")
    cluster.wait(lambda: is_true(cluster.status("job", "waiting"), "Complete"))


def test_it_may_do_what_its_role_says_and_no_more(cluster: OperatorCluster) -> None:
    who = f"--as=system:serviceaccount:{NAMESPACE}:kueue-controller-manager"
    assert cluster.kubectl("auth", "can-i", "update", "workloads.kueue.x-k8s.io", who).strip() == "yes"
    with pytest.raises(Refused):
        cluster.kubectl("auth", "can-i", "create", "clusterroles.rbac.authorization.k8s.io", who)
