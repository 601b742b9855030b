"""The replicas of both Deployments during a canary."""

import pytest

from levelset import replace
from levelset.kinds.apps_v1 import Deployment, DeploymentSpec, DeploymentStatus
from levelset.kinds.core_v1 import PodSpec, PodTemplateSpec
from levelset.kinds.meta_v1 import LabelSelector
from levelset_omnia.agentruntime import ReplicaPlan, is_rolled_out, plan_replicas, ready_replicas, split_replicas

__all__: list[str] = []


def deployment(ready: int, *, wanted: int = 4, updated: int = 4, generation: int = 2, observed: int = 2) -> Deployment:
    spec = DeploymentSpec(
        replicas=wanted, selector=LabelSelector(), template=PodTemplateSpec(spec=PodSpec(containers=()))
    )
    status = DeploymentStatus(
        observed_generation=observed,
        replicas=wanted,
        updated_replicas=updated,
        ready_replicas=ready,
        available_replicas=ready,
    )
    made = Deployment.new("a", spec).with_metadata(generation=generation)
    return replace(made, status=status)


@pytest.mark.parametrize(
    ("total", "weight", "shares"),
    [
        (10, 10, (1, 9)),
        (4, 10, (0, 4)),
        (3, 50, (2, 1)),
        (1, 50, (1, 0)),
        (1, 49, (0, 1)),
        (0, 50, (0, 0)),
        (7, 0, (0, 7)),
        (7, 100, (7, 0)),
        (2, 25, (1, 1)),
    ],
)
def test_a_share_of_traffic_is_a_share_of_pods_and_halves_round_up(
    total: int, weight: int, shares: tuple[int, int]
) -> None:
    assert split_replicas(total, weight) == shares


@pytest.mark.parametrize(("ready", "stable"), [(0, 4), (1, 3), (2, 2), (3, 2)])
def test_pods_of_the_active_version_are_removed_only_as_others_get_ready(ready: int, stable: int) -> None:
    assert plan_replicas(4, weight=50, candidate=deployment(ready)) == ReplicaPlan(stable, 2)


def test_without_a_canary_all_pods_are_of_the_active_version() -> None:
    assert plan_replicas(4, weight=None, candidate=deployment(4)) == ReplicaPlan(4, 0)


def test_pods_of_an_older_template_are_not_counted_as_ready() -> None:
    assert ready_replicas(deployment(4, observed=1)) == 0
    assert ready_replicas(deployment(4, updated=1)) == 1
    assert ready_replicas(None) == 0


@pytest.mark.parametrize(
    ("one", "is_done"),
    [
        (deployment(4), True),
        (deployment(3), False),
        (deployment(4, updated=3), False),
        (deployment(4, observed=1), False),
        (deployment(4, wanted=5), False),
    ],
)
def test_a_rollout_is_complete_when_all_pods_are_new_and_available(one: Deployment, is_done: bool) -> None:
    assert is_rolled_out(one, 4) is is_done
