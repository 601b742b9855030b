"""kro, unmodified: definitions of its own making, and instances of them that become objects, with aggregated RBAC."""

from collections.abc import Iterator
from typing import Any

import pytest
from scripts.operator_binaries import build, source_of

from tests.operators.operator_cluster import OperatorCluster, Refused, open_cluster, render_chart

NAMESPACE = "kro-system"


def graph() -> dict[str, Any]:
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "${schema.spec.name}"},
        "data": {"greeting": "Hello, ${schema.spec.name}"},
    }
    schema = {
        "apiVersion": "v1alpha1",
        "kind": "Greeting",
        "spec": {"name": "string"},
        "status": {"written": "${config.metadata.name}"},
    }
    return {
        "apiVersion": "kro.run/v1alpha1",
        "kind": "ResourceGraphDefinition",
        "metadata": {"name": "greetings"},
        "spec": {"schema": schema, "resources": [{"id": "config", "template": config_map}]},
    }


def granted() -> dict[str, Any]:
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
        {"apiGroups": ["kro.run"], "resources": ["*"], "verbs": ["*"]},
    ]
    labels = {"rbac.kro.run/aggregate-to-controller": "true"}
    metadata = {"name": "greetings", "labels": labels}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}


@pytest.fixture(scope="module")
def cluster() -> Iterator[OperatorCluster]:
    with open_cluster("kro", {"*/kro*": [str(build("kro"))]}) as opened:
        chart = source_of("kro") / "helm"
        opened.install(render_chart(build("helm"), chart, "kro", NAMESPACE, "rbac.mode=aggregation", "image.tag=test"))
        opened.wait_available("kro", NAMESPACE)
        yield opened


def test_it_makes_a_definition_and_the_objects_of_its_instances(cluster: OperatorCluster) -> None:
    cluster.create(granted())
    cluster.create(graph())
    cluster.wait(lambda: cluster.get("crd", "greetings.kro.run"))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/greetings.kro.run")
    metadata = {"name": "hello", "namespace": "default"}
    cluster.create(
        {"apiVersion": "kro.run/v1alpha1", "kind": "Greeting", "metadata": metadata, "spec": {"name": "world"}}
    )
    found = cluster.wait(lambda: cluster.get("configmap", "world"))
    assert found["data"] == {"greeting": "Hello, world"}
    cluster.wait(lambda: cluster.status("greetings.kro.run", "hello").get("written") == "world")
    cluster.kubectl("delete", "greetings.kro.run", "hello")
    assert cluster.get("configmap", "world") is None


def test_it_may_do_what_is_aggregated_to_its_role_and_no_more(cluster: OperatorCluster) -> None:
    who = f"--as=system:serviceaccount:{NAMESPACE}:kro"
    cluster.wait(lambda: cluster.kubectl("auth", "can-i", "create", "configmaps", who).strip() == "yes")
    with pytest.raises(Refused):
        cluster.kubectl("auth", "can-i", "create", "secrets", who)
