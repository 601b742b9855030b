"""The measured custom resource as a levelset class, with every field of the payload.

A Pod is that of `levelset.kinds`, with all fields that Kubernetes has, as lightkube's is.
"""

from levelset import Condition, Resource, Spec, Status
from levelset.objects import Model

__all__ = ["Website", "WebsiteStatus"]


class Port(Model):
    name: str = ""
    container_port: int = 0
    protocol: str = ""


class Variable(Model):
    name: str
    value: str = ""


class Resources(Model):
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class WebsiteSpec(Spec):
    image: str
    certificate: str
    replicas: int = 1
    ports: tuple[Port, ...] = ()
    env: tuple[Variable, ...] = ()
    resources: Resources | None = None


class WebsiteStatus(Status):
    ready: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class Website(Resource[WebsiteSpec, WebsiteStatus], api="example.dev/v1"):
    """A site served from a container image."""
