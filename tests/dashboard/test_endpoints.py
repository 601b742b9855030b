"""Services as links: only addresses that a browser on this machine can open, and only harmless ones."""

from typing import Any

import pytest

from levelset.dashboard.endpoints import endpoints_of
from levelset.testing.virtual_time import virtual
from tests.dashboard.fixtures import get, open_dashboard, tree
from tests.dashboard.test_views import ODD


def service(address: str = "127.0.5.1", status: Any = None, **port: Any) -> dict[str, Any]:
    return {"kind": "Service", "spec": {"clusterIP": address, "ports": [{"port": 80, **port}]}, "status": status or {}}


def balanced(**ingress: str) -> dict[str, Any]:
    return {"loadBalancer": {"ingress": [ingress]}}


@pytest.mark.parametrize(
    ("given", "urls"),
    [
        (service(), ["http://127.0.5.1:80/"]),
        (service(name="https", port=9000), ["https://127.0.5.1:9000/"]),
        (service(port=443), ["https://127.0.5.1:443/"]),
        (service("10.0.0.1"), [None]),
        (service("::1"), ["http://[::1]:80/"]),
        (service(protocol="UDP"), [None]),
        (service("None"), []),
        (service("10.0.0.1", balanced(hostname="shop.example")), ["http://shop.example:80/", None]),
        (service("10.0.0.1", balanced(hostname="a/b@evil.example")), [None, None]),
        (service("10.0.0.1", balanced(hostname="javascript:alert(1)//")), [None, None]),
        (service(port="80"), [None]),
        ({"status": {"effectiveAddress": "127.0.0.1", "effectivePort": 5432}}, ["http://127.0.0.1:5432/"]),
        ({"status": {"effectiveAddress": "x y", "effectivePort": 5432}}, [None]),
    ],
)
def test_an_endpoint_is_a_link_if_it_can_be_opened(given: Any, urls: list[str | None]) -> None:
    assert [one["url"] for one in endpoints_of(given)] == urls


@pytest.mark.parametrize("given", ODD)
def test_any_object_is_read(given: Any) -> None:
    assert isinstance(endpoints_of(given), list)


@virtual
async def test_the_endpoints_of_all_services_are_served() -> None:
    async with open_dashboard() as (page, client):
        ports = [{"port": 80, "name": "web"}, {"port": 9090, "name": "metrics"}]
        await client.create(tree("v1", "Service", "shop", spec={"ports": ports, "selector": {"app": "shop"}}))
        found = (await get(page, "/api/endpoints"))["endpoints"]
    assert [(one["name"], one["port"], one["portName"]) for one in found] == [
        ("shop", 80, "web"),
        ("shop", 9090, "metrics"),
    ]
