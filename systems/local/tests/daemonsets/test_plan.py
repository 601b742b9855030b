"""The next step of a DaemonSet: on which nodes it creates Pods, which it deletes, and its status."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from levelset import ObjectMeta
from levelset.kinds.apps_v1 import DaemonSet
from levelset.kinds.core_v1 import Node, NodeSpec, Pod
from levelset.testing import START
from levelset_local.controller_revisions import POD_REVISION
from levelset_local.daemonsets import Plan, make_plan
from levelset_local.daemonsets.plan import new_pod
from systems.local.tests import samples


def owner(**spec: Any) -> DaemonSet:
    return samples.daemon_set(**spec).with_metadata(uid="uid-agent", namespace="test", generation=4)


def node(name: str = "local", **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels=labels), spec=NodeSpec())


def daemon(name: str, revision: str = "new", **state: Any) -> Pod:
    given: dict[str, Any] = {"ready": START, "labels": {"app": "agent", POD_REVISION: revision}, **state}
    return samples.pod(name, **given)


def plan_of(one: DaemonSet, pods: Sequence[Pod] = (), *nodes: Node, seconds: float = 0.0) -> Plan:
    return make_plan(one, pods, nodes or [node()], "new", now=START + timedelta(seconds=seconds))


def names(pods: Sequence[Pod]) -> list[str]:
    return [one.name for one in pods]


def test_every_node_gets_a_pod() -> None:
    assert plan_of(owner(), [daemon("a")], node(), node("other")).create == ("other",)
    made = new_pod(owner(), "local", "new")
    assert (made.spec.node_name, made.metadata.labels[POD_REVISION]) == ("local", "new")


def test_only_nodes_with_the_labels_of_the_node_selector_have_pods() -> None:
    one = owner(pod={"nodeSelector": {"disk": "fast"}})
    assert plan_of(one, [], node(disk="fast")).create == ("local",)
    plan = plan_of(one, [daemon("a")], node(disk="slow"))
    assert (plan.create, names(plan.delete), plan.status.number_misscheduled) == ((), ["a"], 1)
    assert plan.status.desired_number_scheduled == 0


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_has_finished_is_deleted_and_then_replaced(phase: str) -> None:
    plan = plan_of(owner(), [daemon("a", phase=phase, ready=None)])
    assert (plan.create, names(plan.delete)) == ((), ["a"])


def test_a_pod_that_is_being_deleted_must_be_gone_first() -> None:
    assert plan_of(owner(), [daemon("a", deleted=START)]).create == ()


def test_of_several_pods_the_oldest_one_stays() -> None:
    younger = daemon("a", created=START + timedelta(seconds=5))
    assert names(plan_of(owner(), [younger, daemon("b")]).delete) == ["a"]


def test_the_pods_of_a_node_that_is_gone_are_deleted() -> None:
    assert names(plan_of(owner(), [daemon("a"), daemon("b", node="gone")]).delete) == ["b"]


def test_an_update_deletes_old_pods_within_the_limit() -> None:
    nodes = [node(name) for name in ("n1", "n2", "n3")]
    pods = [daemon(one.name, "old", node=one.name) for one in nodes]
    assert names(plan_of(owner(), pods, *nodes).delete) == ["n1"]
    pods[0] = daemon("n1", "new", node="n1", ready=None)  # the new Pod is not available yet
    assert plan_of(owner(), pods, *nodes).delete == ()
    pods[1] = daemon("n2", "old", node="n2", ready=None)  # an old Pod that does not work is replaced at once
    assert names(plan_of(owner(), pods, *nodes).delete) == ["n2"]
    half = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}
    fresh = [daemon(one.name, "old", node=one.name) for one in nodes]
    assert names(plan_of(owner(updateStrategy=half), fresh, *nodes).delete) == ["n1", "n2"]


def test_with_surge_the_old_pod_stays_until_the_new_one_is_available() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    one = owner(updateStrategy=strategy)
    old = daemon("old", "old")
    assert plan_of(one, [old]).create == ("local",)
    waiting = plan_of(one, [old, daemon("new", ready=None)])
    assert (waiting.create, waiting.delete) == ((), ())
    assert names(plan_of(one, [old, daemon("new")]).delete) == ["old"]
    nodes = [node(name) for name in ("n1", "n2", "n3")]
    pods = [daemon(place.name, "old", node=place.name, ready=START if place.name == "n1" else None) for place in nodes]
    assert plan_of(one, pods, *nodes).create == ("n2", "n3", "n1")  # those that do not work are not limited
    assert plan_of(one, [*pods, daemon("new", node="n1", ready=None)], *nodes).create == ("n2", "n3")


def test_with_on_delete_no_pod_is_replaced() -> None:
    assert plan_of(owner(updateStrategy={"type": "OnDelete"}), [daemon("a", "old")]).delete == ()


def test_the_status_counts_nodes() -> None:
    plan = plan_of(owner(minReadySeconds=10), [daemon("a", "old", node="n1")], node("n1"), node("n2"), seconds=5)
    status = plan.status
    assert (status.desired_number_scheduled, status.current_number_scheduled, status.number_ready) == (2, 1, 1)
    assert (status.number_available, status.number_unavailable, status.updated_number_scheduled) == (0, 2, 0)
    assert (status.observed_generation, plan.requeue_at) == (4, START + timedelta(seconds=10))


def test_a_daemon_set_that_is_being_deleted_only_has_a_status() -> None:
    one = owner().with_metadata(deletion_timestamp=START)
    assert (plan_of(one).create, plan_of(one, [daemon("a", "old")]).delete) == ((), ())
