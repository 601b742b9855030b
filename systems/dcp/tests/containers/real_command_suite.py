"""Containers of an AppHost on a real engine, by the command `dcp` that it starts; no part of the default suite."""

import asyncio
import os
import urllib.error
from pathlib import Path
from typing import Any

import pytest

from levelset_dcp.engines import Engine
from systems.dcp.tests.containers.real_suite import IMAGE, engine
from systems.dcp.tests.engines.real_engine import NAME, PROGRAM
from systems.dcp.tests.test_dcp_command import AppHost, apphost, in_state, spelled, until_true

__all__ = ["engine"]

pytestmark = pytest.mark.timeout(180)

NOTHING = dict.fromkeys(
    (
        *("build", "containerName", "volumeMounts", "envFiles", "restartPolicy", "stop", "runArgs", "labels", "mode"),
        *("persistent", "healthProbes", "createFiles", "pemCertificates", "imageLayers", "terminal", "lifecycleKey"),
        *("monitorPid", "monitorTimestamp", "start"),
    )
)
"""What an AppHost leaves unset, in the C# client's spelling."""
SCRIPT = "echo hello from $WORD; trap 'exit 9' TERM; while true; do sleep 1; done"
CONTAINER: dict[str, Any] = {
    **NOTHING,
    "image": IMAGE,
    "command": "/bin/sh",
    "args": ["-c", SCRIPT],
    "env": [{"name": "WORD", "value": "{{ .Name }}"}],
    "ports": [{"hostPort": None, "containerPort": 80, "protocol": "TCP", "hostIP": None}],
    "networks": [{"name": "net", "aliases": ["web"]}],
    "pullPolicy": "never",
}
NETWORK = {"networkName": None, "ipv6": None, "persistent": None, "mode": None}
SERVICE = {"address": None, "port": None, "protocol": "TCP", "addressAllocationMode": "Localhost"}


async def test_an_apphost_starts_stops_and_loses_its_containers(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if NAME == "docker":
        pytest.skip("the command needs Docker 25, and Debian 12 has 20.10")
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(PROGRAM).parent), os.environ["PATH"])))
    async with apphost(tmp_path, "--container-runtime", NAME) as host:
        await host.send("POST", "/services", spelled("Service", "web", SERVICE))
        await host.send("POST", "/containernetworks", spelled("ContainerNetwork", "net", NETWORK))
        await host.until("/containernetworks", in_state("Running"))
        producer = {"service-producer": '[{"serviceName":"web","serviceNamespace":"","address":null,"port":80}]'}
        await host.send("POST", "/containers", spelled("Container", "one", CONTAINER, annotations=producer))
        await host.until("/containers", in_state("Running"))
        ready = await host.until("/services", in_state("Ready"))
        assert ready["object"]["status"]["effectivePort"] > 0
        with await asyncio.to_thread(host.open, "GET", "/containers/one/log?follow=true&timestamps=true") as lines:
            line: bytes = await asyncio.to_thread(lines.readline)
        assert line.rstrip().endswith(b"hello from one")
        stop = [{"op": "add", "path": "/spec/stop", "value": True}]
        await host.send("PATCH", "/containers/one", stop, "application/json-patch+json")
        exited = await host.until("/containers", in_state("Exited"))
        assert exited["object"]["status"]["exitCode"] == 9
        await host.send("DELETE", "/containers/one")
        await until_true(lambda: not exists(host, "/containers/one"))
        await host.send("POST", "/containers", spelled("Container", "two", CONTAINER))
        await host.until("/containers", in_state("Running"))
        host.process.kill()
    assert not [one for one in await engine.list_containers() if one.image == IMAGE]
    assert not [one for one in await engine.list_networks() if one.name.startswith("net-")]


def exists(host: AppHost, path: str) -> bool:
    try:
        host.open("GET", path).close()
    except urllib.error.HTTPError as error:
        assert error.code == 404
        return False
    return True
