"""Sessions in processes of their own on a real engine: of an AppHost, and killed ones; not in the default suite."""

import asyncio
import os
import signal
import urllib.error
from pathlib import Path
from typing import Any

import pytest

from levelset import Ref
from levelset_dcp.engines import Engine
from levelset_dcp.kinds import (
    Container,
    ContainerNetwork,
    ContainerNetworkSpec,
    ContainerVolume,
    ContainerVolumeSpec,
    NetworkRef,
    VolumeMount,
)
from systems.dcp.tests.containers.real_suite import IMAGE, engine, shell, until
from systems.dcp.tests.engines.real_engine import NAME, PROGRAM
from systems.dcp.tests.support.sessions import running_session
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


async def test_what_a_killed_session_has_left_goes_with_the_next_one(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if NAME == "docker":
        pytest.skip("the command needs Docker 25, and Debian 12 has 20.10")
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(PROGRAM).parent), os.environ["PATH"])))
    async with running_session(tmp_path, "--container-runtime", NAME) as session:
        for name, is_persistent in (("scratch", False), ("lasting", True)):
            spec = ContainerVolumeSpec(name=f"levelset-{name}", persistent=is_persistent)
            await session.client.create(ContainerVolume.new(name, spec))
        await session.client.create(ContainerNetwork.new("net", ContainerNetworkSpec()))
        mount = VolumeMount(source="levelset-scratch", target="/data", type="volume")
        await session.client.create(shell("one", SCRIPT, volume_mounts=(mount,), networks=(NetworkRef(name="net"),)))
        for name in ("scratch", "lasting"):
            await until(session.client, Ref(ContainerVolume, name), lambda one: one.state == "Ready")
        await until(session.client, Ref(Container, "one"), lambda one: one.state == "Running")
        session.process.kill()
        await asyncio.to_thread(kill_guards)
    assert await left(engine) == {"one", "net", "levelset-scratch", "levelset-lasting"}
    async with running_session(tmp_path, "--container-runtime", NAME):
        for _ in range(100):
            found = await left(engine)
            if found == {"levelset-lasting"}:
                break
            await asyncio.sleep(0.2)
        assert found == {"levelset-lasting"}
    await engine.remove_volume("levelset-lasting")


async def left(engine: Engine) -> set[str]:
    """The names of what sessions have in the engine, without their random parts."""
    containers = {one.name.rpartition("-")[0] for one in await engine.list_containers() if one.image == IMAGE}
    networks = {"net" for one in await engine.list_networks() if one.name.startswith("net-")}
    return containers | networks | {one.name for one in await engine.list_volumes() if one.name.startswith("levelset-")}


def kill_guards() -> None:
    """Kills the guards of all sessions in this namespace, so that only the next session can clean up."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"levelset_dcp.containers.guard_process" in words:
            os.kill(int(path.parent.name), signal.SIGKILL)


def exists(host: AppHost, path: str) -> bool:
    try:
        host.open("GET", path).close()
    except urllib.error.HTTPError as error:
        assert error.code == 404
        return False
    return True
