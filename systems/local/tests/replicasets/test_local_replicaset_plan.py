"""Which Pods a ReplicaSet makes and deletes, and what it says about them."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from levelset.kinds.apps_v1 import ReplicaSet
from levelset.kinds.core_v1 import Pod
from levelset.objects import from_tree, to_tree
from levelset.testing import START
from levelset_local.replicasets import Trouble, make_status, plan_pods, rank_for_deletion
from levelset_local.replicasets.ranking import COST, cost_of
from systems.local.tests.samples import pod, replica_set


def later(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def names(pods: Any) -> list[str]:
    return [one.name for one in pods]


def test_missing_pods_are_made() -> None:
    assert plan_pods(replica_set(replicas=3), [pod("a")], now=START).create == 2


def test_nobody_is_made_or_deleted_if_the_number_is_right() -> None:
    plan = plan_pods(replica_set(replicas=1), [pod("a")], now=START)
    assert (plan.create, plan.delete, plan.look) == (0, (), None)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_finished_is_replaced(phase: str) -> None:
    assert plan_pods(replica_set(replicas=1), [pod("a", phase=phase)], now=START).create == 1


def test_a_pod_that_is_being_deleted_is_replaced() -> None:
    assert plan_pods(replica_set(replicas=1), [pod("a", deleted=START)], now=START).create == 1


def test_a_set_that_is_being_deleted_makes_and_deletes_nobody() -> None:
    plan = plan_pods(replica_set(replicas=3, deleted=START), [], now=START)
    assert (plan.create, plan.delete) == (0, ())
    assert plan_pods(replica_set(replicas=0, deleted=START), [pod("a")], now=START).delete == ()


def test_one_look_makes_only_so_many() -> None:
    assert plan_pods(replica_set(replicas=2000), [], now=START).create == 500


def test_too_many_go_the_least_useful_first() -> None:
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
        (pod("z", annotations={COST: "-5"}, ready=START), pod("a", ready=START)),
        (pod("z", ready=START), pod("a", annotations={COST: "10"}, ready=START)),
        (pod("z", ready=later(5)), pod("a", ready=later(1))),
        (pod("z", ready=START, restarts=3), pod("a", ready=START, restarts=1)),
        (pod("z", ready=START, created=later(1)), pod("a", ready=START)),
        (pod("a", ready=START), pod("z", ready=START)),
        (pod("z"), pod("a", annotations={COST: "-100"}, ready=START)),  # the cost is asked only among equals
    ],
)
def test_who_goes_first(first: Pod, second: Pod) -> None:
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
def test_a_cost_is_a_plain_number(text: str, cost: int) -> None:
    assert cost_of(pod("a", annotations={COST: text})) == cost


def test_the_status_counts_what_is_there() -> None:
    owner = replica_set(replicas=4, generation=7)
    pods = [
        pod("a", ready=START),
        pod("b", labels={"app": "web", "extra": "1"}),
        pod("c", labels={"app": "other"}),
        pod("d", phase="Failed"),
        pod("e", deleted=START),
    ]
    found = to_tree(make_status(owner, pods, trouble=None, now=START))
    assert found == {
        "replicas": 3,
        "fullyLabeledReplicas": 2,
        "readyReplicas": 1,
        "availableReplicas": 1,
        "terminatingReplicas": 1,
        "observedGeneration": 7,
    }


def test_who_was_deleted_just_now_is_terminating() -> None:
    pods = [pod("a", ready=START), pod("b", ready=START)]
    found = make_status(replica_set(replicas=1), pods, deleted=pods[:1], trouble=None, now=START)
    assert (found.replicas, found.available_replicas, found.terminating_replicas) == (1, 1, 1)


def test_a_pod_is_available_when_it_was_ready_for_long_enough() -> None:
    owner, pods = replica_set(replicas=1, min_ready=10), [pod("a", ready=START)]
    assert make_status(owner, pods, trouble=None, now=later(9)).available_replicas == 0
    assert make_status(owner, pods, trouble=None, now=later(10)).available_replicas == 1
    assert plan_pods(owner, pods, now=later(4)).look == later(10)
    assert plan_pods(owner, pods, now=later(10)).look is None


def test_trouble_is_a_condition_until_it_is_over() -> None:
    owner = replica_set(replicas=1)
    trouble = Trouble("FailedCreate", "no quota")
    first = make_status(owner, [], trouble=trouble, now=START)
    assert [(one.type, one.status, one.reason) for one in first.conditions] == [
        ("ReplicaFailure", "True", "FailedCreate")
    ]
    again = make_status(owner.with_status(first), [], trouble=trouble, now=later(60))
    assert again.conditions == first.conditions
    assert make_status(owner.with_status(first), [], trouble=None, now=later(60)).conditions == ()


def test_conditions_of_others_stay() -> None:
    status = {"replicas": 0, "conditions": [{"type": "Other", "status": "True"}]}
    owner = from_tree(ReplicaSet, {**to_tree(replica_set(replicas=0)), "status": status})
    assert [one.type for one in make_status(owner, [], trouble=None, now=START).conditions] == ["Other"]
