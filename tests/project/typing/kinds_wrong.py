"""Mistakes with built-in kinds that a type checker must find."""

from levelset import LabelSelector
from levelset.kinds import Container, Deployment, DeploymentSpec, PodSpec, PodTemplateSpec, Secret, Service, ServiceSpec

template = PodTemplateSpec(spec=PodSpec(containers=(Container(name="web"),)))

Container(name="web", image_pull_policy="Allways")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Container(name="web", imagePullPolicy="Always")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
Container(image="web:1")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
Secret.new("db", data={"password": "s3cret"})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
Service.new("web", ServiceSpec(type="Cluster"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
DeploymentSpec(template=template)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
DeploymentSpec(selector=LabelSelector.of(app="web"), template=template)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def scale(deployment: Deployment) -> None:
    deployment.spec.replicas = 3  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
