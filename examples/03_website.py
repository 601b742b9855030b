"""Runs each Website as a Deployment, and follows the Secret it names."""

from collections.abc import Iterator
from typing import Any

from levelset import (
    Action,
    Column,
    Context,
    Controller,
    Object,
    Ref,
    Resource,
    Retry,
    Spec,
    Status,
    owns,
    references,
    requeue,
    run,
)


class WebsiteSpec(Spec):
    """The desired state of a site."""

    image: str
    certificate: str
    replicas: int = 1


class WebsiteStatus(Status):
    """The observed state of a site."""

    ready: int = 0


class Website(
    Resource[WebsiteSpec, WebsiteStatus],
    api="example.dev/v1",
    short_names=["ws"],
    columns=[Column("Image", ".spec.image"), Column("Ready", ".status.ready", "integer")],
):
    """A site served from a container image."""


class Secret(Object, api="v1"):
    """The certificate of a site; only its existence matters here."""


class DeploymentSpec(Spec):
    """The fields of a Deployment's spec that this controller owns; other fields belong to other managers."""

    replicas: int
    selector: dict[str, Any]
    template: dict[str, Any]


class DeploymentStatus(Status):
    """The part of a Deployment's status that we read."""

    ready_replicas: int = 0


class Deployment(Resource[DeploymentSpec, DeploymentStatus], api="apps/v1"):
    """Runs a site."""


def certificate(site: Website) -> Iterator[Ref[Secret]]:
    """The Secret that a site names: the controller watches it, and the reconciler reads it."""
    yield Ref(Secret, site.spec.certificate, site.namespace)


def deployment(site: Website) -> Deployment:
    """The Deployment that a site should have."""
    labels = {"website": site.name}
    container = {"name": "site", "image": site.spec.image}
    spec = DeploymentSpec(
        replicas=site.spec.replicas,
        selector={"matchLabels": labels},
        template={"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    )
    return Deployment.new(site.name, spec, namespace=site.namespace)


async def reconcile(site: Website, ctx: Context) -> Action:
    """Compares the desired with the actual state of a site, and takes the next step."""
    for secret in certificate(site):
        if ctx.cached(secret) is None:
            raise Retry(f"secret {secret.name} is not there yet", seconds=30)
    running = await ctx.apply(deployment(site), owner=site)
    ready = running.status.ready_replicas if running.status else 0
    await ctx.set_status(site, WebsiteStatus(ready=ready))
    return requeue(minutes=10)


async def take_down(site: Website, ctx: Context) -> None:
    """Called before a site is deleted; its Deployment is deleted with it, by its owner reference."""
    ctx.record(site, "TakenDown", f"{site.name} is offline")


websites = Controller(
    Website,
    reconcile,
    owns(Deployment),
    references(Secret, certificate),
    cleanup=take_down,
    concurrency=4,
)

if __name__ == "__main__":
    run(websites)
