"""How built-in kinds are used."""

from typing import assert_type

from levelset import ObjectMeta, Quantity, Ref, decode
from levelset.kinds import (
    Container,
    Deployment,
    DeploymentSpec,
    LabelSelector,
    Namespace,
    PodSpec,
    PodTemplateSpec,
    Secret,
)
from levelset.kinds.core_v1 import Pod, PodStatus, ResourceRequirements
from levelset.kinds.rbac_v1 import PolicyRule, Role

container = Container(
    name="web",
    image="web:1",
    image_pull_policy="Always",
    resources=ResourceRequirements(requests={"cpu": Quantity("500m")}),
)
template = PodTemplateSpec(metadata=ObjectMeta(labels={"app": "web"}), spec=PodSpec(containers=(container,)))
spec = DeploymentSpec(replicas=2, selector=LabelSelector(match_labels={"app": "web"}), template=template)
deployment = Deployment.new("web", spec, namespace="shop")
assert_type(deployment, Deployment)
assert_type(deployment.spec.replicas, int | None)
assert_type(deployment.spec.template.spec.containers, tuple[Container, ...])
assert_type(deployment.ref, Ref[Deployment])

secret = Secret.new("db", namespace="shop", string_data={"password": "s3cret"})
assert_type(secret.data, dict[str, bytes])
assert_type(Namespace.new("shop"), Namespace)
assert_type(Role.new("reader", rules=(PolicyRule(verbs=("get",)),)), Role)
assert_type(decode(Pod, b"{}").status, PodStatus | None)


def ready(one: Deployment) -> bool:
    return one.status is not None and one.status.ready_replicas == one.spec.replicas
