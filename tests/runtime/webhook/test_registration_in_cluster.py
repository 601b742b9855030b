"""Webhooks registered in a server and called over HTTPS, as in any cluster."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from levelset import Client, Denied
from levelset.apiserver import ApiServer, WebhookClient
from levelset.errors import Forbidden
from levelset.runtime.webhook import (
    ClientConfig,
    Endpoint,
    OwnCertificates,
    Service,
    Url,
    Webhooks,
    configurations,
    conversion_patches,
    defaults,
    validates,
)
from tests.runtime.webhook.site_kinds import OldSite, OldSiteSpec, Site, SiteSpec, definition, versions


def check(one: Site) -> None:
    if one.spec.replicas < 1:
        raise Denied("too few")


def latest(one: Site) -> Site:
    return one if ":" in one.spec.image else one.with_spec(image=f"{one.spec.image}:latest")


HOOKS = [defaults(Site, latest), validates(Site, check), *versions()]


@asynccontextmanager
async def registered(client_config: ClientConfig | None = None) -> AsyncGenerator[Client, None]:
    """A client of a server that knows the webhooks only by their configurations."""
    named: dict[str, Any] = {"url": "https://127.0.0.1:9443"} if client_config is None else {"service": client_config}
    webhooks = Webhooks(HOOKS, host="127.0.0.1", port=0, certificates=OwnCertificates(), **named)
    async with Endpoint(webhooks) as endpoint:
        where = client_config or Url(f"https://127.0.0.1:{endpoint.port}")
        server = ApiServer(
            webhook_client=WebhookClient(reach="loopback", services=lambda *_: ("127.0.0.1", endpoint.port))
        )
        await server.start(listen=False)
        try:
            async with await Client.connect(server) as client:
                (patch,) = conversion_patches(webhooks, ca=endpoint.ca, client_config=where)
                tree = definition("v2", "v1", "v1alpha1")
                await client.create({**tree, "spec": {**tree["spec"], **patch["spec"]}})
                for one in configurations(webhooks, ca=endpoint.ca, client_config=where):
                    await client.create(one)
                yield client
        finally:
            await server.stop()


async def test_mutating_and_validating_hooks_are_called_over_https() -> None:
    async with registered() as client:
        made = await client.create(Site.new("blog", SiteSpec(image="x")))
        assert made.spec.image == "x:latest"
        with pytest.raises(Forbidden, match='webhook "check.sites.example.dev" denied the request: too few'):
            await client.create(Site.new("none", SiteSpec(replicas=0)))


async def test_versions_are_converted_over_https() -> None:
    async with registered() as client:
        await client.create(OldSite.new("old", OldSiteSpec(container="x:1", size=3)))
        assert (await client.get(Site, "old")).spec == SiteSpec(image="x:1", replicas=3)
        await client.create(Site.new("new", SiteSpec(image="y:2")))
        found = {one.metadata.name: one.spec.container for one in await client.list(OldSite)}
        assert found == {"new": "y:2", "old": "x:1"}


async def test_a_hook_for_one_version_reviews_converted_objects_of_the_others() -> None:
    async with registered() as client:
        with pytest.raises(Forbidden, match="too few"):
            await client.create(OldSite.new("none", OldSiteSpec(size=0)))


async def test_a_service_is_called_at_its_resolved_address() -> None:
    async with registered(Service("hooks", "system")) as client:
        made = await client.create(Site.new("blog", SiteSpec(image="x")))
        assert made.spec.image == "x:latest"
