"""Webhooks that name a Service are reached at its endpoints, external name, ClusterIP, or a given address."""

from typing import Any
from urllib.parse import urlsplit

import pytest

from levelset.apiserver.registry.service_addresses import ServiceAddresses
from levelset.apiserver.wire.webhook_client import parse_service_address
from levelset.errors import ConfigError, Unreachable
from tests.apiserver.support.in_process_server import CONFIGMAPS, InProcessServer, configmap, open_server
from tests.apiserver.support.remote_webhook import Webhook, configuration, hook, open_webhook
from tests.apiserver.support.versioned_widgets import CRDS, NEW, OLD, convert, definition, widget

SERVICES = "/api/v1/namespaces/system/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/system/endpointslices"


def service(**spec: Any) -> dict[str, Any]:
    ports = [{"name": "https", "port": 443}, {"name": "metrics", "port": 9090}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hooks"}, "spec": {"ports": ports, **spec}}


def endpoint_slice(name: str, address: str, port: int, *, of: str = "hooks", **conditions: bool) -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": of}},
        "addressType": "IPv4",
        "ports": [{"name": "metrics", "port": 1}, {"name": "https", "port": port}],
        "endpoints": [{"addresses": [address], "conditions": conditions}],
    }


async def prepare(api: InProcessServer, *objects: dict[str, Any]) -> ServiceAddresses:
    await api.create("/api/v1/namespaces", {"metadata": {"name": "system"}})
    for tree in objects:
        await api.create(SERVICES if tree["kind"] == "Service" else SLICES, tree)
    return ServiceAddresses(api.server._components.state, {"system/given:443": ("127.0.0.9", 7)})


async def test_an_endpoint_that_is_ready_comes_before_the_cluster_ip() -> None:
    async with open_server() as api:
        slices = [
            endpoint_slice("a", "127.0.0.2", 8443, ready=False),
            endpoint_slice("b", "127.0.0.3", 8443, of="others", ready=True),
            endpoint_slice("c", "127.0.0.4", 9443, ready=True),
        ]
        addresses = await prepare(api, service(clusterIP="10.96.0.77"), *slices)
        assert addresses.resolve("system", "hooks", 443) == ("127.0.0.4", 9443)


async def test_a_service_without_endpoints_is_reached_at_its_cluster_ip() -> None:
    async with open_server() as api:
        addresses = await prepare(api, service(clusterIP="10.96.0.77"))
        assert addresses.resolve("system", "hooks", 443) == ("10.96.0.77", 443)


async def test_an_external_name_is_the_host() -> None:
    async with open_server() as api:
        addresses = await prepare(api, service(type="ExternalName", externalName="hooks.example.com"))
        assert addresses.resolve("system", "hooks", 443) == ("hooks.example.com", 443)


async def test_a_given_address_needs_no_service() -> None:
    async with open_server() as api:
        assert (await prepare(api)).resolve("system", "given", 443) == ("127.0.0.9", 7)


@pytest.mark.parametrize(
    ("spec", "port", "problem"),
    [
        (None, 443, "the Service system/hooks does not exist"),
        ({}, 8443, "has no port 8443"),
        ({"clusterIP": "None"}, 443, "has neither a ready endpoint nor a ClusterIP"),
    ],
)
async def test_what_is_missing_is_said_with_the_remedy(spec: Any, port: int, problem: str) -> None:
    async with open_server() as api:
        addresses = await prepare(api, *([] if spec is None else [service(**spec)]))
        with pytest.raises(Unreachable, match=f"{problem}: serve it, give its address .*--webhook-service"):
            addresses.resolve("system", "hooks", port)


def of_service(webhook: Webhook) -> dict[str, Any]:
    named = {"namespace": "system", "name": "hooks", "path": "/review"}
    return {"service": named, "caBundle": webhook.client["caBundle"]}


async def test_a_webhook_that_names_a_service_is_called_at_its_endpoint() -> None:
    async with open_server() as api, open_webhook() as webhook:
        port = urlsplit(webhook.url).port
        assert port is not None
        await prepare(api, service(), endpoint_slice("a", "127.0.0.1", port))
        entry = {**hook(webhook), "clientConfig": of_service(webhook)}
        await api.create("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", configuration(entry))
        await api.create(CONFIGMAPS, configmap("a"))
        assert [one["name"] for one in webhook.requests] == ["a"]


async def test_a_conversion_webhook_that_names_a_service_is_called_at_its_endpoint() -> None:
    def converted(request: Any) -> Any:
        made = [convert(one, request["desiredAPIVersion"]) for one in request["objects"]]
        return {"result": {"status": "Success"}, "convertedObjects": made}

    async with open_server() as api, open_webhook(converted) as webhook:
        port = urlsplit(webhook.url).port
        assert port is not None
        await prepare(api, service(), endpoint_slice("a", "127.0.0.1", port))
        named = {"clientConfig": of_service(webhook), "conversionReviewVersions": ["v1"]}
        await api.create(CRDS, definition("v2", conversion={"strategy": "Webhook", "webhook": named}))
        await api.create(OLD, widget("a", "v1", color="red"))
        assert (await api.request("GET", f"{NEW}/a"))[1]["spec"]["colour"] == "red"


async def test_a_webhook_whose_service_does_not_exist_fails_the_write_with_the_reason() -> None:
    async with open_server() as api, open_webhook() as webhook:
        entry = {**hook(webhook), "clientConfig": of_service(webhook)}
        await api.create("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", configuration(entry))
        status, tree = await api.request("POST", CONFIGMAPS, configmap("a"))
        assert (status, "the Service system/hooks does not exist" in tree["message"]) == (500, True)


def test_an_address_is_read_with_and_without_a_port_of_the_service() -> None:
    assert parse_service_address("shop/hooks=127.0.0.1:9443") == ("shop/hooks", ("127.0.0.1", 9443))
    assert parse_service_address("shop/hooks:443=[::1]:9443") == ("shop/hooks:443", ("::1", 9443))


@pytest.mark.parametrize("text", ["", "hooks=127.0.0.1:1", "shop/=127.0.0.1:1", "shop/hooks=h", "shop/hooks=h:0"])
def test_a_wrong_address_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(ConfigError, match="write NAMESPACE/NAME=HOST:PORT"):
        parse_service_address(text)
