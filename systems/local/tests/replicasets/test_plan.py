"""The next step of a ReplicaSet: which Pods it creates and deletes, and its status."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from levelset.kinds.apps_v1 import ReplicaSet
from levelset.kinds.core_v1 import Pod
from levelset.objects import from_tree, to_tree
from levelset.testing import START
from levelset_local.replicasets import ReplicaFailure, make_status, plan_pods, rank_for_deletion
from levelset_local.replicasets.plan import DELETION_COST, deletion_cost
from systems.local.tests.samples import pod, replica_set


def later(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def names(pods: Any) -> list[str]:
    return [one.name for one in pods]


def test_missing_pods_are_created() -> None:
    assert plan_pods(replica_set(replicas=3), [pod("a")], now=START).create == 2


def test_nothing_is_created_or_deleted_if_the_number_is_right() -> None:
    plan = plan_pods(replica_set(replicas=1), [pod("a")], now=START)
    assert (plan.create, plan.delete, plan.requeue_at) == (0, (), None)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_finished_is_replaced(phase: str) -> None:
    assert plan_pods(replica_set(replicas=1), [pod("a", phase=phase)], now=START).create == 1


def test_a_pod_that_is_being_deleted_is_replaced() -> None:
    assert plan_pods(replica_set(replicas=1), [pod("a", deleted=START)], now=START).create == 1


def test_a_replica_set_that_is_being_deleted_creates_and_deletes_no_pods() -> None:
    plan = plan_pods(replica_set(replicas=3, deleted=START), [], now=START)
    assert (plan.create, plan.delete) == (0, ())
    assert plan_pods(replica_set(replicas=0, deleted=START), [pod("a")], now=START).delete == ()


def test_one_reconcile_creates_a_limited_number_of_pods() -> None:
    assert plan_pods(replica_set(replicas=2000), [], now=START).create == 500


def test_surplus_pods_are_deleted_by_rank() -> None:
    pods = [pod("ready", ready=START), pod("waiting", phase="Pending"), pod("unready")]
    assert names(plan_pods(replica_set(replicas=1), pods, now=START).delete) == ["waiting", "unready"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pod("z", node=None), pod("a")),
        (pod("z", phase="Pending"), pod("a")),
        (pod("z", phase="Unknown"), pod("a")),
        (pod("z", phase="Pending"), pod("a", phase="Unknown")),
        (pod("z"), pod("a", ready=START)),
        (pod("z", annotations={DELETION_COST: "-5"}, ready=START), pod("a", ready=START)),
        (pod("z", ready=START), pod("a", annotations={DELETION_COST: "10"}, ready=START)),
        (pod("z", ready=later(5)), pod("a", ready=later(1))),
        (pod("z", ready=START, restarts=3), pod("a", ready=START, restarts=1)),
        (pod("z", ready=START, created=later(1)), pod("a", ready=START)),
        (pod("a", ready=START), pod("z", ready=START)),
        (pod("z"), pod("a", annotations={DELETION_COST: "-100"}, ready=START)),  # the cost decides only among equals
    ],
)
def test_the_deletion_rank(first: Pod, second: Pod) -> None:
    assert names(rank_for_deletion([second, first])) == names([first, second])
    assert names(rank_for_deletion([first, second])) == names([first, second])


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("7", 7),
        ("-7", -7),
        ("", 0),
        ("+7", 0),
        ("07", 0),
        ("1.5", 0),
        ("x", 0),
        ("2147483647", 2**31 - 1),
        ("9" * 12, 0),
    ],
)
def test_the_deletion_cost_is_a_plain_number(text: str, cost: int) -> None:
    assert deletion_cost(pod("a", annotations={DELETION_COST: text})) == cost


def test_the_status_counts_active_pods() -> None:
    owner = replica_set(replicas=4, generation=7)
    pods = [
        pod("a", ready=START),
        pod("b", labels={"app": "web", "extra": "1"}),
        pod("c", labels={"app": "other"}),
        pod("d", phase="Failed"),
        pod("e", deleted=START),
    ]
    found = to_tree(make_status(owner, pods, failure=None, now=START))
    assert found == {
        "replicas": 3,
        "fullyLabeledReplicas": 2,
        "readyReplicas": 1,
        "availableReplicas": 1,
        "terminatingReplicas": 1,
        "observedGeneration": 7,
    }


def test_a_pod_that_was_deleted_in_this_step_is_terminating() -> None:
    pods = [pod("a", ready=START), pod("b", ready=START)]
    found = make_status(replica_set(replicas=1), pods, deleted=pods[:1], failure=None, now=START)
    assert (found.replicas, found.available_replicas, found.terminating_replicas) == (1, 1, 1)


def test_a_pod_is_available_after_min_ready_seconds() -> None:
    owner, pods = replica_set(replicas=1, min_ready=10), [pod("a", ready=START)]
    assert make_status(owner, pods, failure=None, now=later(9)).available_replicas == 0
    assert make_status(owner, pods, failure=None, now=later(10)).available_replicas == 1
    assert plan_pods(owner, pods, now=later(4)).requeue_at == later(10)
    assert plan_pods(owner, pods, now=later(10)).requeue_at is None


def test_a_failure_is_a_condition_until_it_is_over() -> None:
    owner = replica_set(replicas=1)
    failure = ReplicaFailure("FailedCreate", "no quota")
    first = make_status(owner, [], failure=failure, now=START)
    assert [(one.type, one.status, one.reason) for one in first.conditions] == [
        ("ReplicaFailure", "True", "FailedCreate")
    ]
    again = make_status(owner.with_status(first), [], failure=failure, now=later(60))
    assert again.conditions == first.conditions
    assert make_status(owner.with_status(first), [], failure=None, now=later(60)).conditions == ()


def test_conditions_of_other_writers_stay() -> None:
    status = {"replicas": 0, "conditions": [{"type": "Other", "status": "True"}]}
    owner = from_tree(ReplicaSet, {**to_tree(replica_set(replicas=0)), "status": status})
    assert [one.type for one in make_status(owner, [], failure=None, now=START).conditions] == ["Other"]
