"""Reads a manifest with two kinds, changes them, and writes the changed objects back as YAML."""

from datetime import UTC, datetime
from typing import Annotated

from levelset import Condition, Meta, Object, Resource, Spec, Status, set_condition
from levelset.objects import Scheme, find_condition, read_manifests, write_manifests


class WebsiteSpec(Spec):
    """The desired state of a site."""

    image: str
    replicas: Annotated[int, Meta(ge=1)] = 1


class WebsiteStatus(Status):
    """The observed state of a site."""

    conditions: tuple[Condition, ...] = ()


class Website(Resource[WebsiteSpec, WebsiteStatus], api="example.dev/v1", short_names=["ws"]):
    """A site served from a container image."""


class ConfigMap(Object, api="v1"):
    """A kind without a spec: its fields are beside the metadata."""

    data: dict[str, str] = {}


MANIFEST = """
apiVersion: example.dev/v1
kind: Website
metadata: {name: blog, namespace: default}
spec: {image: "blog:1", theme: dark}  # the class does not declare theme
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: default}
data: {motto: level it}
"""


def ready(site: Website, now: datetime) -> Website:
    """The site with the condition Ready; its transition time stays when it was ready before."""
    known = site.status.conditions if site.status else ()
    return site.with_status(WebsiteStatus(conditions=set_condition(known, "Ready", True, now=now, reason="Served")))


def main() -> None:
    """Prints what was read, and the manifest to write."""
    scheme = Scheme(Website, ConfigMap)
    objects = read_manifests(MANIFEST, scheme)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    changed = [ready(one, now) if isinstance(one, Website) else one for one in objects]
    for one in changed:
        print(one.ref)
    (site,) = [one for one in changed if isinstance(one, Website)]
    print(find_condition(site.status.conditions if site.status else (), "Ready"))
    print(write_manifests(changed), end="")


if __name__ == "__main__":
    main()
