import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from levelset import Client, GroupVersionKind, Ref, Unstructured
from levelset.apiserver import ApiServer
from levelset.errors import ConfigError
from levelset.objects import Object
from levelset.runtime.webhook import (
    ClientConfig,
    Endpoint,
    MatchCondition,
    Service,
    Url,
    Webhooks,
    configurations,
    conversion_patches,
    defaults,
    permissions,
    register,
    unregister,
    validates,
)
from levelset.runtime.webhook.client_config import client_config_from_environment
from tests.runtime.webhook.site_kinds import OldestSite, OldSite, Site, definition, versions

SERVICE = Service("hooks", "shop")
CA = b"-----BEGIN CERTIFICATE-----\n"


ENTRY = {
    "name": "check.sites.example.dev",
    "clientConfig": {
        "service": {
            "name": "hooks",
            "namespace": "shop",
            "path": "/validate/check.sites.example.dev",
            "port": 443,
        },
        "caBundle": base64.b64encode(CA).decode(),
    },
    "rules": [
        {
            "apiGroups": ["example.dev"],
            "apiVersions": ["v2"],
            "operations": ["CREATE", "DELETE"],
            "resources": ["sites", "sites/status"],
            "scope": "Namespaced",
        }
    ],
    "admissionReviewVersions": ["v1"],
    "sideEffects": "NoneOnDryRun",
    "failurePolicy": "Ignore",
    "matchPolicy": "Equivalent",
    "timeoutSeconds": 5,
    "namespaceSelector": {
        "matchExpressions": [{"key": "env", "operator": "In", "values": ["a", "b"]}],
    },
    "objectSelector": {"matchLabels": {"app": "shop"}},
    "matchConditions": [{"name": "not-paused", "expression": "!object.spec.paused"}],
}


class Node(Object, api="v1", scope="Cluster"):
    pass


def check(_: Any) -> None:
    pass


def same(one: Site) -> Site:
    return one


def test_a_hook_becomes_an_entry_of_its_configuration() -> None:
    unpaused = MatchCondition[Site]("not-paused", "!object.spec.paused", lambda review: not review.new.spec.paused)
    hook = validates(
        Site,
        check,
        on=("create", "delete"),
        subresources=("", "status"),
        when=[unpaused, lambda review: review.dry_run],
        failure_policy="Ignore",
        timeout=4.2,
        namespace_selector="env in (a, b)",
        object_selector="app=shop",
        side_effects="NoneOnDryRun",
    )
    (made,) = configurations(Webhooks(hook, name="shop", service=SERVICE), ca=CA)
    assert (made["kind"], made["metadata"]) == ("ValidatingWebhookConfiguration", {"name": "shop"})
    assert made["webhooks"] == [ENTRY]


def test_mutating_and_validating_hooks_have_separate_configurations() -> None:
    webhooks = Webhooks([defaults(Site, same), validates(Node, check)], url="https://hooks.dev:9443/base/")
    mutating, validating = configurations(webhooks)
    assert mutating["kind"] == "MutatingWebhookConfiguration"
    assert mutating["webhooks"][0]["reinvocationPolicy"] == "Never"
    assert mutating["webhooks"][0]["clientConfig"] == {
        "url": "https://hooks.dev:9443/base/default/same.sites.example.dev"
    }
    assert validating["webhooks"][0]["rules"][0]["scope"] == "Cluster"
    assert mutating["metadata"]["name"] == "sites.example.dev"


def test_a_kind_without_a_class_may_have_either_scope() -> None:
    hook = validates(GroupVersionKind("", "v1", "Pod"), check, on="connect", subresources="exec")
    (made,) = configurations(Webhooks(hook, service=SERVICE))
    assert made["webhooks"][0]["rules"][0]["scope"] == "*"
    assert made["webhooks"][0]["rules"][0]["resources"] == ["pods/exec"]


def test_conversions_become_part_of_the_crd() -> None:
    (made,) = conversion_patches(Webhooks(versions(), service=SERVICE), ca=CA)
    assert made["metadata"] == {"name": "sites.example.dev"}
    conversion = made["spec"]["conversion"]
    assert conversion["strategy"] == "Webhook"
    assert conversion["webhook"]["conversionReviewVersions"] == ["v1"]
    assert conversion["webhook"]["clientConfig"]["service"]["path"] == "/convert"


@asynccontextmanager
async def open_client() -> AsyncGenerator[Client, None]:
    server = ApiServer()
    await server.start(listen=False)
    try:
        async with await Client.connect(server) as client:
            yield client
    finally:
        await server.stop()


