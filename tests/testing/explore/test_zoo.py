"""The zoo: the explorer finds the bug of every broken controller and names the step, and finds nothing in its twin."""

import os
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from levelset.testing.explore import Played
from levelset.testing.explore.search import Explorer, explore_plans
from tests.testing.explore.zoo.habitat import Expected

ANIMALS = sorted(one.stem for one in Path(__file__).with_name("zoo").glob("*.py") if one.stem != "habitat")
FOUND_WITHIN = 80
TWIN_BUDGET = int(os.environ.get("LEVELSET_ZOO_BUDGET", "4"))

each = pytest.mark.parametrize("name", ANIMALS)


def animal(name: str) -> Any:
    return import_module(f"tests.testing.explore.zoo.{name}")


def is_as_expected(played: Played, expected: Expected) -> bool:
    """Whether a run breaks the rule, and the step is named: by what was found, or by the plan that shows it."""
    for finding in played.findings:
        steps = [finding.step, *(one.step for one in played.plan)]
        if finding.rule == expected.rule and any(
            step is not None and (step.verb, step.kind) == (expected.verb, expected.kind) for step in steps
        ):
            return True
    return False


def test_there_are_at_least_fifteen_and_each_says_what_it_is_modelled_on() -> None:
    assert len(ANIMALS) >= 15
    for name in ANIMALS:
        assert "#" in (animal(name).__doc__ or ""), f"{name} names no issue that it is modelled on"


@pytest.mark.slow
@each
def test_what_is_wrong_with_a_broken_one_is_found_and_the_step_is_named(name: str) -> None:
    one = animal(name)
    runs = islice(explore_plans(Explorer(one.broken)), FOUND_WITHIN)
    found = next((played for played in runs if is_as_expected(played, one.expected)), None)
    assert found is not None, f"not found within {FOUND_WITHIN} plans: {one.expected}"


@pytest.mark.slow
@each
def test_nothing_is_found_in_the_corrected_one(name: str) -> None:
    for played in explore_plans(Explorer(animal(name).fixed), budget=TWIN_BUDGET):
        assert played.ok, f"{played.plan.id}: {[str(one) for one in played.findings]}\n{played.trace.text()}"
