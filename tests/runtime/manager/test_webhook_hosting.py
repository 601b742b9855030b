"""Webhooks of a manager: reviewed in the same process, or served over HTTPS and registered."""

import base64
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from levelset import Client, Config, Context, Controller, Denied, GroupVersionKind, Manager, Ref
from levelset.apiserver import ApiServer
from levelset.client import Retries, Token
from levelset.errors import ConfigError, Forbidden
from levelset.runtime.webhook import Review, Service, Webhooks, defaults, validates
from levelset.testing.virtual_time import virtual
from tests.runtime.manager.http_fetch import fetch, numbers_of
from tests.runtime.webhook.https_client import call, tls_context
from tests.runtime.webhook.site_kinds import OldSite, OldSiteSpec, Site, SiteSpec, definition, request, site, versions

CONFIGURATION = GroupVersionKind("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration")


def latest(one: Site) -> Site:
    return one if ":" in one.spec.image else one.with_spec(image=f"{one.spec.image}:latest")


def check(one: Site) -> None:
    if one.spec.replicas < 1:
        raise Denied("at least one replica is needed", field="spec.replicas")


HOOKS = [defaults(Site, latest), validates(Site, check)]


@asynccontextmanager
async def open_server(*, listen: bool = False) -> AsyncGenerator[ApiServer, None]:
    server = ApiServer(tls=False)
    await server.start(listen=listen)
    try:
        async with await Client.connect(server) as owner:
            await owner.create(definition("v2", "v1", "v1alpha1"))
        yield server
    finally:
        await server.stop()


@virtual
async def test_an_in_process_server_calls_webhooks_directly_while_the_manager_runs() -> None:
    async with open_server() as server:
        async with Manager(server, webhooks=HOOKS) as manager:
            made = await manager.client.create(Site.new("blog", SiteSpec(image="x")))
            assert made.spec.image == "x:latest"
            with pytest.raises(Forbidden, match=r"spec\.replicas: at least one replica is needed"):
                await manager.client.create(Site.new("none", SiteSpec(replicas=0)))
            assert "webhooks" not in manager.urls
        async with await Client.connect(server) as client:
            await client.create(Site.new("none", SiteSpec(replicas=0)))


@virtual
async def test_versions_are_converted_in_process_and_controllers_see_their_own() -> None:
    seen: list[str] = []

    async def reconcile(old: OldSite, ctx: Context) -> None:
        seen.append(old.spec.container)

    async with open_server() as server, Manager(server, webhooks=versions()) as manager:
        manager.add(Controller(OldSite, reconcile, name="old"))
        await manager.client.create(Site.new("blog", SiteSpec(image="x")))
        await manager.client.create(OldSite.new("shop", OldSiteSpec(container="y")))
        await manager.wait_idle()
        assert sorted(seen) == ["x", "y"]
        assert (await manager.client.get(Site, "shop")).spec.image == "y"


@virtual
async def test_webhooks_can_only_be_added_before_the_start_and_get_the_client_of_the_manager() -> None:
    seen: list[Any] = []

    async def find_existing(review: Review[Site]) -> None:
        seen.append(await review.client.find(Site, review.name))

    async with open_server() as server:
        manager = Manager(server, webhooks=HOOKS)
        manager.add_webhooks([validates(Site, find_existing)])
        async with manager:
            await manager.client.create(Site.new("blog", SiteSpec()))
            assert seen == [None]
            with pytest.raises(ConfigError, match="before the manager starts"):
                manager.add_webhooks(versions())


async def test_for_other_servers_webhooks_are_served_over_https_and_registered_with_their_ca() -> None:
    webhooks = Webhooks(HOOKS, versions(), url="https://127.0.0.1:9443", host="127.0.0.1", port=0)
    async with open_server(listen=True) as server:
        config = Config(server=server.url, credentials=Token(server.token))
        async with Manager(config, webhooks=webhooks, health=0) as manager:
            await manager.wait_started()
            ref: Ref[Any] = Ref(CONFIGURATION, "sites.example.dev")
            entry = (await manager.client.get(ref)).tree["webhooks"][0]
            trusted = tls_context(base64.b64decode(entry["clientConfig"]["caBundle"]))
            port = int(manager.urls["webhooks"].rpartition(":")[2])
            reviewed = {
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "request": request(site(replicas=0)),
            }
            path = entry["clientConfig"]["url"].removeprefix("https://127.0.0.1:9443")
            status, answer = await call(port, path, reviewed, trusted)
            assert (status, answer["response"]["status"]["code"]) == (200, 403)
            definitions: Ref[Any] = Ref(
                GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), ref.name
            )
            conversion = (await manager.client.get(definitions)).tree["spec"]["conversion"]
            assert conversion["strategy"] == "Webhook"
            assert "[+]webhooks ok: valid until" in (await fetch(manager.urls["health"], "/readyz?verbose"))[1]
            assert (await call(port, "/elsewhere", reviewed, trusted))[0] == 404
            shown = numbers_of((await fetch(manager.urls["health"], "/metrics"))[1])
            assert shown[f'controller_runtime_webhook_requests_total{{code="200",webhook="{path}"}}'] == 1
            assert shown[f'controller_runtime_webhook_latency_seconds_count{{webhook="{path}"}}'] == 1
            assert shown['controller_runtime_webhook_requests_in_flight{webhook="/convert"}'] == 0
            assert not [name for name in shown if "elsewhere" in name]
        with pytest.raises((OSError, ssl.SSLError)):
            await call(port, path, reviewed, trusted)
        async with await Client.connect(server) as client:
            assert await client.find(ref) is None
            assert (await client.get(definitions)).tree["spec"]["conversion"]["strategy"] == "Webhook"


async def test_a_registration_for_a_service_stays_for_other_replicas() -> None:
    service = Service("hooks", "default")
    async with open_server(listen=True) as server, await Client.connect(server) as client:
        config = Config(server=server.url, credentials=Token(server.token))
        bundles: list[str] = []
        for _ in range(2):
            async with Manager(config, webhooks=Webhooks(HOOKS, service=service, host="127.0.0.1", port=0)) as manager:
                await manager.wait_started()
            found = await client.get(CONFIGURATION, "sites.example.dev")
            bundles.append(found.tree["webhooks"][0]["clientConfig"]["caBundle"])
        assert bundles[0] == bundles[1]
        secret = await client.get(GroupVersionKind("", "v1", "Secret"), "hooks-certificates")
        assert secret.tree["data"]["ca.crt"] == bundles[0]


async def test_a_server_that_is_gone_when_the_manager_stops_causes_only_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    webhooks = Webhooks(HOOKS, url="https://127.0.0.1:9443", host="127.0.0.1", port=0)
    async with open_server(listen=True) as server:
        client = await Client.connect(
            Config(server=server.url, credentials=Token(server.token)), retries=Retries(attempts=1)
        )
        async with Manager(client, webhooks=webhooks):
            await client.aclose()
    assert "webhooks stay registered" in caplog.messages


async def test_a_manager_without_a_webhook_address_does_not_start_and_leaves_nothing_behind() -> None:
    async with open_server(listen=True) as server:
        config = Config(server=server.url, credentials=Token(server.token))
        with pytest.raises(ConfigError, match="needs their address"):
            async with Manager(config, webhooks=HOOKS):
                pass
