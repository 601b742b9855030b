"""Which volume a claim gets."""

from pathlib import Path
from typing import Any

import pytest

from levelset.kinds.core_v1 import PersistentVolume, PersistentVolumeClaim
from levelset.kinds.storage_v1 import StorageClass
from levelset.objects import from_tree
from levelset_local.persistent_volumes import new_volume, plan_claim, volume_phase


def claim(storage: str = "1Gi", *, uid: str = "uid-data", **spec: Any) -> PersistentVolumeClaim:
    resources = {"requests": {"storage": storage}}
    tree = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec}}
    metadata = {"name": "data", "namespace": "test", "uid": uid}
    return from_tree(
        PersistentVolumeClaim, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, **tree}
    )


def volume(name: str = "disk", storage: str = "1Gi", *, labels: dict[str, str] | None = None, **spec: Any) -> Any:
    capacity = {"storage": storage}
    given = {"accessModes": ["ReadWriteOnce"], "capacity": capacity, "hostPath": {"path": "/srv"}, **spec}
    metadata = {"name": name, "labels": labels or {}}
    return from_tree(
        PersistentVolume, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": given}
    )


def test_a_claim_without_a_class_gets_a_new_volume_of_its_size() -> None:
    plan = plan_claim(claim("2Gi"), [], None)
    assert (plan.volume, plan.provisions) == ("pvc-uid-data", True)
    made = new_volume(claim("2Gi"), None, Path("/data"))
    assert made.spec.host_path is not None
    assert made.spec.claim_ref is not None
    assert (made.spec.host_path.path, str(made.spec.capacity["storage"])) == (
        "/data/persistent-volumes/pvc-uid-data",
        "2Gi",
    )
    assert (made.spec.claim_ref.uid, made.spec.persistent_volume_reclaim_policy) == ("uid-data", "Delete")


def test_the_smallest_sufficient_volume_is_taken() -> None:
    volumes = [volume("small", "512Mi"), volume("large", "8Gi"), volume("right", "2Gi")]
    assert plan_claim(claim(), volumes, None).volume == "right"


def test_a_volume_that_names_the_claim_comes_first() -> None:
    volumes = [volume("right"), volume("mine", "8Gi", claimRef={"name": "data", "namespace": "test"})]
    assert plan_claim(claim(), volumes, None).volume == "mine"


@pytest.mark.parametrize(
    "other",
    [
        volume(claimRef={"name": "data", "namespace": "test", "uid": "earlier"}),
        volume(claimRef={"name": "data", "namespace": "elsewhere"}),
        volume(accessModes=["ReadOnlyMany"]),
        volume(storageClassName="fast"),
        volume(volumeMode="Block"),
        volume(hostPath=None, nfs={"server": "x", "path": "/"}),
    ],
)
def test_a_volume_that_does_not_match_is_not_taken(other: PersistentVolume) -> None:
    assert plan_claim(claim(), [other], None).provisions


def test_a_claim_stays_with_its_volume() -> None:
    mine = volume("mine", "8Gi", claimRef={"name": "data", "namespace": "test", "uid": "uid-data"})
    assert plan_claim(claim(), [volume("right"), mine], None).volume == "mine"


def test_a_named_volume_is_taken_whatever_its_size_is() -> None:
    assert plan_claim(claim(volumeName="small"), [volume("small", "1Mi"), volume()], None).volume == "small"
    assert "does not exist" in plan_claim(claim(volumeName="none"), [volume()], None).problem


def storage_class(provisioner: str, **fields: Any) -> StorageClass:
    tree = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}, **fields}
    return from_tree(StorageClass, {**tree, "provisioner": provisioner})


@pytest.mark.parametrize(
    ("spec", "found", "problem"),
    [
        ({"volumeMode": "Block"}, None, "no block devices"),
        ({"selector": {"matchLabels": {"a": "b"}}}, None, "with a selector"),
        ({"storageClassName": ""}, None, "none is created"),
        ({"storageClassName": "fast"}, None, '"fast" not found'),
        ({"storageClassName": "fast"}, storage_class("ebs.csi.aws.com"), "does not run here"),
    ],
)
def test_a_claim_that_gets_no_volume_has_a_reason(spec: dict[str, Any], found: Any, problem: str) -> None:
    plan = plan_claim(claim(**spec), [], found)
    assert plan.volume is None
    assert problem in plan.problem


def test_a_class_of_this_provisioner_decides_what_becomes_of_the_folder() -> None:
    own = storage_class("local.levelset.dev", reclaimPolicy="Retain")
    wanted = claim(storageClassName="fast")
    assert plan_claim(wanted, [], own).provisions
    assert new_volume(wanted, own, Path("/data")).spec.persistent_volume_reclaim_policy == "Retain"


def test_the_phase_of_a_volume_follows_from_its_claim() -> None:
    mine = volume(claimRef={"name": "data", "namespace": "test", "uid": "uid-data"})
    assert volume_phase(volume(), None) == "Available"
    assert volume_phase(mine, claim()) == "Bound"
    assert volume_phase(mine, None) == "Released"
    assert volume_phase(mine, claim(uid="another")) == "Released"
