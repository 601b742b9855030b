"""Explorations in several processes and in several parts: the same findings in the same order."""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import levelset.testing.explore.search as search
from levelset.errors import ConfigError, LevelsetError
from levelset.testing.explore import Plan, Report, explore
from levelset.testing.explore.planning.plan_outcome import PlanOutcome
from levelset.testing.explore.search import SearchProgress
from levelset.testing.explore.worker_processes import InProcess, WorkerPool, can_fork
from tests.testing.explore.broken import forgetful

BUDGET = 14
"""More than are chosen ahead, so that the outcomes of the first ones decide about the last ones."""

needs_fork = pytest.mark.skipif(not can_fork(), reason="there is no fork here")


@pytest.fixture(scope="module", autouse=True)
def few_ahead() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_AHEAD", 4)
        yield


@pytest.fixture(scope="module")
def alone() -> Report:
    return explore(forgetful, budget=BUDGET)


def findings(report: Report) -> dict[str, Any]:
    """All of a report but the time that it took, with the steps of each failure."""
    tree = report.to_tree()
    del tree["seconds"]
    steps = [one.shown.trace.text() for one in report.failures]
    return {**tree, "steps": steps, "tried": report.tried}


@needs_fork
@pytest.mark.parametrize("jobs", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_any_number_of_processes_finds_the_same_in_the_same_order(jobs: int, alone: Report) -> None:
    assert findings(explore(forgetful, budget=BUDGET, jobs=jobs)) == findings(alone)


@needs_fork
def test_a_plan_has_the_same_outcome_in_a_worker_as_here() -> None:
    explorer = search.Explorer(forgetful)
    assert explorer.reference.played.ok

    def outcome_of_plan(plan: Plan) -> PlanOutcome:
        return explorer.run_plan(plan)[1]

    pool = WorkerPool(outcome_of_plan, 2)
    plans = list(islice(explorer.plans(), 6))
    tickets = [pool.submit(plan) for plan in plans]
    assert [pool.result(one) for one in tickets] == [outcome_of_plan(plan) for plan in plans]
    pool.close()


class Interrupted(Exception):
    """Ctrl-C."""


def interrupt(now: SearchProgress) -> None:
    if now.played == 6:
        raise Interrupted


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=needs_fork)])
def test_an_interrupted_exploration_continues_with_the_same_result(jobs: int, alone: Report, tmp_path: Path) -> None:
    state = tmp_path / "state"
    with pytest.raises(Interrupted):
        explore(forgetful, budget=BUDGET, jobs=jobs, state=state, progress=interrupt)
    noted = state.read_text().splitlines()
    assert len(noted) == 7
    state.write_text("\n".join(noted)[:-10])  # killed while it wrote the last line
    assert findings(explore(forgetful, budget=BUDGET, jobs=jobs, state=state)) == findings(alone)
    finished = state.read_bytes()
    assert len(finished.splitlines()) == BUDGET + 1
    assert findings(explore(forgetful, budget=BUDGET, state=state)) == findings(alone)
    assert state.read_bytes() == finished


def test_a_state_file_of_another_version_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    explore(forgetful, budget=1, state=state)
    state.write_text(state.read_text().replace('"digest": "', '"digest": "0'))
    with pytest.raises(ConfigError, match="have changed since; delete it to start again"):
        explore(forgetful, budget=1, state=state)
    state.write_text("nothing\n")
    with pytest.raises(ConfigError, match="is no state file of an exploration"):
        explore(forgetful, budget=1, state=state)


def test_a_number_of_processes_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="jobs=0: pass the number of processes"):
        explore(forgetful, jobs=0)


def outcome(plan: Plan) -> PlanOutcome:
    return PlanOutcome(plan, rules=(plan.id,))


PLANS = [Plan.parse(f"crash-before:create.ConfigMap/test/a#{number}") for number in range(1, 8)]


@needs_fork
def test_outcomes_are_those_of_their_plans_even_if_a_plan_comes_twice() -> None:
    for runner in (InProcess(outcome), WorkerPool(outcome, 3)):
        tickets = [runner.submit(plan) for plan in [*PLANS, *PLANS]]
        assert [runner.result(one).plan for one in tickets] == [*PLANS, *PLANS]
        runner.close()


@needs_fork
def test_an_error_of_a_worker_names_the_plan() -> None:
    def fail(plan: Plan) -> PlanOutcome:
        raise ValueError(f"cannot run {len(plan)}")

    pool = WorkerPool(fail, 2)
    with pytest.raises(LevelsetError, match=r"crash-before:create.ConfigMap/test/a#1: ValueError: cannot run 1"):
        pool.result(pool.submit(PLANS[0]))
    pool.close()


@needs_fork
def test_a_worker_that_ends_names_the_plan() -> None:
    def end(plan: Plan) -> PlanOutcome:
        os._exit(7)

    pool = WorkerPool(end, 1)
    with pytest.raises(LevelsetError, match=r"exit code 7\) while it ran crash-before:.*run that plan alone"):
        pool.result(pool.submit(PLANS[0]))
    pool.close()
