"""The zoo of planted bugs: the explorer finds the bug of every broken controller, and none in the fixed one."""

import os
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from levelset.testing.explore import RunResult
from levelset.testing.explore.search import Explorer, explore_plans
from tests.testing.explore.zoo.common import Expected

BUGS = sorted(one.stem for one in Path(__file__).with_name("zoo").glob("*.py") if one.stem != "common")
FOUND_WITHIN = 80
FIXED_BUDGET = int(os.environ.get("LEVELSET_ZOO_BUDGET", "4"))

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
    assert len(BUGS) >= 15
    for name in BUGS:
        assert "#" in (load_bug(name).__doc__ or ""), f"{name} does not name the issue it is modelled on"


@pytest.mark.slow
@each
def test_the_bug_of_a_broken_controller_is_found_at_its_step(name: str) -> None:
    one = load_bug(name)
    runs = islice(explore_plans(Explorer(one.broken)), FOUND_WITHIN)
    found = next((played for played in runs if is_as_expected(played, one.expected)), None)
    assert found is not None, f"not found within {FOUND_WITHIN} plans: {one.expected}"


@pytest.mark.slow
@each
def test_nothing_is_found_in_a_fixed_controller(name: str) -> None:
    for played in explore_plans(Explorer(load_bug(name).fixed), budget=FIXED_BUDGET):
        assert played.ok, f"{played.plan.id}: {[str(one) for one in played.findings]}\n{played.trace.text()}"
