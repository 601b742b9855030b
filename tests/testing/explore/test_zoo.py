"""The zoo of planted bugs: the explorer finds the bug of every broken controller, and none in the fixed one."""

import os
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from levelset.testing.explore import RunResult
from levelset.testing.explore.search import Explorer, explore_plans
from tests.testing.explore.zoo.common import Expected

BUGS = sorted(one.stem for one in Path(__file__).with_name("zoo").glob("*.py") if one.stem != "common")
FOUND_WITHIN = 200
IS_THOROUGH = "LEVELSET_ZOO_BUDGET" in os.environ
"""Whether all plans are run: LEVELSET_ZOO_BUDGET=200 takes some minutes."""
FIXED_BUDGET = int(os.environ.get("LEVELSET_ZOO_BUDGET", "1"))
SKIPPED = {
    "added_twice": 27,
    "between_two_awaits": 10,
    "blind_write": 9,
    "by_difference": 8,
    "collected_later": 16,
    "counted_stale": 12,
    "credentials_gone": 23,
    "deadline_from_cache": 73,
    "deleted_already": 21,
    "drift_unseen": 22,
    "dropped_by_standby": 11,
    "expired_by_clock": 9,
    "field_stays": 12,
    "filtered_by_generation": 19,
    "finalizer_taken": 8,
    "finalizers_cleared": 71,
    "gave_up": 9,
    "hash_first": 61,
    "index_first": 46,
    "injected_once": 10,
    "label_gone": 36,
    "missed_tick": 47,
    "namesake": 59,
    "namespace_in_the_way": 13,
    "never_taken_back": 12,
    "not_mine": 20,
    "not_yet_valid": 17,
    "numbered_by_process": 13,
    "observed_too_much": 10,
    "pages_apart": 14,
    "request_twice": 9,
    "resumed_leader": 18,
    "rolled_back_midway": 36,
    "scaled_down_stale": 8,
    "shared_attribute": 10,
    "spec_unreflected": 12,
    "swallowed_conflict": 21,
    "third_attempt": 16,
    "throttled_is_final": 23,
}
"""How many plans are known to find nothing, and are not run by default; if then nothing is found, all are."""

each = pytest.mark.parametrize("name", BUGS)


def load_bug(name: str) -> Any:
    return import_module(f"tests.testing.explore.zoo.{name}")


def is_as_expected(played: RunResult, expected: Expected) -> bool:
    """Whether a run breaks the expected rule at the expected step, by its finding or its plan."""
    for finding in played.findings:
        steps = [finding.step, *(one.step for one in played.plan)]
        if finding.rule == expected.rule and any(
            step is not None and (step.verb, step.kind) == (expected.verb, expected.kind) for step in steps
        ):
            return True
    return False


def test_each_bug_names_the_issue_it_is_modelled_on() -> None:
    assert len(BUGS) >= 40
    for name in BUGS:
        assert "#" in (load_bug(name).__doc__ or ""), f"{name} does not name the issue it is modelled on"


def search(name: str) -> Iterator[RunResult]:
    """Runs the plans for a broken controller, those that are likely to find its bug first."""
    explorer = Explorer(load_bug(name).broken)
    if name in SKIPPED and not IS_THOROUGH and explorer.reference.played.ok:
        yield from map(explorer.play, islice(explorer.plans(), SKIPPED[name], SKIPPED[name] + 8))
    yield from explore_plans(explorer, budget=FOUND_WITHIN)


@pytest.mark.slow
@each
def test_the_bug_of_a_broken_controller_is_found_at_its_step(name: str) -> None:
    expected = load_bug(name).expected
    found = next((played for played in search(name) if is_as_expected(played, expected)), None)
    assert found is not None, f"not found within {FOUND_WITHIN} plans: {expected}"


@pytest.mark.slow
@each
def test_nothing_is_found_in_a_fixed_controller(name: str) -> None:
    for played in explore_plans(Explorer(load_bug(name).fixed), budget=FIXED_BUDGET):
        assert played.ok, f"{played.plan.id}: {[str(one) for one in played.findings]}\n{played.trace.text()}"
