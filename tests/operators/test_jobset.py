"""JobSet (controller-runtime), unmodified: its Lease, its webhooks with certificates of its own, its Jobs that run."""

from collections.abc import Iterator
from typing import Any

import pytest
from scripts.operator_binaries import build, source_of

from tests.operators.operator_cluster import OperatorCluster, Refused, open_cluster, render_kustomization

NAMESPACE = "jobset-system"


def jobset(name: str, *, success: str = "workers") -> dict[str, Any]:
    containers = [{"name": "main", "image": "bash:latest", "command": ["sh", "-c", "echo done"]}]
    template = {"spec": {"restartPolicy": "Never", "containers": containers}}
    job = {"template": {"spec": {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": template}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "successPolicy": {"operator": "All", "targetReplicatedJobs": [success]},
            "replicatedJobs": [{"name": "workers", "replicas": 2, **job}],
        },
    }


@pytest.fixture(scope="module")
def cluster() -> Iterator[OperatorCluster]:
    with open_cluster("jobset", {"*/jobset/jobset:*": [str(build("jobset"))]}) as opened:
        opened.install(render_kustomization(source_of("jobset") / "config" / "default"))
        opened.wait_available("jobset-controller-manager", NAMESPACE)
        yield opened


def test_it_takes_its_lease(cluster: OperatorCluster) -> None:
    assert cluster.lease_holder(NAMESPACE).startswith("jobset-controller-manager-")


def test_its_webhooks_default_and_refuse(cluster: OperatorCluster) -> None:
    with pytest.raises(Refused, match=r'admission webhook "vjobset.kb.io" denied the request: .*does not appear in'):
        cluster.create(jobset("wrong", success="nobody"))
    made = cluster.create(jobset("defaulted"))
    assert made["spec"]["network"]["enableDNSHostnames"] is True


def test_its_jobs_run_and_complete(cluster: OperatorCluster) -> None:
    cluster.create(jobset("whole"))

    def completed() -> list[Any]:
        conditions = cluster.status("jobset", "whole").get("conditions", [])
        return [one for one in conditions if one["type"] == "Completed" and one["status"] == "True"]

    assert cluster.wait(completed)
    jobs = cluster.find_all("jobs", selector="jobset.sigs.k8s.io/jobset-name=whole")
    assert {one["metadata"]["name"] for one in jobs} == {"whole-workers-0", "whole-workers-1"}
    assert all(one["status"]["succeeded"] == 2 for one in jobs)
    cluster.kubectl("delete", "jobset", "whole")
    assert cluster.wait(lambda: not cluster.find_all("jobs", selector="jobset.sigs.k8s.io/jobset-name=whole"))
