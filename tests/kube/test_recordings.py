"""Recordings of operators on a real kube-apiserver replay exactly, without it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from levelset import Context, Controller, Manager, MergePatch, ObjectMeta, Ref, owns
from levelset.client import Client
from levelset.runtime.manager.crd_install import install_crds, kinds_of
from levelset.runtime.recording import read_recording
from levelset.runtime.recording.entries import Batch, Begin, End, Request
from levelset.runtime.recording.recording_file import read_blocks
from levelset.testing.replay import Replay, assert_replays, replay
from tests.cluster.kinds import Namespace
from tests.kube.kube_cluster import KubeCluster
from tests.testing.replay.operators import Config, Website, deploy, deployment, many_things, site

pytestmark = pytest.mark.timeout(120)


async def count(found: Config, ctx: Context) -> None:
    """A second controller: the number of members of a ConfigMap, as a label of it."""
    labels = {"size": str(len(found.data))}
    if (found.metadata.labels or {}).get("size") != labels["size"]:
        metadata = {"name": found.name, "namespace": found.namespace, "labels": labels}
        await ctx.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


async def act(client: Client, controllers: Sequence[Controller[Any]], path: Path, images: Sequence[str]) -> None:
    """Users create, change and delete websites while a manager with these controllers is recorded."""
    await install_crds(client, kinds_of(controllers))
    async with Manager(client, record=path) as manager:
        for one in controllers:
            manager.add(one)
        await manager.wait_elected()
        for number, image in enumerate(images):
            await client.create(site(f"site-{number}", image))
        await manager.wait_idle()
        await client.patch(Ref(Website, "site-0", client.namespace), MergePatch({"spec": {"image": "nginx:2"}}))
        await client.delete(Ref(Website, "site-1", client.namespace))
        await asyncio.sleep(1.5)
        await manager.wait_idle()


def run_on(kubeconfig: Path, path: Path, *controllers: Controller[Any], images: Sequence[str] = ("a", "b", "c")) -> str:
    """Records the controllers in a namespace of their own, whose name it returns."""
    namespace = f"recorded-{uuid4().hex[:8]}"

    async def play() -> None:
        async with await Client.connect(kubeconfig, namespace=namespace) as client:
            await client.create(Namespace(metadata=ObjectMeta(name=namespace)))
            await act(client, [one.with_options(namespace=namespace) for one in controllers], path, images)

    asyncio.run(play())
    return namespace


def replayed_twice(path: Path, *controllers: Controller[Any]) -> Replay:
    one, other = assert_replays(path, controllers), assert_replays(path, controllers)
    assert one.digest == other.digest
    assert one.is_complete
    entries = read_recording(path)
    assert one.reconciles == sum(isinstance(each, Begin) for each in entries)
    assert one.requests == sum(isinstance(each, Request) for each in entries)
    return one


def test_an_operator_on_a_real_api_server_replays_exactly(kubeconfig: Path, tmp_path: Path) -> None:
    namespace = run_on(kubeconfig, tmp_path / "run", deployment())
    result = replayed_twice(tmp_path / "run", deployment())
    assert result.reconciles > 5
    assert result.requests > 5
    raws = [two.raw for one in read_recording(tmp_path / "run") if isinstance(one, Batch) for two in one.events]
    assert any(f'"namespace":"{namespace}"'.encode() in raw and b'"uid"' in raw for raw in raws)


def test_the_credentials_of_the_process_are_not_in_its_recording(kube: KubeCluster, tmp_path: Path) -> None:
    run_on(kube.kubeconfig, tmp_path / "run", deployment())
    written = b"".join(read_blocks(tmp_path / "run"))
    assert b"configmaps" in written
    assert kube.tokens["admin"].encode() not in written
    assert b"uthorization" not in written


def test_two_controllers_in_one_manager_on_a_real_api_server_replay_exactly(kubeconfig: Path, tmp_path: Path) -> None:
    both = deployment(), Controller(Config, count, name="counter")
    run_on(kubeconfig, tmp_path / "run", *both)
    replayed_twice(tmp_path / "run", *both)
    begun = {one.controller for one in read_recording(tmp_path / "run") if isinstance(one, Begin)}
    assert begun == {"websites", "counter"}


def test_child_tasks_timeouts_and_errors_on_a_real_api_server_replay_exactly(kubeconfig: Path, tmp_path: Path) -> None:
    controller = Controller(Website, many_things, owns(Config), name="websites")
    run_on(kubeconfig, tmp_path / "run", controller, images=("nginx", "bad", "flaky", "broken"))
    replayed_twice(tmp_path / "run", controller)
    results = {one.result for one in read_recording(tmp_path / "run") if isinstance(one, End)}
    assert results >= {"done", "gave_up", "failed"}


def test_a_changed_reconciler_is_named_at_its_first_different_request(kubeconfig: Path, tmp_path: Path) -> None:
    async def changed(found: Website, ctx: Context) -> Any:
        await ctx.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}})
        return await deploy(found, ctx)

    run_on(kubeconfig, tmp_path / "run", deployment())
    difference = replay(tmp_path / "run", Controller(Website, changed, name="websites")).difference
    assert difference is not None
    assert difference.number == 1
    assert "configmaps/other" in difference.present
    assert "in changed" in (difference.place or "")