async def test_registering_twice_changes_nothing_and_a_new_authority_changes_the_bundle() -> None:
    async with open_client() as client:
        await client.create(definition("v2", "v1", "v1alpha1"))
        webhooks = Webhooks(defaults(Site, same), validates(Site, check), versions(), service=SERVICE)
        applied = await register(client, webhooks, ca=CA)
        assert applied == [
            "CustomResourceDefinition/sites.example.dev",
            "MutatingWebhookConfiguration/sites.example.dev",
            "ValidatingWebhookConfiguration/sites.example.dev",
        ]
        refs: list[Ref[Any]] = [
            Ref(GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), "sites.example.dev"),
            Ref(GroupVersionKind("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration"), webhooks.name),
            Ref(
                GroupVersionKind("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"), webhooks.name
            ),
        ]
        first: list[Unstructured] = [await client.get(one) for one in refs]
        await register(client, webhooks, ca=CA)
        assert [await client.get(one) for one in refs] == first
        await register(client, webhooks, ca=CA + CA)
        bundle = base64.b64encode(CA + CA).decode()
        changed: list[Unstructured] = [await client.get(one) for one in refs]
        assert all(bundle in str(one.tree) for one in changed)


async def test_unregister_deletes_the_configurations_that_exist() -> None:
    async with open_client() as client:
        webhooks = Webhooks(defaults(Site, same), validates(Site, check), service=SERVICE)
        await register(client, webhooks)
        await unregister(client, webhooks)
        await unregister(client, webhooks)
        kind = GroupVersionKind("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration")
        assert not list(await client.list(kind))


async def test_a_missing_crd_is_named() -> None:
    async with open_client() as client:
        with pytest.raises(ConfigError, match=r"CustomResourceDefinition/sites\.example\.dev is not installed"):
            await register(client, Webhooks(versions(), service=SERVICE))


def test_permissions_cover_what_register_does() -> None:
    rules = permissions(Webhooks(validates(Site, check), versions(), service=SERVICE), secret="hooks-certificates")
    found = {(one["resources"][0], tuple(one.get("resourceNames", ())), tuple(one["verbs"])) for one in rules}
    assert found == {
        ("validatingwebhookconfigurations", ("sites.example.dev",), ("get", "patch")),
        ("validatingwebhookconfigurations", (), ("create",)),
        ("customresourcedefinitions", ("sites.example.dev",), ("get", "patch")),
        ("secrets", ("hooks-certificates",), ("get", "update")),
        ("secrets", (), ("create",)),
    }


def test_the_client_config_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def client_config() -> ClientConfig:
        return Webhooks(validates(Site, check)).client_config

    with pytest.raises(ConfigError, match="the API server needs their address"):
        client_config()
    monkeypatch.setenv("LEVELSET_WEBHOOK_SERVICE", "hooks.shop:8443")
    assert client_config() == Service("hooks", "shop", 8443)
    monkeypatch.delenv("LEVELSET_WEBHOOK_SERVICE")
    monkeypatch.setenv("LEVELSET_WEBHOOK_URL", "https://10.0.0.7:9443")
    assert client_config() == Url("https://10.0.0.7:9443")
    assert (client_config().names, client_config().addresses) == ((), ("10.0.0.7",))
    assert Url("https://hooks.dev").names == ("hooks.dev",)


@pytest.mark.parametrize("text", ["hooks", "hooks.shop:0", "hooks.shop:x", "Hooks.shop", "a.b.c", "hooks.shop:70000"])
def test_an_invalid_service_raises_a_config_error(text: str) -> None:
    with pytest.raises(ConfigError, match=r"must be name\.namespace"):
        client_config_from_environment({"LEVELSET_WEBHOOK_SERVICE": text})


@pytest.mark.parametrize("url", ["http://a", "https://", "https://a?b", "https://u:p@a", "a"])
def test_an_invalid_webhook_url_raises_a_config_error(url: str) -> None:
    with pytest.raises(ConfigError, match="https://HOST"):
        Webhooks(url=url)


def test_webhooks_may_be_nested_and_anything_else_raises_a_config_error() -> None:
    hook = validates(Site, check)
    webhooks = Webhooks([hook, versions()], Webhooks(defaults(Site, same)))
    assert (len(webhooks.hooks), len(webhooks.conversions)) == (2, 2)
    assert webhooks.kinds == (Site, OldSite, OldestSite)
    assert not Webhooks()
    assert repr(Webhooks(hook)) == "Webhooks(validates(example.dev/v2 Site, check.sites.example.dev))"
    wrong: list[Any] = [3, "text", None, Site]
    for one in wrong:
        with pytest.raises(ConfigError, match="is not a webhook"):
            Webhooks(one)
    with pytest.raises(ConfigError, match="not both"):
        Webhooks(hook, service=SERVICE, url="https://a")
    with pytest.raises(ConfigError, match="must be a DNS subdomain"):
        Webhooks(hook, name="Not A Name")
    with pytest.raises(ConfigError, match="two webhooks are named"):
        Webhooks(hook, hook)


def test_with_more_keeps_the_options() -> None:
    more = Webhooks(validates(Site, check), name="shop", service=SERVICE, port=1234).with_more(versions())
    assert (more.name, more.client_config, more.port, len(more.conversions)) == ("shop", SERVICE, 1234, 2)
    assert Webhooks(url="https://a.dev").with_more(validates(Site, check)).client_config == Url("https://a.dev")


async def test_an_endpoint_without_a_client_config_raises_a_config_error() -> None:
    with pytest.raises(ConfigError, match="needs their address"):
        await Endpoint(Webhooks(validates(Site, check))).start()
