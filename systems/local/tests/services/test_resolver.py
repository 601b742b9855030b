"""The resolver of DNS names: Services, headless Services and the hostnames of their Pods."""

import json

import pytest

from levelset.http import Request
from levelset.testing import Cluster
from levelset_local.services.resolver import Resolver

LABELS = {"kubernetes.io/service-name": "db"}


async def make_services(cluster: Cluster) -> None:
    for name, address in (("db", "None"), ("web", None)):
        spec = {"clusterIP": address, "selector": {"app": name}, "ports": [{"port": 80}]}
        await cluster.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
    endpoints = [
        {"addresses": ["127.9.0.2"], "hostname": "db-1", "conditions": {"ready": True}},
        {"addresses": ["127.9.0.1"], "hostname": "db-0", "conditions": {"ready": True}},
        {"addresses": ["127.9.0.3"], "hostname": "db-2", "conditions": {"ready": False}},
    ]
    made = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "db-x", "labels": LABELS},
    }
    await cluster.create({**made, "addressType": "IPv4", "endpoints": endpoints, "ports": [{"port": 80}]})


@pytest.mark.parametrize(
    ("name", "addresses"),
    [
        ("db.test.svc.cluster.local", ["127.9.0.1", "127.9.0.2"]),
        ("db-1.db.test.svc.cluster.local", ["127.9.0.2"]),
        ("DB-0.db.test.svc", ["127.9.0.1"]),
        ("db-2.db.test.svc", None),  # it is not ready
        ("db-9.db.test.svc", None),
        ("none.test.svc", None),
        ("a.b.c.test.svc", None),
    ],
)
async def test_a_headless_service_has_the_addresses_of_its_pods(
    cluster: Cluster, name: str, addresses: list[str] | None
) -> None:
    await make_services(cluster)
    resolver = Resolver()
    resolver.client = cluster
    response = await resolver.handle(Request("GET", "/resolve", f"name={name}"))
    assert isinstance(response.body, bytes)
    body = json.loads(response.body)
    if addresses is None:
        assert response.status == 404
    else:
        assert (body["address"], body["addresses"]) == (addresses[0], addresses)
