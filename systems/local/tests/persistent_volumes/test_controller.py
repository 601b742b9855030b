"""Claims and volumes on a server: folders that outlive Pods, and are removed with their claims."""

import asyncio
import os
from pathlib import Path
from typing import Any

from levelset import MergePatch, Ref
from levelset.kinds.apps_v1 import StatefulSet
from levelset.kinds.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from levelset.testing import Cluster
from levelset_local.persistent_volumes import claims_controller, volumes_controller
from levelset_local.statefulsets import statefulsets_controller
from systems.local.tests.cluster_queries import events, status_of
from systems.local.tests.node.fake_node import RecordingMachine, condition, container, pod_reconciler
from systems.local.tests.persistent_volumes.test_plan import claim, volume
from systems.local.tests.samples import stateful_set

DATA = Ref(PersistentVolumeClaim, "data")


def fresh(**spec: Any) -> PersistentVolumeClaim:
    return PersistentVolumeClaim.new("data", claim(**spec).spec)


def is_bound(it: PersistentVolumeClaim | PersistentVolume) -> bool:
    return it.status is not None and it.status.phase == "Bound"


async def test_a_claim_is_bound_to_a_folder_that_is_removed_with_it(cluster: Cluster, tmp_path: Path) -> None:
    await cluster.create(fresh())
    async with cluster.running(claims_controller(tmp_path), volumes_controller(tmp_path)):
        bound = await cluster.until(DATA, is_bound)
        made = Ref(PersistentVolume, bound.spec.volume_name or "")
        await cluster.until(made, is_bound)
        assert str(status_of(bound).capacity["storage"]) == "1Gi"
        folder = tmp_path / "persistent-volumes" / made.name
        assert await asyncio.to_thread(folder.is_dir)
        await cluster.delete(DATA)
        await cluster.until_gone(made)
        assert not await asyncio.to_thread(folder.exists)


async def test_the_folder_of_a_retained_volume_stays(cluster: Cluster, tmp_path: Path) -> None:
    await cluster.create(volume("disk", persistentVolumeReclaimPolicy="Retain", hostPath={"path": str(tmp_path)}))
    await cluster.create(fresh())
    async with cluster.running(claims_controller(tmp_path), volumes_controller(tmp_path)):
        bound = await cluster.until(DATA, is_bound)
        assert bound.spec.volume_name == "disk"
        await cluster.delete(DATA)
        disk = Ref(PersistentVolume, "disk")
        await cluster.until(disk, lambda it: status_of(it).phase == "Released")
        await cluster.settled()
        assert await asyncio.to_thread(tmp_path.is_dir)
        await cluster.get(disk)


async def test_a_claim_that_waits_for_its_class_is_bound_when_that_is_created(cluster: Cluster, tmp_path: Path) -> None:
    await cluster.create(fresh(storageClassName="fast"))
    async with cluster.running(claims_controller(tmp_path), volumes_controller(tmp_path)):
        await cluster.settled()
        assert await events(cluster, "ProvisioningFailed") == 1
        await cluster.create(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": "fast"},
                "provisioner": "local.levelset.dev",
            }
        )
        await cluster.until(DATA, is_bound)


async def test_a_folder_that_is_gone_is_made_again_with_a_warning(cluster: Cluster, tmp_path: Path) -> None:
    await cluster.create(fresh())
    async with cluster.running(claims_controller(tmp_path), volumes_controller(tmp_path), name="first"):
        await cluster.until(DATA, is_bound)
        await cluster.settled()
    moved = tmp_path / "moved"
    async with cluster.running(claims_controller(moved), volumes_controller(moved), name="second"):
        await cluster.settled()
        assert await events(cluster, "VolumeFolderCreated") == 1
        assert len(await asyncio.to_thread(os.listdir, moved / "persistent-volumes")) == 1


async def test_the_data_of_a_stateful_set_survives_its_pods(cluster: Cluster, tmp_path: Path) -> None:
    machine = RecordingMachine(cluster)
    machine.program("db")
    wanted = stateful_set(replicas=1, claims=1)
    mounts = [{"name": "data", "mountPath": "/var/lib/db"}]
    spec = {"containers": [container("db", volumeMounts=mounts, env=[{"name": "DIR", "value": "/var/lib/db"}])]}
    await cluster.create(wanted)
    await cluster.patch(wanted.ref, MergePatch({"spec": {"template": {"spec": spec}}}))
    controllers: list[Any] = [claims_controller(tmp_path), volumes_controller(tmp_path), statefulsets_controller()]
    async with cluster.running(*controllers, pod_reconciler(machine, tmp_path).controller()):
        first = await cluster.until(Ref(Pod, "db-0"), lambda it: condition(it, "Ready") == "True", within=120)
        await asyncio.to_thread(Path(machine.runs[-1].command.env["DIR"], "file").write_text, "kept")
        await cluster.delete(first.ref, grace=0)
        again = await cluster.until(
            first.ref,
            lambda it: it.metadata.uid != first.metadata.uid and condition(it, "Ready") == "True",
            within=120,
        )
        assert again.spec.hostname == "db-0"
        assert machine.runs[-1].command.env["HOSTNAME"] == "db-0"
        file = Path(machine.runs[-1].command.env["DIR"], "file")
        assert await asyncio.to_thread(file.read_text) == "kept"
        await cluster.until(Ref(StatefulSet, "db"), lambda it: status_of(it).available_replicas == 1)
