"""The next step of a Deployment: its ReplicaSets, revisions, status and conditions."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pytest

from levelset import replace
from levelset.kinds.apps_v1 import Deployment, DeploymentStatus, ReplicaSet, ReplicaSetStatus
from levelset.objects import controller_of, from_tree
from levelset.testing import START
from levelset_local.deployments import HASH_LABEL, Plan, hash_template, make_plan
from levelset_local.deployments.revisions import DESIRED_REPLICAS, HISTORY, MAX_REPLICAS, REVISION
from systems.local.tests.cluster_queries import status_of
from systems.local.tests.samples import deployment


def later(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def stored(**given: Any) -> Deployment:
    """A Deployment as the server returns it."""
    given = {"progressDeadlineSeconds": 600, "revisionHistoryLimit": 10, **given}
    return deployment(**given).with_metadata(uid="uid-web", namespace="test", generation=1)


def made(plan: Plan, *, place: int = 0) -> ReplicaSet:
    """The new ReplicaSet of a plan, as the server returns it."""
    assert plan.new is not None
    return plan.new.with_metadata(uid=f"uid-{place}", generation=1, creation_timestamp=later(place))


def serving(one: ReplicaSet, there: int | None = None, available: int | None = None) -> ReplicaSet:
    wanted = one.spec.replicas or 0
    there = wanted if there is None else there
    available = there if available is None else available
    status = ReplicaSetStatus(
        replicas=there,
        ready_replicas=available,
        available_replicas=available,
        terminating_replicas=0,
        observed_generation=one.metadata.generation,
    )
    return one.with_status(status)


def image(owner: Deployment, name: str) -> Deployment:
    template = owner.spec.template
    container = replace(template.spec.containers[0], image=name)
    return owner.with_spec(template=replace(template, spec=replace(template.spec, containers=(container,))))


def sizes(plan: Plan) -> dict[str, int | None]:
    return {one.name: one.spec.replicas for one in plan.sets}


def condition(status: DeploymentStatus, kind: str) -> tuple[str, str | None] | None:
    return next(((one.status, one.reason) for one in status.conditions if one.type == kind), None)


def settled(owner: Deployment, *, at: datetime = START) -> tuple[Deployment, ReplicaSet]:
    """A Deployment that is complete, with its only ReplicaSet."""
    plan = make_plan(owner, [], now=at)
    owned = serving(made(plan))
    owner = owner.with_status(make_plan(owner, [owned], now=at).status)
    return owner.with_metadata(annotations={REVISION: "1"}), owned


def test_the_first_replica_set_is_created_at_full_size() -> None:
    plan = make_plan(stored(), [], now=START)
    assert plan.new is not None
    word = hash_template(stored().spec.template)
    assert plan.new.name == f"web-{word}"
    assert plan.new.spec.replicas == 3
    assert plan.new.spec.selector.match_labels == {"app": "web", HASH_LABEL: word}
    assert plan.new.spec.template is not None
    assert plan.new.spec.template.metadata.labels == plan.new.metadata.labels == {"app": "web", HASH_LABEL: word}
    assert plan.new.metadata.annotations == {REVISION: "1", DESIRED_REPLICAS: "3", MAX_REPLICAS: "4"}
    assert plan.revision == "1"
    assert condition(plan.status, "Progressing") == ("True", "NewReplicaSetCreated")
    assert condition(plan.status, "Available") == ("False", "MinimumReplicasUnavailable")
    assert plan.requeue_at == later(600)


def test_the_hash_is_stable_and_differs_with_each_collision() -> None:
    template = stored().spec.template
    assert hash_template(template) == hash_template(
        from_tree(
            type(template),
            {"spec": {"containers": [{"image": "web:1", "name": "main"}]}, "metadata": {"labels": {"app": "web"}}},
        )
    )
    hashes = {hash_template(template, count) for count in (None, 1, 2)} | {
        hash_template(image(stored(), "x").spec.template)
    }
    assert len(hashes) == 4
    assert all(len(one) == 10 and one.isalnum() for one in hashes)


def test_a_complete_deployment_needs_no_writes() -> None:
    owner, owned = settled(stored())
    plan = make_plan(owner, [owned], now=later(5))
    assert (plan.new, plan.sets, plan.delete, plan.revision, plan.requeue_at) == (None, (owned,), (), None, None)
    assert plan.status == owner.status
    assert condition(plan.status, "Progressing") == ("True", "NewReplicaSetAvailable")
    assert condition(plan.status, "Available") == ("True", "MinimumReplicasAvailable")


def test_a_new_template_gets_a_replica_set() -> None:
    owner, old = settled(stored())
    plan = make_plan(image(owner, "web:2"), [old], now=later(9))
    assert plan.new is not None
    assert plan.new.spec.replicas == 1
    assert plan.new.metadata.annotations[REVISION] == plan.revision == "2"
    assert sizes(plan) == {old.name: 3}
    assert condition(plan.status, "Progressing") == ("True", "NewReplicaSetCreated")
    assert (plan.status.replicas, plan.status.updated_replicas) == (3, 0)


def test_replica_sets_are_scaled_up_before_others_are_scaled_down() -> None:
    owner, old = settled(
        stored(strategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}})
    )
    rolling = image(owner, "web:2")
    new = serving(made(make_plan(rolling, [old], now=START), place=1).with_spec(replicas=1))
    plan = make_plan(rolling, [serving(old.with_spec(replicas=2)), new], now=START)
    assert list(sizes(plan).items()) == [(new.name, 2), (old.name, 1)]


def test_a_rollback_gets_the_highest_revision() -> None:
    owner, first = settled(stored())
    second = serving(made(make_plan(image(owner, "web:2"), [first], now=START), place=1).with_spec(replicas=3))
    first = serving(first.with_spec(replicas=0))
    plan = make_plan(owner, [first, second], now=START)
    assert plan.new is None
    back = next(one for one in plan.sets if one.name == first.name)
    assert back.metadata.annotations[REVISION] == plan.revision == "3"
    assert back.metadata.annotations[HISTORY] == "1"
    assert back.spec.replicas == 1


def test_annotations_of_the_deployment_are_copied_except_those_of_tools() -> None:
    mine = {"kubernetes.io/change-cause": "faster", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    plan = make_plan(stored().with_metadata(annotations=mine), [], now=START)
    assert plan.new is not None
    assert plan.new.metadata.annotations["kubernetes.io/change-cause"] == "faster"
    assert "kubectl.kubernetes.io/last-applied-configuration" not in plan.new.metadata.annotations


def test_recreate_waits_for_the_last_old_pod() -> None:
    owner, old = settled(stored(strategy={"type": "Recreate"}))
    rolling = image(owner, "web:2")
    plan = make_plan(rolling, [old], now=START)
    assert plan.new is None
    assert sizes(plan) == {old.name: 0}
    empty = old.with_spec(replicas=0).with_metadata(generation=2)
    assert make_plan(rolling, [empty], now=START).new is None  # its status has not observed the new spec
    ending = serving(empty, 0)
    ending = ending.with_status(replace(status_of(ending), terminating_replicas=1))
    assert make_plan(rolling, [ending], now=START).new is None  # its Pod still runs
    fresh = make_plan(rolling, [serving(empty, 0)], now=START).new
    assert fresh is not None
    assert fresh.spec.replicas == 3


def test_a_paused_deployment_is_scaled_but_not_rolled_out() -> None:
    owner, old = settled(stored())
    paused = image(owner, "web:2").with_spec(paused=True, replicas=5)
    plan = make_plan(paused, [old], now=later(7))
    assert plan.new is None
    assert sizes(plan) == {old.name: 5}
    assert condition(plan.status, "Progressing") == ("Unknown", "DeploymentPaused")
    assert plan.requeue_at is None


def test_resuming_restarts_the_progress_deadline() -> None:
    owner, old = settled(stored())
    paused = image(owner, "web:2").with_spec(paused=True)
    paused = paused.with_status(make_plan(paused, [old], now=later(7)).status)
    again = paused.with_spec(paused=False)
    plan = make_plan(again.with_status(paused.status), [old], now=later(5000))
    assert plan.new is not None
    resumed = make_plan(again, [old, serving(made(plan), 0)], now=later(5000))
    assert condition(resumed.status, "Progressing") == ("Unknown", "DeploymentResumed")
    assert resumed.requeue_at == later(5600)


def test_scaling_during_a_rollout_is_proportional() -> None:
    owner, old = settled(stored(replicas=10))
    rolling = image(owner, "web:2")
    new = serving(made(make_plan(rolling, [old], now=START), place=1).with_spec(replicas=5))
    old = serving(old.with_spec(replicas=8))
    plan = make_plan(rolling.with_spec(replicas=20), [old, new], now=START)
    assert sizes(plan) == {old.name: 15, new.name: 10}
    assert all(one.metadata.annotations[DESIRED_REPLICAS] == "20" for one in plan.sets)
    assert all(one.metadata.annotations[MAX_REPLICAS] == "25" for one in plan.sets)


def test_scaling_comes_before_a_new_template() -> None:
    owner, old = settled(stored())
    plan = make_plan(image(owner, "web:2").with_spec(replicas=6), [old], now=START)
    assert plan.new is None
    assert sizes(plan) == {old.name: 6}


def test_scaling_empties_old_replica_sets_of_a_saturated_rollout() -> None:
    owner, old = settled(stored())
    rolling = image(owner, "web:2")
    new = made(make_plan(rolling, [old], now=START), place=1).with_spec(replicas=4)
    plan = make_plan(rolling.with_spec(replicas=4), [serving(old.with_spec(replicas=1)), serving(new)], now=START)
    assert sizes(plan) == {old.name: 0, new.name: 4}


def history(owner: Deployment, count: int) -> list[ReplicaSet]:
    found: list[ReplicaSet] = []
    for place in range(count):
        one = made(make_plan(image(owner, f"web:{place}"), found, now=START), place=place)
        found.append(serving(one.with_spec(replicas=0)))
    return found


def test_old_replica_sets_are_pruned_when_the_rollout_is_complete() -> None:
    owner = stored(revisionHistoryLimit=2, replicas=0)
    olds = history(owner, 4)
    last = image(owner, "web:last")
    current = serving(made(make_plan(last, olds, now=START), place=9))
    plan = make_plan(last, [*olds, current], now=START)
    assert [one.name for one in plan.delete] == [one.name for one in olds[:2]]
    busy = [olds[0].with_spec(replicas=1), *olds[1:], current]
    assert [one.name for one in make_plan(last, busy, now=START).delete] == [olds[1].name]
    ending = [olds[0].with_status(replace(status_of(olds[0]), terminating_replicas=1)), *olds[1:], current]
    assert [one.name for one in make_plan(last, ending, now=START).delete] == [olds[1].name]


def test_min_ready_seconds_are_set_on_the_current_replica_set() -> None:
    owner, old = settled(stored())
    plan = make_plan(owner.with_spec(min_ready_seconds=7), [old], now=START)
    assert [one.spec.min_ready_seconds for one in plan.sets] == [7]


def advance(owner: Deployment, sets: Iterable[ReplicaSet], seconds: float) -> Deployment:
    return owner.with_status(make_plan(owner, list(sets), now=later(seconds)).status)


def test_progress_restarts_the_deadline_and_the_lack_of_it_is_reported() -> None:
    owner = stored()
    plan = make_plan(owner, [], now=START)
    owned = made(plan)
    owner = advance(owner.with_status(plan.status), [serving(owned, 3, 0)], 100)
    assert condition(status_of(owner), "Progressing") == ("True", "ReplicaSetUpdated")
    owner = advance(owner, [serving(owned, 3, 1)], 500)
    stuck = serving(owned, 3, 1)
    assert make_plan(owner, [stuck], now=later(1000)).requeue_at == later(1100)
    assert condition(make_plan(owner, [stuck], now=later(1099)).status, "Progressing") == ("True", "ReplicaSetUpdated")
    owner = advance(owner, [stuck], 1100)
    assert condition(status_of(owner), "Progressing") == ("False", "ProgressDeadlineExceeded")
    assert make_plan(owner, [stuck], now=later(9000)).status == owner.status
    assert make_plan(owner, [stuck], now=later(9000)).requeue_at is None
    owner = advance(owner, [serving(owned, 3, 3)], 9001)
    assert condition(status_of(owner), "Progressing") == ("True", "NewReplicaSetAvailable")


def test_a_rollout_whose_start_was_not_reported_is_reported_late() -> None:
    owner, old = settled(stored())
    rolling = image(owner, "web:2")
    new = serving(made(make_plan(rolling, [old], now=START), place=1), 0)
    plan = make_plan(rolling, [old, new], now=later(50))  # the status was lost in a crash
    assert condition(plan.status, "Progressing") == ("True", "ReplicaSetUpdated")
    assert plan.requeue_at == later(650)


def test_a_found_replica_set_is_reported() -> None:
    owned = serving(made(make_plan(stored(), [], now=START)), 0)
    assert condition(make_plan(stored(), [owned], now=START).status, "Progressing") == ("True", "FoundNewReplicaSet")


@pytest.mark.parametrize("deadline", [None, 2**31 - 1])
def test_without_a_deadline_there_is_no_progressing_condition(deadline: int | None) -> None:
    owner = stored(progressDeadlineSeconds=deadline)
    plan = make_plan(owner, [], now=START)
    again = make_plan(owner.with_status(plan.status), [serving(made(plan))], now=START)
    assert condition(plan.status, "Progressing") is None
    assert condition(again.status, "Progressing") is None
    assert again.requeue_at is None


def test_the_failure_of_a_replica_set_is_reported_by_its_deployment() -> None:
    owner, owned = settled(stored())
    failing = from_tree(
        ReplicaSetStatus,
        {"replicas": 0, "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}]},
    )
    status = make_plan(owner, [owned.with_status(failing)], now=START).status
    assert condition(status, "ReplicaFailure") == ("True", "FailedCreate")
    assert condition(make_plan(owner.with_status(status), [owned], now=START).status, "ReplicaFailure") is None


def test_a_deployment_that_is_being_deleted_only_updates_its_status() -> None:
    owner, owned = settled(stored())
    leaving = image(owner, "web:2").with_metadata(deletion_timestamp=START)
    plan = make_plan(leaving, [serving(owned, 1)], now=START)
    assert (plan.new, plan.sets, plan.delete) == (None, (), ())
    assert (plan.status.replicas, plan.status.available_replicas) == (1, 1)


def test_the_status_adds_up_the_replica_sets() -> None:
    owner, old = settled(stored())
    rolling = image(owner, "web:2").with_metadata(generation=5)
    new = serving(made(make_plan(rolling, [old], now=START), place=1), 1, 0)
    status = make_plan(rolling, [old, new], now=START).status
    assert (status.replicas, status.updated_replicas, status.ready_replicas) == (4, 1, 3)
    assert (status.available_replicas, status.unavailable_replicas, status.observed_generation) == (3, 1, 5)
    assert controller_of(new) is None
