"""What budgets say about pods."""

from typing import Any

import pytest

from levelset.apiserver.verbs.subresources.eviction import Budget, budget_of, is_free, selects


def pods(ready: int, others: int = 0) -> list[Any]:
    yes = {"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    no = {"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    return [yes] * ready + [no] * others


def budget(status: Any = None, **spec: Any) -> Any:
    return {"metadata": {"generation": 2}, "spec": spec, "status": status or {}}


@pytest.mark.parametrize(
    ("spec", "ready", "others", "allowed"),
    [
        ({"minAvailable": 2}, 3, 0, 1),
        ({"minAvailable": 2}, 2, 5, 0),
        ({"minAvailable": "50%"}, 3, 0, 1),
        ({"maxUnavailable": 1}, 3, 1, 0),
        ({"maxUnavailable": "50%"}, 3, 0, 2),
        ({"maxUnavailable": "all"}, 3, 0, 0),
        ({}, 3, 0, 0),
    ],
)
def test_without_a_status_the_pods_are_counted(spec: Any, ready: int, others: int, allowed: int) -> None:
    assert budget_of(budget(**spec), pods(ready, others)).allowed == allowed


def test_a_status_counts_until_the_budget_changes() -> None:
    status = {"disruptionsAllowed": 3, "desiredHealthy": 1, "currentHealthy": 4, "observedGeneration": 2}
    assert budget_of(budget(status), []) == Budget(3, 1, 4, is_stale=False)
    assert budget_of(budget({**status, "observedGeneration": 1}), []).is_stale


def test_a_budget_is_about_what_it_selects() -> None:
    pod = {"metadata": {"labels": {"a": "b"}}}
    assert selects(budget(selector={"matchLabels": {"a": "b"}}), pod)
    assert selects(budget(selector={}), pod)
    assert not selects(budget(selector={"matchLabels": {"a": "c"}}), pod)
    assert not selects(budget(), pod)
    assert selects(budget(selector={"matchExpressions": [{"key": "a", "operator": "What"}]}), pod)


def test_a_pod_that_goes_anyway_is_free() -> None:
    assert is_free({"metadata": {"deletionTimestamp": "now"}, "status": {"phase": "Running"}})
    assert not is_free({"metadata": {}, "status": {"phase": "Running"}})
