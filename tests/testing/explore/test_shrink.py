"""Shrinking finds the shortest failing plan, in a fixed order and with a bounded number of runs."""

from levelset.testing.explore.faults.plan import (
    Conflict,
    CrashAfter,
    Disturbance,
    Hold,
    Plan,
    Relist,
    StaleRestart,
    StepName,
)
from levelset.testing.explore.records.run_result import Finding, RunResult
from levelset.testing.explore.records.trace import Trace
from levelset.testing.explore.shrink import shrink

FIRST, SECOND, THIRD = Conflict(StepName("update A/x")), CrashAfter(StepName("create B/y")), Hold("A", 3)


class FakeExplorer:
    """Runs plans: those with all of the needed disturbances break a rule."""

    def __init__(self, *needed: Disturbance, rule: str = "leaked") -> None:
        self.played: list[str] = []
        self._needed = needed
        self._rule = rule

    def play(self, plan: Plan) -> RunResult:
        self.played.append(plan.id)
        is_broken = all(one in plan.disturbances for one in self._needed)
        return RunResult(plan, 1, Trace(), (Finding(self._rule, "it broke"),) if is_broken else ())


def test_irrelevant_disturbances_are_removed() -> None:
    explorer = FakeExplorer(SECOND)
    assert shrink(explorer.play(Plan((FIRST, SECOND, THIRD))), explorer.play).plan == Plan((SECOND,))


def test_disturbances_that_fail_only_together_are_kept() -> None:
    explorer = FakeExplorer(FIRST, THIRD)
    assert shrink(explorer.play(Plan((FIRST, SECOND, THIRD))), explorer.play).plan == Plan((FIRST, THIRD))


def test_a_weaker_disturbance_is_preferred_if_it_breaks_the_same() -> None:
    at = StepName("create B/y")
    explorer = FakeExplorer(CrashAfter(at))
    first = RunResult(Plan((StaleRestart(at, 3),)), 1, Trace(), (Finding("leaked", "it broke"),))
    assert shrink(first, explorer.play).plan == Plan((CrashAfter(at),))


def test_a_relist_becomes_a_hold_and_holds_become_shorter() -> None:
    explorer = FakeExplorer(Hold("A", 2, 1.0))
    first = RunResult(Plan((Relist("A", 2),)), 1, Trace(), (Finding("leaked", "it broke"),))
    assert shrink(first, explorer.play).plan == first.plan  # a Hold of the usual time does not break it
    explorer = FakeExplorer(Hold("A", 2, 1.0))
    first = RunResult(Plan((Hold("A", 2, 4.0),)), 1, Trace(), (Finding("leaked", "it broke"),))
    assert shrink(first, explorer.play).plan == Plan((Hold("A", 2, 1.0),))


def test_a_plan_with_another_failure_is_not_accepted() -> None:
    failed = FakeExplorer(FIRST, rule="leaked").play(Plan((FIRST, SECOND)))
    assert shrink(failed, FakeExplorer(rule="endless loop").play) is failed


def test_no_plan_runs_twice_and_the_runs_are_bounded() -> None:
    explorer = FakeExplorer(FIRST, SECOND, THIRD)
    failed = explorer.play(Plan((FIRST, SECOND, THIRD)))
    shrink(failed, explorer.play)
    assert len(explorer.played) == len(set(explorer.played))
    explorer.played.clear()
    shrink(failed, explorer.play, most=2)
    assert len(explorer.played) == 2
