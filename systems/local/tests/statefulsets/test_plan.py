"""The next step of a StatefulSet: which Pods and claims it creates and deletes, and its status."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from levelset import replace
from levelset.kinds.apps_v1 import StatefulSet
from levelset.kinds.core_v1 import PersistentVolumeClaim, Pod
from levelset.objects import controller_of, owner_reference
from levelset.testing import START
from levelset_local.controller_revisions import POD_REVISION, STATEFUL_SET_HASH, History, plan_history
from levelset_local.statefulsets import Plan, make_plan
from levelset_local.statefulsets.identity import claims_of, with_retention
from systems.local.tests import samples


def owner(replicas: int = 3, *, policy: str = "OrderedReady", deleted: bool = False, **spec: Any) -> StatefulSet:
    made = samples.stateful_set(replicas=replicas, podManagementPolicy=policy, **spec)
    return made.with_metadata(
        uid="uid-db", namespace="test", generation=2, deletion_timestamp=START if deleted else None
    )


def history_of(one: StatefulSet, *, before: str | None = None) -> History:
    """The history of a StatefulSet; with `before`, of one whose image was that before."""
    if before is None:
        return plan_history(one, [], hash_label=STATEFUL_SET_HASH)
    old = samples.stateful_set(image=before).with_metadata(namespace="test")
    first = plan_history(old, [], hash_label=STATEFUL_SET_HASH).update
    return plan_history(one, [first], hash_label=STATEFUL_SET_HASH, current=first.name)


def member(ordinal: int, revision: str, **state: Any) -> Pod:
    name = f"db-{ordinal}"
    labels = {"app": "db", POD_REVISION: revision, "statefulset.kubernetes.io/pod-name": name}
    given: dict[str, Any] = {"ready": START, "labels": labels, **state}
    return samples.pod(name, **given)


def plan_of(one: StatefulSet, pods: Sequence[Pod], history: History | None = None, **options: Any) -> Plan:
    claims: Any = options.pop("claims", {})
    return make_plan(one, pods, claims, history or history_of(one), now=options.pop("now", START))


def names(pods: Any) -> list[str]:
    return [one.name for one in pods]


def created(plan: Plan) -> list[str]:
    return [one.pod.name for one in plan.create]


def test_pods_are_created_one_after_another() -> None:
    one = owner()
    revision = history_of(one).update.name
    assert created(plan_of(one, [])) == ["db-0"]
    assert created(plan_of(one, [member(0, revision, ready=None)])) == []
    assert created(plan_of(one, [member(0, revision)])) == ["db-1"]


def test_with_parallel_management_all_pods_are_created_at_once() -> None:
    assert created(plan_of(owner(policy="Parallel"), [])) == ["db-0", "db-1", "db-2"]


def test_an_update_waits_for_each_pod_with_parallel_management_too() -> None:
    one = owner(2, policy="Parallel", image="new")
    history = history_of(one, before="old")
    old, new = history.current.name, history.update.name
    assert names(plan_of(one, [member(0, old), member(1, new, ready=None)], history).delete) == []
    assert names(plan_of(one, [member(0, old), member(1, new)], history).delete) == ["db-0"]


def test_the_ordinals_begin_where_the_spec_says() -> None:
    assert created(plan_of(owner(2, policy="Parallel", ordinals={"start": 5}), [])) == ["db-5", "db-6"]


def test_a_new_pod_has_its_identity_and_the_volumes_of_its_claims() -> None:
    one = owner(claims=1)
    new = plan_of(one, []).create[0]
    pod = new.pod
    assert pod.metadata.labels == {
        "app": "db",
        POD_REVISION: history_of(one).update.name,
        "statefulset.kubernetes.io/pod-name": "db-0",
        "apps.kubernetes.io/pod-index": "0",
    }
    assert (pod.spec.hostname, pod.spec.subdomain) == ("db-0", "db")
    volume = pod.spec.volumes[0]
    assert volume.persistent_volume_claim is not None
    assert (volume.name, volume.persistent_volume_claim.claim_name) == ("data", "data-db-0")
    assert names(new.claims) == ["data-db-0"]


def test_the_next_pod_waits_until_the_one_before_is_available() -> None:
    one = owner(minReadySeconds=10)
    pods = [member(0, history_of(one).update.name)]
    waiting = plan_of(one, pods, now=START + timedelta(seconds=9))
    assert (created(waiting), waiting.requeue_at) == ([], START + timedelta(seconds=10))
    assert created(plan_of(one, pods, now=START + timedelta(seconds=10))) == ["db-1"]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_has_finished_is_deleted_and_then_created_again(phase: str) -> None:
    one = owner(1)
    finished = member(0, history_of(one).update.name, phase=phase, ready=None)
    plan = plan_of(one, [finished])
    assert (names(plan.delete), created(plan)) == (["db-0"], [])
    assert plan_of(one, [finished.with_metadata(deletion_timestamp=START)]).delete == ()


def test_surplus_pods_are_deleted_one_after_another_from_the_last() -> None:
    one = owner(1)
    revision = history_of(one).update.name
    pods = [member(number, revision) for number in range(3)]
    assert names(plan_of(one, pods).delete) == ["db-2"]
    pods[2] = pods[2].with_metadata(deletion_timestamp=START)
    assert plan_of(one, pods).delete == ()


def test_a_surplus_pod_is_not_deleted_while_another_one_is_unhealthy() -> None:
    one = owner(1)
    revision = history_of(one).update.name
    unready = member(1, revision, ready=None)
    assert plan_of(one, [member(0, revision), unready, member(2, revision, ready=None)]).delete == ()
    assert names(plan_of(one, [member(0, revision), unready]).delete) == ["db-1"]


def test_with_parallel_management_all_surplus_pods_are_deleted_at_once() -> None:
    one = owner(1, policy="Parallel")
    pods = [member(number, history_of(one).update.name, ready=None) for number in range(3)]
    assert names(plan_of(one, pods).delete) == ["db-2", "db-1"]


def test_an_update_replaces_the_last_pod_first_and_waits_for_it() -> None:
    one = owner(image="db:2")
    history = history_of(one, before="db:1")
    old, new = history.current.name, history.update.name
    plan = plan_of(one, [member(number, old) for number in range(3)], history)
    assert names(plan.delete) == ["db-2"]
    assert (plan.status.current_replicas, plan.status.updated_replicas) == (2, 0)
    assert plan_of(one, [member(0, old), member(1, old), member(2, new, ready=None)], history).delete == ()
    assert names(plan_of(one, [member(0, old), member(1, old), member(2, new)], history).delete) == ["db-1"]


@pytest.mark.parametrize("policy", ["OrderedReady", "Parallel"])
def test_pods_below_the_partition_stay_and_are_created_as_before(policy: str) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    one = owner(image="db:2", policy=policy, updateStrategy=strategy)
    history = history_of(one, before="db:1")
    old, new = history.current.name, history.update.name
    plan = plan_of(one, [member(0, old), member(1, old), member(2, new)], history)
    assert plan.delete == ()
    assert (plan.status.current_revision, plan.status.current_replicas, plan.status.updated_replicas) == (old, 2, 1)
    again = plan_of(one, [member(0, old), member(2, new)], history).create[0].pod
    assert (again.name, again.metadata.labels[POD_REVISION]) == ("db-1", old)
    assert again.spec.containers[0].image == "db:1"


def test_with_on_delete_no_pod_is_replaced() -> None:
    one = owner(image="db:2", updateStrategy={"type": "OnDelete"})
    history = history_of(one, before="db:1")
    pods = [member(number, history.current.name) for number in range(3)]
    assert plan_of(one, pods, history).delete == ()
    assert plan_of(one, pods[:2], history).create[0].pod.spec.containers[0].image == "db:2"


def test_a_complete_update_makes_its_revision_the_current_one() -> None:
    one = owner(image="db:2")
    history = history_of(one, before="db:1")
    status = plan_of(one, [member(number, history.update.name) for number in range(3)], history).status
    assert status.current_revision == status.update_revision == history.update.name
    assert (status.replicas, status.ready_replicas, status.available_replicas) == (3, 3, 3)
    assert (status.current_replicas, status.updated_replicas) == (3, 3)
    assert (status.observed_generation, status.collision_count) == (2, 0)


def test_a_stateful_set_that_is_being_deleted_only_has_a_status() -> None:
    plan = plan_of(owner(deleted=True), [])
    assert (plan.create, plan.delete, plan.status.replicas) == ((), (), 0)


def claim(one: StatefulSet, ordinal: int = 0, *, owned_by: Any = None) -> PersistentVolumeClaim:
    made = next(iter(claims_of(one, ordinal)))
    refs = () if owned_by is None else (owner_reference(owned_by, controller=True, block_owner_deletion=True),)
    return made.with_metadata(owner_references=refs, uid=f"uid-{made.name}")


@pytest.mark.parametrize(
    ("deleted", "scaled", "ordinal", "expected"),
    [
        ("Retain", "Retain", 0, None),
        ("Retain", "Retain", 7, None),
        ("Delete", "Retain", 0, "StatefulSet"),
        ("Delete", "Retain", 7, "StatefulSet"),
        ("Retain", "Delete", 0, None),
        ("Retain", "Delete", 7, "Pod"),
        ("Delete", "Delete", 0, "StatefulSet"),
        ("Delete", "Delete", 7, "Pod"),
    ],
)
def test_the_retention_policy_decides_with_what_a_claim_is_deleted(
    deleted: str, scaled: str, ordinal: int, expected: str | None
) -> None:
    policy = {"whenDeleted": deleted, "whenScaled": scaled}
    one = owner(claims=1, persistentVolumeClaimRetentionPolicy=policy)
    pod = member(ordinal, "r")
    for before in (claim(one, ordinal), claim(one, ordinal, owned_by=one), claim(one, ordinal, owned_by=pod)):
        found = controller_of(with_retention(before, one, pod))
        assert (None if found is None else found.kind) == expected


def test_a_claim_of_another_controller_is_left_alone() -> None:
    one = owner(claims=1, persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete", "whenScaled": "Delete"})
    other = claim(one, owned_by=replace(one, metadata=replace(one.metadata, name="other", uid="uid-other")))
    assert with_retention(other, one, member(0, "r")) is other


def test_a_pod_waits_until_the_claim_of_its_predecessor_is_gone() -> None:
    one = owner(1, claims=1)
    stale = claim(one, owned_by=samples.pod("db-0"))
    plan = plan_of(one, [], claims={"data-db-0": stale})
    assert (plan.create, plan.is_waiting_for_claim) == ((), True)
    assert created(plan_of(one, [], claims={"data-db-0": claim(one)})) == ["db-0"]


def test_a_missing_claim_of_a_pending_pod_is_created() -> None:
    one = owner(1, claims=2)
    pods = [member(0, history_of(one).update.name, phase="Pending", ready=None)]
    assert names(plan_of(one, pods, claims={"data-db-0": claim(one)}).claims) == ["data1-db-0"]
