"""How kinds are written and used."""

from typing import Annotated, assert_type

from levelset import Condition, LabelSelector, Meta, Quantity, Ref, Resource, Spec, Status, decode, replace
from levelset.objects import Model


class Port(Model):
    name: str
    container_port: int = 80


class WebsiteSpec(Spec):
    image: str
    replicas: Annotated[int, Meta(ge=1)] = 1
    ports: tuple[Port, ...] = ()


class WebsiteStatus(Status):
    ready: int = 0
    conditions: tuple[Condition, ...] = ()


class Website(Resource[WebsiteSpec, WebsiteStatus], api="example.dev/v1", short_names=["ws"]):
    """A site."""


class Note(Resource[WebsiteSpec, None], api="example.dev/v1"):
    """A kind without a status."""


def reading(site: Website) -> None:
    assert_type(site.spec, WebsiteSpec)
    assert_type(site.status, WebsiteStatus | None)
    assert_type(site.namespace, str | None)
    assert_type(site.ref, Ref[Website])
    assert_type(site.metadata.labels.get("app"), str | None)


def changing(site: Website) -> Website:
    site = replace(site, spec=WebsiteSpec(image="blog:2"))
    return site.with_spec(replicas=2).with_status(WebsiteStatus(ready=1))


def without_a_status(note: Note) -> None:
    assert_type(note.status, None)


def any_resource(ref: Ref[Resource[WebsiteSpec, WebsiteStatus]]) -> str:
    return ref.name


assert_type(Website.new("blog", WebsiteSpec(image="blog:1", ports=(Port(name="http"),))), Website)
assert_type(decode(Website, b"{}"), Website)
assert_type(Ref(Website, "blog", "default"), Ref[Website])
assert_type(Quantity("1Gi") + Quantity("1"), Quantity)
assert_type(LabelSelector.of(app="web").matches({"app": "web"}), bool)
any_resource(Ref(Website, "blog"))
