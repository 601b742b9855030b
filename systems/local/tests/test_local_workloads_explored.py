"""Workloads under the explorer: crashes, lost answers, conflicts and stale caches at every step."""

import pytest

from levelset.testing.explore import Exploration, replay
from systems.local.tests.explorations import jobs, workloads


@pytest.mark.explore(budget=3)
@pytest.mark.parametrize("one", workloads(), ids=lambda one: one.name)
def test_deployments_survive_everything(one: Exploration) -> Exploration:
    return one


@pytest.mark.explore(budget=3)
@pytest.mark.parametrize("one", jobs(), ids=lambda one: one.name)
def test_jobs_survive_everything(one: Exploration) -> Exploration:
    return one


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("deployment-delete", "reorder:ReplicaSet:1"),  # Pods were made for a ReplicaSet that was gone
        ("job-suspend", "skip:Pod:1:20"),  # nobody heard of the end of Pods that the cache had never shown
    ],
)
def test_what_was_found_once_is_not_found_again(name: str, plan: str) -> None:
    one = next(it for it in [*workloads(), *jobs()] if it.name == name)
    played = replay(one, plan)
    assert played.ok, [it.sentence for it in played.findings]
