"""The kinds that the tests of this package use."""

from typing import Annotated

from levelset.objects.field_markers import ListMap, Rule
from levelset.objects.kind_definition import Column, Scale
from levelset.objects.meta import Condition
from levelset.objects.model import Meta, Model, Spec, Status
from levelset.objects.resource import Object, Resource


class Port(Model):
    name: str = ""
    container_port: int = 0


class WebsiteSpec(Spec):
    image: str
    replicas: Annotated[int, Meta(ge=0)] = 1
    ports: Annotated[tuple[Port, ...], ListMap("name")] = ()
    cluster_ips: tuple[str, ...] = ()
    pod_ip: str | None = None
    locked: Annotated[bool, Rule("self == oldSelf", "locked cannot change")] | None = None


class WebsiteStatus(Status):
    ready: int = 0
    conditions: tuple[Condition, ...] = ()


class Website(
    Resource[WebsiteSpec, WebsiteStatus],
    api="example.dev/v1",
    short_names=["ws"],
    categories=["all"],
    columns=[Column("Ready", ".status.ready", "integer")],
    scale=Scale(status=".status.ready"),
):
    """A site served from a container image."""


class Settings(Object, api="v1", kind="ConfigMap"):
    data: dict[str, str] = {}


class Region(Resource[WebsiteSpec, None], api="example.dev/v1", scope="Cluster"):
    """A cluster-scoped kind."""


def blog(**spec) -> Website:
    return Website.new("blog", WebsiteSpec(image="blog:1", **spec), namespace="default")
