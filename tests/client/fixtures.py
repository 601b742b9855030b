"""A client of an in-process API server that serves Websites, and hooks that record or inject failures."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from levelset.apiserver import ApiServer
from levelset.apiserver.package_data import load_package_data
from levelset.client.client import Client
from levelset.client.transport.interface import Call, Hook, Response, Send
from levelset.http import Headers
from levelset.objects import GroupVersionKind, Object, Resource, Scale, Spec, Status

__all__ = [
    "CONFIG_MAP",
    "WEBSITE",
    "ConfigMap",
    "Namespace",
    "Website",
    "WebsiteSpec",
    "WebsiteStatus",
    "failing",
    "fake_response",
    "open_client",
    "recording",
    "website",
    "website_crd",
]

# Once for all tests: a server that is started on a virtual loop cannot wait for a thread.
load_package_data()


class WebsiteSpec(Spec):
    image: str = "nginx"
    replicas: int = 1


class WebsiteStatus(Status):
    replicas: int = 0
    phase: str = ""


class Website(Resource[WebsiteSpec, WebsiteStatus], api="example.dev/v1", scale=Scale()):
    """A site."""

    spec: WebsiteSpec = WebsiteSpec()


class ConfigMap(Object, api="v1"):
    data: dict[str, str] = {}


class Namespace(Object, api="v1", scope="Cluster"):
    pass


WEBSITE = GroupVersionKind("example.dev", "v1", "Website")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


def website(
    name: str, *, namespace: str | None = "default", labels: dict[str, str] | None = None, **spec: Any
) -> Website:
    return Website.new(name, WebsiteSpec(**spec), namespace=namespace, labels=labels)


def website_crd() -> dict[str, Any]:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = {
        "type": "object",
        "properties": {"image": {"type": "string"}, "replicas": {"type": "integer", "minimum": 0}, "extra": free},
    }
    schema = {"type": "object", "properties": {"spec": spec, "status": free}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
    }
    names = {"plural": "websites", "singular": "website", "kind": "Website", "listKind": "WebsiteList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "websites.example.dev"},
        "spec": {"group": "example.dev", "scope": "Namespaced", "names": names, "versions": [version]},
    }


@asynccontextmanager
async def open_client(*, crd: bool = True, **options: Any) -> AsyncGenerator[Client, None]:
    """A client of a server without sockets that serves Websites."""
    server = ApiServer()
    await server.start(listen=False)
    try:
        async with await Client.connect(server, **options) as client:
            if crd:
                async with await Client.connect(server) as owner:
                    await owner.create(website_crd())
            yield client
    finally:
        await server.stop()


def recording(calls: list[Call]) -> Hook:
    """A hook that records all calls."""

    async def hook(call: Call, send: Send) -> Response:
        calls.append(call)
        return await send(call)

    return hook


def failing(*outcomes: Response | Exception | None, when: Callable[[Call], bool] = lambda call: True) -> Hook:
    """A hook that returns (raises) these outcomes in order, None for the server's own, and then passes all calls on."""
    left = list(outcomes)

    async def hook(call: Call, send: Send) -> Response:
        outcome = left.pop(0) if left and when(call) else None
        if isinstance(outcome, Exception):
            raise outcome
        return await send(call) if outcome is None else outcome

    return hook


def fake_response(status: int, body: bytes = b"", **headers: str) -> Response:
    """A response without a server."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status=status, headers=Headers(named), body=body)
