"""dask-kubernetes (kopf), unmodified: the scheduler, which runs, the workers and the Service of a cluster.

The workers look for the scheduler by a name of DNS, which the local data plane does not have: that they are created
is tested.
"""

import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripts.operator_binaries import CACHE, build

from tests.operators.operator_cluster import OperatorCluster, open_cluster, render_chart

NAMESPACE = "dask-operator"
PACKAGE = "dask-kubernetes==2026.3.0"
SAMPLE = "operator/controller/tests/resources/simplecluster.yaml"


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of programs of an environment with the operator and dask itself, installed if it is missing."""
    folder = CACHE / PACKAGE
    if not (folder / "installed").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([folder / "bin/python", "-m", "pip", "install", "--quiet", PACKAGE], check=True)
        (folder / "installed").touch()
    return folder / "bin"


@pytest.fixture(scope="module")
def package(programs: Path) -> Path:
    return next(programs.parent.glob(f"lib/python{sys.version_info[0]}*/site-packages/dask_kubernetes"))


@pytest.fixture(scope="module")
def cluster(programs: Path, package: Path) -> Iterator[OperatorCluster]:
    # As the image of the operator starts it.
    kopf = [str(programs / "kopf"), "run", "-m", "dask_kubernetes.operator.controller", "--verbose", "--all-namespaces"]
    # The sample names the programs `dask-scheduler` and `dask-worker`, which are commands of `dask` today.
    dask = ["/bin/sh", "-c", f'command=${{1#dask-}}; shift; exec {programs}/dask "$command" "$@"', "dask"]
    images = {"*/dask-kubernetes-operator:*": kopf, "dask-kubernetes:dev": dask}
    chart = package / "operator/deployment/helm/dask-kubernetes-operator"
    with open_cluster("dask", images) as opened:
        opened.install(render_chart(build("helm"), chart, "dask", NAMESPACE))
        opened.wait_available("dask-dask-kubernetes-operator", NAMESPACE)
        yield opened


def sample(package: Path) -> dict[str, Any]:
    tree: dict[str, Any] = yaml.safe_load((package / SAMPLE).read_text("utf-8"))
    return tree


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def test_a_cluster_becomes_a_scheduler_that_runs_and_its_workers(cluster: OperatorCluster, package: Path) -> None:
    cluster.create(sample(package))
    # One handler writes Pending when it has created all, another one Running when the Service has a status, both
    # at the same time: either may stay.
    cluster.wait(lambda: cluster.status("daskcluster", "simple").get("phase") in ("Pending", "Running"))
    cluster.wait(lambda: cluster.get("service", "simple-scheduler"))
    cluster.wait(lambda: cluster.get("daskworkergroup", "simple-default"))

    workers = "dask.org/cluster-name=simple,dask.org/component=worker"
    found = cluster.wait(lambda: two if len(two := cluster.find_all("deployments", selector=workers)) == 2 else None)
    assert all(one["metadata"]["ownerReferences"][0]["kind"] == "DaskWorkerGroup" for one in found)
    scheduler = "dask.org/cluster-name=simple,dask.org/component=scheduler"
    cluster.wait(lambda: [one for one in cluster.find_all("pods", selector=scheduler) if is_ready(one)])
    cluster.kubectl("delete", "daskcluster", "simple")
    cluster.wait(lambda: not cluster.find_all("pods", selector="dask.org/cluster-name=simple"))
