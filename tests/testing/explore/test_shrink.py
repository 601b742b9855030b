"""The shortest plan that still fails is found, in a fixed order and with a bounded number of runs."""

from levelset.testing.explore.plans import At, Conflict, CrashAfter, Disturbance, Hold, OlderAfterRestart, Plan, Skip
from levelset.testing.explore.run_result import Finding, Played
from levelset.testing.explore.shrink import shrink
from levelset.testing.explore.trace import Trace

FIRST, SECOND, THIRD = Conflict(At("update A/x")), CrashAfter(At("create B/y")), Hold("A", 3)


class Stage:
    """Plays plans: those that hold all of some disturbances break a rule."""

    def __init__(self, *needed: Disturbance, rule: str = "leaked") -> None:
        self.played: list[str] = []
        self._needed = needed
        self._rule = rule

    def play(self, plan: Plan) -> Played:
        self.played.append(plan.id)
        is_broken = all(one in plan.disturbances for one in self._needed)
        return Played(plan, 1, Trace(), (Finding(self._rule, "it broke"),) if is_broken else ())


def test_disturbances_that_do_not_matter_are_left_out() -> None:
    stage = Stage(SECOND)
    assert shrink(stage.play(Plan((FIRST, SECOND, THIRD))), stage.play).plan == Plan((SECOND,))


def test_those_that_matter_only_together_stay_together() -> None:
    stage = Stage(FIRST, THIRD)
    assert shrink(stage.play(Plan((FIRST, SECOND, THIRD))), stage.play).plan == Plan((FIRST, THIRD))


def test_a_weaker_disturbance_is_preferred_if_it_breaks_the_same() -> None:
    at = At("create B/y")
    stage = Stage(CrashAfter(at))
    first = Played(Plan((OlderAfterRestart(at, 3),)), 1, Trace(), (Finding("leaked", "it broke"),))
    assert shrink(first, stage.play).plan == Plan((CrashAfter(at),))


def test_skipped_states_become_held_ones_and_held_ones_shorter() -> None:
    stage = Stage(Hold("A", 2, 1.0))
    first = Played(Plan((Skip("A", 2),)), 1, Trace(), (Finding("leaked", "it broke"),))
    assert shrink(first, stage.play).plan == first.plan  # a Hold of the usual time does not break it
    stage = Stage(Hold("A", 2, 1.0))
    first = Played(Plan((Hold("A", 2, 4.0),)), 1, Trace(), (Finding("leaked", "it broke"),))
    assert shrink(first, stage.play).plan == Plan((Hold("A", 2, 1.0),))


def test_another_failure_is_not_taken_for_this_one() -> None:
    failed = Stage(FIRST, rule="leaked").play(Plan((FIRST, SECOND)))
    assert shrink(failed, Stage(rule="endless loop").play) is failed


def test_no_plan_is_played_twice_and_the_runs_are_bounded() -> None:
    stage = Stage(FIRST, SECOND, THIRD)
    failed = stage.play(Plan((FIRST, SECOND, THIRD)))
    shrink(failed, stage.play)
    assert len(stage.played) == len(set(stage.played))
    stage.played.clear()
    shrink(failed, stage.play, most=2)
    assert len(stage.played) == 2
