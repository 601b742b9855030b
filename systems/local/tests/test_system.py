"""The local system with its own API server and real processes; nothing is left when it is closed."""

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from levelset import Quantity, Ref, open_local
from levelset.kinds.apps_v1 import Deployment
from levelset.kinds.core_v1 import Endpoints, Pod, Service
from levelset_local import Options, local_system
from levelset_local.metrics import PodMetrics
from levelset_machine import free_port

SERVER = """
import os, sys
from http.server import HTTPServer, SimpleHTTPRequestHandler
HTTPServer((os.environ["POD_IP"], int(sys.argv[1])), SimpleHTTPRequestHandler).serve_forever()
"""
LABELS = {"app": "web"}
WEB = Ref(Deployment, "web", "default")


def manifest(kind: str, api_version: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def deployment(port: int) -> dict[str, Any]:
    """Servers at this port of the addresses of their Pods."""
    probe = {"tcpSocket": {"port": port}, "periodSeconds": 1}
    command = [sys.executable, "-c", SERVER, str(port)]
    container = {"name": "web", "image": "web:1", "command": command, "readinessProbe": probe}
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container]}}
    return manifest(
        "Deployment", "apps/v1", "web", {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": template}
    )


def is_complete(it: Deployment) -> bool:
    return it.status is not None and it.status.ready_replicas == 2


async def test_a_deployment_serves_at_the_address_of_its_service_and_leaves_no_files(tmp_path: Path) -> None:
    async with open_local(local_system(Options(folder=tmp_path))) as local:
        client = local.client
        pod_port, service_port = free_port(), free_port()  # which nothing uses on all addresses
        await client.create(deployment(pod_port))
        ports = [{"port": service_port, "targetPort": pod_port}]
        service = await client.create(manifest("Service", "v1", "web", {"selector": LABELS, "ports": ports}))
        await client.wait(WEB, is_complete, within=120)
        measured = await client.list(PodMetrics, namespace="default", labels=LABELS)
        assert [one.containers[0].usage["memory"] > Quantity("1Mi") for one in measured] == [True, True]
        found = await client.get(Ref(Service, "web", "default"))
        reader, writer = await asyncio.open_connection(found.spec.cluster_ip, service_port)
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.0 200")
        writer.close()
        await client.delete(service.ref)
        await client.delete(WEB)
        async with asyncio.timeout(120):
            while await asyncio.to_thread(files, tmp_path):  # noqa: ASYNC110 -- what it waits for is the system's doing
                await asyncio.sleep(0.05)
        assert await client.list(Pod, namespace="default") == []


def files(folder: Path) -> list[Path]:
    """The remaining files of Pods: volumes, logs and records; a folder that is removed meanwhile has none."""
    return [Path(place, name) for place, _, names in os.walk(folder) for name in names]


async def test_its_own_use_of_deprecated_endpoints_logs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with open_local(local_system()) as local:
            ports = [{"port": 80, "targetPort": 8080}]
            await local.client.create(manifest("Service", "v1", "web", {"selector": LABELS, "ports": ports}))
            await local.client.wait(Ref(Endpoints, "web", "default"), lambda _: True)
    assert not [record for record in caplog.records if record.name == "levelset.client"]


async def test_creating_an_object_of_an_unsupported_kind_returns_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    spec = {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}
    with caplog.at_level(logging.WARNING):
        async with open_local(local_system()) as local:
            await local.client.create(manifest("Ingress", "networking.k8s.io/v1", "web", spec))
    warnings = [str(vars(one).get("warning")) for one in caplog.records if one.name == "levelset.client"]
    # The controller of Endpoints, which Kubernetes has deprecated, gets a warning of its own.
    assert [one.partition(";")[0] for one in warnings if "Endpoints" not in one] == [
        "Ingress is stored, but has no controller on this machine"
    ]
