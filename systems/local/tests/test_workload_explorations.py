"""Workload controllers under the explorer: crashes, lost responses, conflicts and stale caches at every step."""

import pytest

from levelset.testing.explore import Exploration, replay
from systems.local.tests.explorations import jobs, stateful_sets, workloads


@pytest.mark.explore(budget=3)
@pytest.mark.parametrize("one", workloads(), ids=lambda one: one.name)
def test_deployments_converge_under_all_faults(one: Exploration) -> Exploration:
    return one


@pytest.mark.explore(budget=3)
@pytest.mark.parametrize("one", jobs(), ids=lambda one: one.name)
def test_jobs_converge_under_all_faults(one: Exploration) -> Exploration:
    return one


@pytest.mark.explore(budget=3)
@pytest.mark.parametrize("one", stateful_sets(), ids=lambda one: one.name)
def test_stateful_sets_converge_under_all_faults(one: Exploration) -> Exploration:
    return one


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("deployment-delete", "reorder:ReplicaSet:1"),  # Pods were created for a deleted ReplicaSet
        ("job-suspend", "relist:Pod:1:20"),  # there was no event for Pods that the cache had never had
    ],
)
def test_fixed_findings_do_not_return(name: str, plan: str) -> None:
    one = next(it for it in [*workloads(), *jobs()] if it.name == name)
    result = replay(one, plan)
    assert result.ok, [it.sentence for it in result.findings]
