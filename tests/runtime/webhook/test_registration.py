import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from levelset import Client, ConfigError, GroupVersionKind, Ref, Unstructured
from levelset.apiserver import ApiServer
from levelset.objects import Object
from levelset.runtime.webhook import (
    Endpoint,
    Match,
    Reach,
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
from levelset.runtime.webhook.client_config import reach_from_environment
from tests.runtime.webhook.sites import OldestSite, OldSite, Site, definition, versions

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
    unpaused = Match[Site]("not-paused", "!object.spec.paused", lambda review: not review.new.spec.paused)
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


def test_each_sort_has_a_configuration_of_its_own_and_urls_end_in_the_path() -> None:
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


def test_conversions_become_a_part_of_the_definition() -> None:
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


async def test_configurations_are_taken_out_again_as_far_as_they_are_there() -> None:
    async with open_client() as client:
        webhooks = Webhooks(defaults(Site, same), validates(Site, check), service=SERVICE)
        await register(client, webhooks)
        await unregister(client, webhooks)
        await unregister(client, webhooks)
        kind = GroupVersionKind("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration")
        assert not list(await client.list(kind))


async def test_a_definition_that_is_missing_is_named() -> None:
    async with open_client() as client:
        with pytest.raises(ConfigError, match=r"CustomResourceDefinition/sites\.example\.dev is not there"):
            await register(client, Webhooks(versions(), service=SERVICE))


def test_a_role_needs_what_registering_does() -> None:
    rules = permissions(Webhooks(validates(Site, check), versions(), service=SERVICE), secret="hooks-certificates")
    found = {(one["resources"][0], tuple(one.get("resourceNames", ())), tuple(one["verbs"])) for one in rules}
    assert found == {
        ("validatingwebhookconfigurations", ("sites.example.dev",), ("get", "patch")),
        ("validatingwebhookconfigurations", (), ("create",)),
        ("customresourcedefinitions", ("sites.example.dev",), ("get", "patch")),
        ("secrets", ("hooks-certificates",), ("get", "update")),
        ("secrets", (), ("create",)),
    }


def test_the_environment_may_say_how_the_webhooks_are_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def reach() -> Reach:
        return Webhooks(validates(Site, check)).reach

    with pytest.raises(ConfigError, match="the API server must be told where they are"):
        reach()
    monkeypatch.setenv("LEVELSET_WEBHOOK_SERVICE", "hooks.shop:8443")
    assert reach() == Service("hooks", "shop", 8443)
    monkeypatch.delenv("LEVELSET_WEBHOOK_SERVICE")
    monkeypatch.setenv("LEVELSET_WEBHOOK_URL", "https://10.0.0.7:9443")
    assert reach() == Url("https://10.0.0.7:9443")
    assert (reach().names, reach().addresses) == ((), ("10.0.0.7",))
    assert Url("https://hooks.dev").names == ("hooks.dev",)


@pytest.mark.parametrize("text", ["hooks", "hooks.shop:0", "hooks.shop:x", "Hooks.shop", "a.b.c", "hooks.shop:70000"])
def test_a_service_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"write it as name\.namespace"):
        reach_from_environment({"LEVELSET_WEBHOOK_SERVICE": text})


@pytest.mark.parametrize("url", ["http://a", "https://", "https://a?b", "https://u:p@a", "a"])
def test_a_url_that_no_server_would_call_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="https://HOST"):
        Webhooks(url=url)


def test_webhooks_are_given_in_any_nesting_and_nothing_else_is() -> None:
    hook = validates(Site, check)
    webhooks = Webhooks([hook, versions()], Webhooks(defaults(Site, same)))
    assert (len(webhooks.hooks), len(webhooks.conversions)) == (2, 2)
    assert webhooks.kinds == (Site, OldSite, OldestSite)
    assert not Webhooks()
    assert repr(Webhooks(hook)) == "Webhooks(validates(example.dev/v2 Site, check.sites.example.dev))"
    wrong: list[Any] = [3, "text", None, Site]
    for one in wrong:
        with pytest.raises(ConfigError, match="is no webhook"):
            Webhooks(one)
    with pytest.raises(ConfigError, match="not both"):
        Webhooks(hook, service=SERVICE, url="https://a")
    with pytest.raises(ConfigError, match="name of the configurations"):
        Webhooks(hook, name="Not A Name")
    with pytest.raises(ConfigError, match="two webhooks are called"):
        Webhooks(hook, hook)


def test_more_webhooks_keep_what_was_said_of_the_first() -> None:
    more = Webhooks(validates(Site, check), name="shop", service=SERVICE, port=1234).with_more(versions())
    assert (more.name, more.reach, more.port, len(more.conversions)) == ("shop", SERVICE, 1234, 2)
    assert Webhooks(url="https://a.dev").with_more(validates(Site, check)).reach == Url("https://a.dev")


async def test_an_endpoint_needs_to_know_how_it_is_reached() -> None:
    with pytest.raises(ConfigError, match="must be told where they are"):
        await Endpoint(Webhooks(validates(Site, check))).start()
