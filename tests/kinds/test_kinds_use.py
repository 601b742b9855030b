"""How programs use the built-in kinds."""

import subprocess
import sys

import pytest

from levelset.kinds import (
    ConfigMap,
    Container,
    ContainerPort,
    Deployment,
    DeploymentSpec,
    LabelSelector,
    LabelSelectorRequirement,
    Namespace,
    Pod,
    PodSpec,
    PodTemplateSpec,
    PolicyRule,
    ResourceRequirements,
    Role,
    Secret,
    Service,
    ServiceSpec,
)
from levelset.kinds.apiextensions_v1 import JSONSchemaProps
from levelset.kinds.coordination_v1 import Lease, LeaseSpec
from levelset.objects import (
    MicroTime,
    ObjectMeta,
    Quantity,
    Scheme,
    decode,
    encode,
    from_tree,
    parse_time,
    read_manifests,
    to_tree,
)


def web(replicas: int = 2) -> Deployment:
    labels = {"app": "web"}
    container = Container(
        name="web",
        image="web:1",
        ports=(ContainerPort(container_port=8080),),
        resources=ResourceRequirements(requests={"cpu": Quantity("500m")}),
    )
    template = PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=(container,)))
    spec = DeploymentSpec(replicas=replicas, selector=LabelSelector(match_labels=labels), template=template)
    return Deployment.new("web", spec, namespace="shop")


def test_a_deployment_is_encoded_as_in_kubernetes():
    container = {
        "name": "web",
        "image": "web:1",
        "ports": [{"containerPort": 8080}],
        "resources": {"requests": {"cpu": "500m"}},
    }
    assert to_tree(web()) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }


def test_a_zero_is_written_where_it_differs_from_an_absent_field():
    assert to_tree(web(replicas=0))["spec"]["replicas"] == 0


def test_parts_with_a_default_are_never_none():
    assert web().spec.strategy.type is None
    assert web().spec.template.spec.containers[0].resources.limits == {}


def test_a_secret_is_made_in_a_line():
    secret = Secret.new("db", namespace="shop", labels={"a": "b"}, data={"password": b"s3cret"}, type="Opaque")
    assert secret.data["password"] == b"s3cret"
    assert to_tree(secret) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "db", "namespace": "shop", "labels": {"a": "b"}},
        "data": {"password": "czNjcmV0"},
        "type": "Opaque",
    }


def test_a_config_map_and_a_role_are_made_in_a_line():
    assert to_tree(ConfigMap.new("settings", data={"mode": "fast"}))["data"] == {"mode": "fast"}
    role = Role.new(
        "reader", namespace="shop", rules=(PolicyRule(verbs=("get",), resources=("pods",), api_groups=("",)),)
    )
    assert to_tree(role)["rules"] == [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]


def test_a_spec_that_may_be_empty_may_be_left_out():
    assert to_tree(Namespace.new("shop")) == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    service = Service.new("web", ServiceSpec(type="ClusterIP"), namespace="shop")
    assert service.spec.type == "ClusterIP"
    assert Service.new("web", labels={"a": "b"}).metadata.labels == {"a": "b"}


def test_manifests_become_typed_objects():
    kinds = ("Namespace", "Secret")
    text = "\n---\n".join(f"{{apiVersion: v1, kind: {kind}, metadata: {{name: a}}}}" for kind in kinds)
    namespace, secret = read_manifests(text, Scheme(Namespace, Secret))
    assert isinstance(namespace, Namespace)
    assert namespace.spec.finalizers == ()
    assert secret == Secret.new("a")


def test_a_selector_matches_labels():
    selector = LabelSelector(
        match_labels={"app": "web"},
        match_expressions=(LabelSelectorRequirement(key="tier", operator="In", values=("a", "b")),),
    )
    assert selector.selector.matches({"app": "web", "tier": "b"})
    assert not selector.selector.matches({"app": "web"})


def test_a_status_counts_from_zero():
    tree = {**to_tree(web()), "status": {}}
    status = from_tree(Deployment, tree).status
    assert status is not None
    assert (status.ready_replicas, status.observed_generation, status.collision_count) == (0, 0, None)


def test_a_lease_is_written_with_six_digits():
    lease = Lease.new("leader", LeaseSpec(renew_time=MicroTime.of(parse_time("2026-01-31T12:00:00Z"))))
    assert to_tree(lease)["spec"] == {"renewTime": "2026-01-31T12:00:00.000000Z"}


def test_a_schema_class_can_contain_itself():
    props = JSONSchemaProps(type="array", items=JSONSchemaProps(type="string"), x_kubernetes_list_type="set")
    assert to_tree(props) == {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}


def test_a_deployment_cannot_be_decoded_as_a_pod():
    with pytest.raises(ValueError, match="apiVersion"):
        decode(Pod, encode(web()))


def test_importing_a_class_loads_neither_selectors_nor_dataclasses():
    late = ["dataclasses", "levelset.objects.field_selectors", "levelset.objects.label_selectors", "yaml", "asyncio"]
    code = f"import sys, levelset.kinds.apps_v1 as a; a.Deployment; print([n for n in {late} if n in sys.modules])"
    finished = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert finished.stdout == "[]\n"
