"""What a container needs before it starts: ConfigMaps, Secrets, volumes, a program; and what it is told if not."""

import asyncio
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from levelset import JsonPatch, MergePatch, ObjectMeta, Ref
from levelset.kinds.core_v1 import ConfigMap, Event, Pod, Secret
from levelset.testing import Cluster
from levelset_local.node import Images
from levelset_machine import Addresses
from systems.local.tests.node.playing import Played, container, container_states, keeper, pod, status

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


async def test_a_missing_config_map_is_waited_for_by_watching(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web")
    await cluster.create(pod("web", colour()))
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        waiting = await cluster.until(WEB, lambda it: waits(it, "CreateContainerConfigError"))
        assert message(waiting) == 'configmap "settings" not found'
        await cluster.create(config(size="L"))
        late = await cluster.until(WEB, lambda it: "couldn't find" in message(it), within=1)
        assert message(late) == "couldn't find key colour in ConfigMap test/settings"
        await cluster.patch(Ref(ConfigMap, "settings"), MergePatch({"data": {"colour": "red"}}))
        await cluster.until(WEB, lambda it: waits(it, "running"), within=1)
    assert pretend.runs[0].command.env["COLOUR"] == "red"


async def test_an_image_without_a_program_says_what_the_table_is(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("acme-web")
    images = Images({"acme/web:*": ["acme-web", "--bind", "$(POD_IP)"]}, installed=False, find=lambda _: None)
    await cluster.create(pod("other", {"name": "web", "image": "ghcr.io/other/thing:2"}))
    await cluster.create(pod("web", {"name": "web", "image": "acme/web:7", "args": ["-v"]}))
    async with cluster.running(keeper(pretend, tmp_path, images=images).controller()):
        waiting = await cluster.until(Ref(Pod, "other"), lambda it: waits(it, "ErrImageNeverPull"))
        assert 'Options(images={"ghcr.io/other/thing:*": ["program", "arg"]})' in message(waiting)
        assert status(waiting).phase == "Pending"
        await cluster.until(WEB, lambda it: waits(it, "running"))
        annotations = {"metadata": {"annotations": {"local.levelset.dev/command": "acme-web 'a b'"}}}
        await cluster.patch(Ref(Pod, "other"), MergePatch(annotations))
        await cluster.until(Ref(Pod, "other"), lambda it: waits(it, "running"))
    by_last = sorted((run.command.argv for run in pretend.runs), key=lambda argv: argv[-1])
    assert by_last[0][:2] == ("acme-web", "--bind")
    assert by_last[0][-1] == "-v"
    assert by_last[1] == ("acme-web", "a b")


async def test_files_of_a_config_map_are_mounted_and_follow_it(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web")
    volume = {"name": "config", "configMap": {"name": "settings"}}
    mounted = container(
        volumeMounts=[{"name": "config", "mountPath": "/etc/app"}],
        env=[{"name": "CONFIG", "value": "/etc/app/colour"}],
        args=["--config=/etc/app/colour", "/etc/apparel"],
    )
    await cluster.create(pod("web", mounted, volumes=[volume]))
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        await cluster.until(WEB, lambda it: waits(it, "ContainerCreating"))
        await cluster.settled()
        events = [one for one in await cluster.list(Event) if one.reason == "FailedMount"]
        assert events[0].message == 'MountVolume.SetUp failed for volume "config" : configmap "settings" not found'
        await cluster.create(config(colour="red"))
        await cluster.until(WEB, lambda it: waits(it, "running"), within=1)
        command = pretend.runs[0].command
        place = Path(command.env["CONFIG"])
        assert str(place) == f"{command.env['LEVELSET_MOUNT_ROOT']}/etc/app/colour"
        assert command.argv[1:] == (f"--config={place}", "/etc/apparel")
        assert await asyncio.to_thread(place.read_text) == "red"
        await cluster.patch(Ref(ConfigMap, "settings"), MergePatch({"data": {"colour": "blue", "size": "L"}}))
        await cluster.settled()
        assert await asyncio.to_thread(place.read_text) == "blue"
        assert len(pretend.runs) == 1


async def test_secrets_are_readable_by_nobody_else(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web")
    await cluster.create(Secret(metadata=ObjectMeta(name="key"), data={"token": b"s3cret"}))
    volume = {"name": "key", "secret": {"secretName": "key"}}
    mounted = container(volumeMounts=[{"name": "key", "mountPath": "/key"}], envFrom=[{"secretRef": {"name": "key"}}])
    await cluster.create(pod("web", mounted, volumes=[volume]))
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        await cluster.until(WEB, lambda it: waits(it, "running"))
    env = pretend.runs[0].command.env
    assert env["token"] == "s3cret"
    found = await asyncio.to_thread(Path(env["LEVELSET_MOUNT_ROOT"], "key/token").stat)
    assert found.st_mode & 0o777 == 0o600


async def test_a_program_that_is_not_there_is_a_start_error_with_a_back_off(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    await cluster.create(pod("web"))
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        found = await cluster.until(WEB, lambda it: waits(it, "CrashLoopBackOff"))
    last = status(found).container_statuses[0].last_state.terminated
    assert last is not None
    assert (last.exit_code, last.reason) == (128, "StartError")
    assert "there is no such program" in (last.message or "")


async def test_a_pod_waits_for_an_address(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("*")
    addresses = Addresses(IPv4Network("127.99.0.0/30"))
    async with cluster.running(keeper(pretend, tmp_path, addresses=addresses).controller()):
        for name in ("one", "two"):
            await cluster.create(pod(name))
            await cluster.until(Ref(Pod, name), lambda it: status(it).phase == "Running")
        await cluster.create(pod())
        await cluster.advance(30)
        assert len(pretend.running) == 2
        await cluster.delete(Ref(Pod, "one"))
        late = await cluster.until(WEB, lambda it: waits(it, "running"))
        assert status(late).pod_ip == "127.99.0.1"


async def test_a_changed_image_is_another_program(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("*")
    images = Images({"acme:1": ["first"], "acme:2": ["second"]}, installed=False)
    await cluster.create(pod("web", {"name": "web", "image": "acme:1"}))
    async with cluster.running(keeper(pretend, tmp_path, images=images).controller()):
        found = await cluster.until(WEB, lambda it: waits(it, "running"))
        changed = [{"op": "replace", "path": "/spec/containers/0/image", "value": "acme:2"}]
        await cluster.patch(found.ref, JsonPatch(changed))
        await cluster.until(WEB, lambda it: status(it).container_statuses[0].restart_count == 1)
    assert [run.command.argv for run in pretend.runs] == [("first",), ("second",)]


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    """A file of the machine that is dear to somebody."""
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine" / "diary").write_text("dear")
    return tmp_path / "machine" / "diary"


async def test_last_words_in_a_folder_of_the_machine_are_not_removed(
    cluster: Cluster, tmp_path: Path, diary: Path
) -> None:
    pretend = Played(cluster)
    pretend.program("web")
    volume = {"name": "machine", "hostPath": {"path": str(diary.parent)}}
    mounts = [{"name": "machine", "mountPath": "/var/log"}]
    told = container(volumeMounts=mounts, terminationMessagePath="/var/log/diary")
    await cluster.create(pod("web", told, volumes=[volume]))
    async with cluster.running(keeper(pretend, tmp_path / "node").controller()):
        await cluster.until(WEB, lambda it: waits(it, "running"))
    assert await asyncio.to_thread(diary.read_text) == "dear"


async def test_a_path_that_cannot_be_made_is_told_as_a_reason_to_wait(cluster: Cluster, tmp_path: Path) -> None:
    pretend = Played(cluster)
    pretend.program("web")
    volume = {"name": "own", "emptyDir": {}}
    mounts = [{"name": "own", "mountPath": "/var/log"}]
    await cluster.create(
        pod("web", container(volumeMounts=mounts, terminationMessagePath="/var/log"), volumes=[volume])
    )
    async with cluster.running(keeper(pretend, tmp_path).controller()):
        waiting = await cluster.until(WEB, lambda it: waits(it, "CreateContainerConfigError"))
        assert "terminationMessagePath /var/log is a folder" in message(waiting)
