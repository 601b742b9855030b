"""What a container needs before it starts: ConfigMaps, Secrets, volumes and a program; and its waiting reasons."""

import asyncio
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from levelset import MergePatch, ObjectMeta, Ref
from levelset.client import JsonPatch
from levelset.kinds.core_v1 import ConfigMap, Event, Pod, Secret
from levelset.testing import Cluster
from levelset_local.node import Images
from levelset_machine import AddressPool
from systems.local.tests.node.fake_node import (
    RecordingMachine,
    container,
    container_states,
    pod,
    pod_reconciler,
    status,
)

WEB = Ref(Pod, "web")


def config(name: str = "settings", **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name), data=data)


def waits(it: Pod, reason: str) -> bool:
    return container_states(it).get("web") == reason


def message(it: Pod) -> str:
    waiting = status(it).container_statuses[0].state.waiting
    return "" if waiting is None else waiting.message or ""


def colour(**more: Any) -> dict[str, Any]:
    source = {"configMapKeyRef": {"name": "settings", "key": "colour"}}
    return container(env=[{"name": "COLOUR", "valueFrom": source}], **more)


async def test_a_missing_config_map_is_noticed_when_it_is_created(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web")
    await cluster.create(pod("web", colour()))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        waiting = await cluster.until(WEB, lambda it: waits(it, "CreateContainerConfigError"))
        assert message(waiting) == 'configmap "settings" not found'
        await cluster.create(config(size="L"))
        late = await cluster.until(WEB, lambda it: "couldn't find" in message(it), within=1)
        assert message(late) == "couldn't find key colour in ConfigMap test/settings"
        await cluster.patch(Ref(ConfigMap, "settings"), MergePatch({"data": {"colour": "red"}}))
        await cluster.until(WEB, lambda it: waits(it, "running"), within=1)
    assert machine.runs[0].command.env["COLOUR"] == "red"


async def test_an_image_without_a_program_waits_with_a_hint(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("acme-web")
    images = Images({"acme/web:*": ["acme-web", "--bind", "$(POD_IP)"]}, installed=False, find=lambda _: None)
    await cluster.create(pod("other", {"name": "web", "image": "ghcr.io/other/thing:2"}))
    await cluster.create(pod("web", {"name": "web", "image": "acme/web:7", "args": ["-v"]}))
    async with cluster.running(pod_reconciler(machine, tmp_path, images=images).controller()):
        waiting = await cluster.until(Ref(Pod, "other"), lambda it: waits(it, "ErrImageNeverPull"))
        assert 'Options(images={"ghcr.io/other/thing:*": ["program", "arg"]})' in message(waiting)
        assert status(waiting).phase == "Pending"
        await cluster.until(WEB, lambda it: waits(it, "running"))
        annotations = {"metadata": {"annotations": {"local.levelset.dev/command": "acme-web 'a b'"}}}
        await cluster.patch(Ref(Pod, "other"), MergePatch(annotations))
        await cluster.until(Ref(Pod, "other"), lambda it: waits(it, "running"))
    by_last = sorted((run.command.argv for run in machine.runs), key=lambda argv: argv[-1])
    assert by_last[0][:2] == ("acme-web", "--bind")
    assert by_last[0][-1] == "-v"
    assert by_last[1] == ("acme-web", "a b")


async def test_files_of_a_config_map_are_mounted_and_updated(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web")
    volume = {"name": "config", "configMap": {"name": "settings"}}
    mounted = container(
        volumeMounts=[{"name": "config", "mountPath": "/etc/app"}],
        env=[{"name": "CONFIG", "value": "/etc/app/colour"}],
        args=["--config=/etc/app/colour", "/etc/apparel"],
    )
    await cluster.create(pod("web", mounted, volumes=[volume]))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.until(WEB, lambda it: waits(it, "ContainerCreating"))
        await cluster.settled()
        events = [one for one in await cluster.list(Event) if one.reason == "FailedMount"]
        assert events[0].message == 'MountVolume.SetUp failed for volume "config" : configmap "settings" not found'
        await cluster.create(config(colour="red"))
        await cluster.until(WEB, lambda it: waits(it, "running"), within=1)
        command = machine.runs[0].command
        place = Path(command.env["CONFIG"])
        assert str(place) == f"{command.env['LEVELSET_MOUNT_ROOT']}/etc/app/colour"
        assert command.argv[1:] == (f"--config={place}", "/etc/apparel")
        assert await asyncio.to_thread(place.read_text) == "red"
        await cluster.patch(Ref(ConfigMap, "settings"), MergePatch({"data": {"colour": "blue", "size": "L"}}))
        await cluster.settled()
        assert await asyncio.to_thread(place.read_text) == "blue"
        assert len(machine.runs) == 1


async def test_secret_files_are_readable_by_the_user_only(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web")
    await cluster.create(Secret(metadata=ObjectMeta(name="key"), data={"token": b"s3cret"}))
    volume = {"name": "key", "secret": {"secretName": "key"}}
    mounted = container(volumeMounts=[{"name": "key", "mountPath": "/key"}], envFrom=[{"secretRef": {"name": "key"}}])
    await cluster.create(pod("web", mounted, volumes=[volume]))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        await cluster.until(WEB, lambda it: waits(it, "running"))
    env = machine.runs[0].command.env
    assert env["token"] == "s3cret"
    found = await asyncio.to_thread(Path(env["LEVELSET_MOUNT_ROOT"], "key/token").stat)
    assert found.st_mode & 0o777 == 0o600


async def test_a_missing_program_is_a_start_error_with_a_back_off(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    await cluster.create(pod("web"))
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        found = await cluster.until(WEB, lambda it: waits(it, "CrashLoopBackOff"))
    last = status(found).container_statuses[0].last_state.terminated
    assert last is not None
    assert (last.exit_code, last.reason) == (128, "StartError")
    assert "there is no such program" in (last.message or "")


async def test_a_pod_waits_for_a_free_address(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("*")
    addresses = AddressPool(IPv4Network("127.99.0.0/30"))
    async with cluster.running(pod_reconciler(machine, tmp_path, addresses=addresses).controller()):
        for name in ("one", "two"):
            await cluster.create(pod(name))
            await cluster.until(Ref(Pod, name), lambda it: status(it).phase == "Running")
        await cluster.create(pod())
        await cluster.advance(30)
        assert len(machine.running) == 2
        await cluster.delete(Ref(Pod, "one"))
        late = await cluster.until(WEB, lambda it: waits(it, "running"))
        assert status(late).pod_ip == "127.99.0.1"


async def test_a_changed_image_restarts_the_container_with_its_program(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("*")
    images = Images({"acme:1": ["first"], "acme:2": ["second"]}, installed=False)
    await cluster.create(pod("web", {"name": "web", "image": "acme:1"}))
    async with cluster.running(pod_reconciler(machine, tmp_path, images=images).controller()):
        found = await cluster.until(WEB, lambda it: waits(it, "running"))
        changed = [{"op": "replace", "path": "/spec/containers/0/image", "value": "acme:2"}]
        await cluster.patch(found.ref, JsonPatch(changed))
        await cluster.until(WEB, lambda it: status(it).container_statuses[0].restart_count == 1)
    assert [run.command.argv for run in machine.runs] == [("first",), ("second",)]


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    """A file of the user on the machine."""
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine" / "diary").write_text("dear")
    return tmp_path / "machine" / "diary"


async def test_a_termination_message_file_on_a_host_path_is_not_removed(
    cluster: Cluster, tmp_path: Path, diary: Path
) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web")
    volume = {"name": "machine", "hostPath": {"path": str(diary.parent)}}
    mounts = [{"name": "machine", "mountPath": "/var/log"}]
    mounted = container(volumeMounts=mounts, terminationMessagePath="/var/log/diary")
    await cluster.create(pod("web", mounted, volumes=[volume]))
    async with cluster.running(pod_reconciler(machine, tmp_path / "node").controller()):
        await cluster.until(WEB, lambda it: waits(it, "running"))
    assert await asyncio.to_thread(diary.read_text) == "dear"


async def test_an_invalid_termination_message_path_is_the_waiting_reason(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("web")
    volume = {"name": "own", "emptyDir": {}}
    mounts = [{"name": "own", "mountPath": "/var/log"}]
    await cluster.create(
        pod("web", container(volumeMounts=mounts, terminationMessagePath="/var/log"), volumes=[volume])
    )
    async with cluster.running(pod_reconciler(machine, tmp_path).controller()):
        waiting = await cluster.until(WEB, lambda it: waits(it, "CreateContainerConfigError"))
        assert "terminationMessagePath /var/log is a folder" in message(waiting)
