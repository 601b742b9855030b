"""Webhooks that this process serves and a real kube-apiserver calls: defaults, validation, conversion."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from levelset import (
    Client,
    Denied,
    GroupVersionKind,
    Manager,
    Ref,
    Resource,
    Spec,
    Status,
    converts,
    defaults,
    validates,
)
from levelset.client.object_types import view_of
from levelset.errors import Forbidden, ServerFailed
from levelset.runtime.manager.crd_install import install_crds
from levelset.runtime.webhook import Webhooks
from tests.etcd.etcd_cluster import free_ports

GROUP = f"hooks-{uuid.uuid4().hex[:8]}.levelset.example"


class SiteSpec(Spec):
    """The desired state."""

    image: str = ""
    replicas: int = 1


class Site(Resource[SiteSpec, Status], api=f"{GROUP}/v2"):
    """A site."""


class OldSiteSpec(Spec):
    """The desired state, as it was."""

    container: str = ""
    replicas: int = 1


class OldSite(Resource[OldSiteSpec, Status], api=f"{GROUP}/v1", kind="Site"):
    """A site, as it was."""


def latest(site: Site) -> Site:
    return site if ":" in site.spec.image else site.with_spec(image=f"{site.spec.image}:latest")


def few(site: Site) -> None:
    if site.spec.replicas > 9:
        raise Denied("at most 9 replicas", field="spec.replicas")


def upgrade(old: OldSite) -> Site:
    return Site(metadata=old.metadata, spec=SiteSpec(image=old.spec.container, replicas=old.spec.replicas))


def downgrade(new: Site) -> OldSite:
    return OldSite(metadata=new.metadata, spec=OldSiteSpec(container=new.spec.image, replicas=new.spec.replicas))


@pytest.fixture
async def client(kube_client: Client) -> AsyncIterator[Client]:
    """A client of a cluster whose API server calls the webhooks of a manager here."""
    (port,) = free_ports(1)
    made = [
        defaults(Site, latest),
        validates(Site, few),
        converts(Site, OldSite, to_hub=upgrade, from_hub=downgrade),
    ]
    hooks = Webhooks(made, name=GROUP, url=f"https://127.0.0.1:{port}", host="127.0.0.1")
    await install_crds(kube_client, [view_of(Site), view_of(OldSite)])
    async with Manager(kube_client, webhooks=hooks, health=None) as manager:
        await manager.wait_started()
        assert manager.urls["webhooks"] == f"https://127.0.0.1:{port}"
        yield kube_client


async def created(client: Client, site: Site | OldSite) -> Any:
    """Creates an object; a webhook that was just registered may not be known to the server yet."""
    for _ in range(100):
        try:
            made = await client.create(site)
        except ServerFailed:
            await asyncio.sleep(0.1)
            continue
        if not isinstance(made, Site) or ":" in made.spec.image:
            return made
        await client.delete(made.ref)
        await asyncio.sleep(0.1)
    raise AssertionError("the webhooks are not called")


async def test_it_calls_our_defaults_validation_and_conversion(client: Client) -> None:
    made = await created(client, Site.new("blog", SiteSpec(image="nginx"), namespace="default"))
    assert made.spec.image == "nginx:latest"
    with pytest.raises(Forbidden, match="at most 9 replicas"):
        await client.create(Site.new("big", SiteSpec(image="nginx", replicas=10), namespace="default"))
    old = await client.get(Ref(OldSite, "blog", "default"))
    assert old.spec.container == "nginx:latest"
    await client.create(OldSite.new("news", OldSiteSpec(container="httpd:2", replicas=3), namespace="default"))
    assert (await client.get(Ref(Site, "news", "default"))).spec == SiteSpec(image="httpd:2", replicas=3)


async def test_an_explicit_value_that_is_the_default_survives_a_conversion(client: Client) -> None:
    tree = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Site",
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {"container": "nginx:1", "replicas": 1},
    }
    await created(client, Site.new("first", SiteSpec(image="nginx"), namespace="default"))
    await client.create(tree)
    read = await client.get(Ref(GroupVersionKind(GROUP, "v2", "Site"), "one", "default"))
    assert read.tree["spec"] == {"image": "nginx:1", "replicas": 1}
