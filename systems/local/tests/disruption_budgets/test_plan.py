"""The status of a PodDisruptionBudget."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from levelset import replace
from levelset.kinds.core_v1 import Pod
from levelset.kinds.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetStatus
from levelset.objects import OwnerReference, from_tree
from levelset.testing import START
from levelset_local.disruption_budgets.plan import EVICTION_TIMEOUT, NoScale, failed_status, make_plan
from systems.local.tests import samples


def budget(*, evicted: dict[str, datetime] | None = None, **spec: Any) -> PodDisruptionBudget:
    tree = {"metadata": {"name": "web", "generation": 3}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}
    made = from_tree(PodDisruptionBudget, {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", **tree})
    return replace(made, status=PodDisruptionBudgetStatus(disrupted_pods=evicted or {}))


def pod(name: str, *, owner: str | None = "rs", **state: Any) -> Pod:
    given: dict[str, Any] = {"ready": START, **state}
    refs = (OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid=owner or "", controller=True),)
    return samples.pod(name, **given).with_metadata(owner_references=refs if owner else ())


def numbers(one: PodDisruptionBudget, *pods: Pod, replicas: int = 4, now: datetime = START) -> tuple[int | None, ...]:
    status = make_plan(one, pods, {"rs": replicas}, now=now).status
    return status.expected_pods, status.desired_healthy, status.current_healthy, status.disruptions_allowed


THREE = [pod("a"), pod("b"), pod("c")]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 2}, (3, 2, 3, 1)),
        ({"minAvailable": 5}, (3, 5, 3, 0)),
        ({"minAvailable": "50%"}, (4, 2, 3, 1)),
        ({"minAvailable": "51%"}, (4, 3, 3, 0)),  # rounded up
        ({"maxUnavailable": 1}, (4, 3, 3, 0)),  # one of the four is missing already
        ({"maxUnavailable": 2}, (4, 2, 3, 1)),
        ({"maxUnavailable": "30%"}, (4, 2, 3, 1)),  # rounded up
        ({"maxUnavailable": 9}, (4, 0, 3, 3)),
        ({"minAvailable": 0}, (3, 0, 3, 3)),
    ],
)
def test_how_many_may_be_evicted(spec: dict[str, Any], expected: tuple[int, ...]) -> None:
    assert numbers(budget(**spec), *THREE) == expected


def test_only_ready_pods_that_are_not_being_deleted_are_healthy() -> None:
    pods = [pod("a"), pod("b", ready=None), pod("c", deleted=START)]
    assert numbers(budget(minAvailable=1), *pods) == (3, 1, 1, 0)


def test_an_eviction_counts_until_it_begins_or_expires() -> None:
    one = budget(minAvailable=1, evicted={"a": START, "gone": START})
    plan = make_plan(one, THREE, {}, now=START)
    assert (plan.status.current_healthy, plan.status.disrupted_pods) == (2, {"a": START})
    assert plan.requeue_at == START + EVICTION_TIMEOUT
    assert numbers(one, *THREE, now=START + timedelta(minutes=2))[2] == 3
    begun = make_plan(one, [pod("a", deleted=START), *THREE[1:]], {}, now=START).status
    assert (begun.current_healthy, begun.disrupted_pods) == (2, {})


def test_without_pods_nothing_may_be_evicted() -> None:
    plan = make_plan(budget(maxUnavailable=1), [], {}, now=START)
    condition = plan.status.conditions[0]
    assert plan.status.disruptions_allowed == 0
    assert (condition.type, condition.status, condition.reason) == ("DisruptionAllowed", "False", "InsufficientPods")
    assert (plan.status.observed_generation, condition.observed_generation) == (3, 3)


def test_pods_that_are_not_expected_any_more_may_not_be_evicted() -> None:
    assert numbers(budget(maxUnavailable=1), *THREE, replicas=0) == (0, 0, 3, 0)


def test_pods_without_a_scale_need_a_number() -> None:
    loose = [pod("a", owner=None)]
    assert numbers(budget(minAvailable=1), *loose) == (1, 1, 1, 0)
    with pytest.raises(NoScale, match="found no controllers for pod 'a'"):
        make_plan(budget(maxUnavailable=1), loose, {}, now=START)
    with pytest.raises(NoScale, match="has no scale"):
        make_plan(budget(minAvailable="10%"), THREE, {}, now=START)
    failed = failed_status(budget(maxUnavailable=1), "why", now=START)
    assert (failed.disruptions_allowed, failed.conditions[0].reason) == (0, "SyncFailed")
