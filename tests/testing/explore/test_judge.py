"""Each rule says what is wrong, where, and what should have been; and says nothing of what is right."""

from typing import Any

import pytest

from levelset.testing.explore.judge import judge
from levelset.testing.explore.plans import At, Conflict, Hold, OlderAfterRestart, Plan
from levelset.testing.explore.run_result import Broken, Change, Ended, Finding, Run
from levelset.testing.explore.trace import Step, Trace

PLAN = Plan((Conflict(At("update Order/test/a")),))
CREATE = At("create ConfigMap/test/a")
THING = '{"kind":"ConfigMap","data":{"x":"1"}}'


def step(number: int, name: At, **more: Any) -> Step:
    return Step(number, float(number), "a.1", "call", name, is_write=True, **more)


def change(revision: int, name: str, by: At | None, **more: Any) -> Change:
    known: dict[str, Any] = {"before": None, "after": f"uid-{revision}", "prefix": "", "process": "a.1", **more}
    return Change(revision, 0.0, ("", "ConfigMap", "test", name), by=by, **known)


def run(*steps: Step, plan: Plan = PLAN, **more: Any) -> Run:
    made = Run(plan, 1, trace=Trace(list(steps)))
    for name, value in more.items():
        setattr(made, name, value)
    return made


baseline = run(step(1, CREATE), plan=Plan(), ends=[{"ConfigMap/test/a": (THING,)}], changes=[change(5, "a", CREATE)])


def only(made: Run, base: Run | None = baseline) -> Finding:
    [found] = judge(made, base)
    return found


def disturbed(**more: Any) -> Run:
    known: dict[str, Any] = {"ends": [{"ConfigMap/test/a": (THING,)}], "changes": [change(5, "a", CREATE)]}
    return run(step(1, CREATE, made=1), **{**known, **more})


def test_a_run_like_the_undisturbed_one_is_right() -> None:
    assert judge(disturbed(), baseline) == ()
    assert judge(baseline) == ()


def test_a_field_that_differs_in_the_end_is_told_with_the_step_that_wrote_it_last() -> None:
    found = only(disturbed(ends=[{"ConfigMap/test/a": (THING.replace("1", "2"),)}]))
    assert (found.rule, found.expected, found.actual) == ("end state", '"1"', '"2"')
    assert "data.x" in found.sentence
    assert found.step is not None
    assert found.step.name == CREATE


def test_any_of_the_undisturbed_ends_will_do() -> None:
    base = run(plan=Plan(), ends=[{}, {"ConfigMap/test/a": (THING,)}], changes=baseline.changes)
    assert judge(disturbed(), base) == ()


@pytest.mark.parametrize(
    ("place", "text", "rule"),
    [
        ("ConfigMap/test/b", THING, "leaked"),
        ("ConfigMap/test/b-~", THING, "created twice"),
        ("ConfigMap/test/b", '{"metadata":{"deletionTimestamp":"<time>"}}', "stuck"),
    ],
)
def test_what_is_left_in_the_end_is_leaked_doubled_or_stuck(place: str, text: str, rule: str) -> None:
    assert only(disturbed(ends=[{"ConfigMap/test/a": (THING,), place: (text,)}])).rule == rule


def test_what_is_missing_in_the_end_is_told() -> None:
    found = only(disturbed(ends=[{}]))
    assert (found.rule, "is not there" in found.sentence) == ("end state", True)


def test_what_is_deleted_although_it_stays_undisturbed_is_lost() -> None:
    gone = change(6, "a", At("delete ConfigMap/test/a"), before="uid-5", after=None)
    again = change(7, "a", CREATE)
    found = only(disturbed(changes=[change(5, "a", CREATE), gone, again]))
    assert (found.rule, found.revision) == ("lost", 6)


def test_what_people_or_the_server_delete_is_not_lost() -> None:
    for process, by in (("people", At("delete ConfigMap/test/a by people")), ("server", None)):
        gone = change(6, "a", by, before="uid-5", after=None, process=process)
        assert judge(disturbed(changes=[change(5, "a", CREATE), gone]), baseline) == ()


def both(plan: Plan) -> Run:
    first, second = (change(number, f"b-{number}", CREATE, prefix="b-") for number in (5, 6))
    gone = change(7, "b-6", CREATE, before="uid-6", after=None, prefix="b-")
    return run(step(1, CREATE), plan=plan, ends=baseline.ends, changes=[first, second, gone])


def test_more_of_a_name_at_once_than_undisturbed_are_made_twice_even_if_one_goes_again() -> None:
    base = run(plan=Plan(), ends=baseline.ends, changes=[change(5, "b-1", CREATE, prefix="b-")])
    found = only(both(PLAN), base)
    assert (found.rule, found.revision, found.actual) == ("created twice", 6, "2")


def test_others_of_a_name_that_say_something_else_are_not_the_same_twice() -> None:
    base = run(plan=Plan(), ends=baseline.ends, changes=[change(5, "b-1", CREATE, prefix="b-", content="1")])
    rolling = [change(number, f"b-{number}", CREATE, prefix="b-", content=str(number)) for number in (1, 2, 3)]
    assert judge(disturbed(changes=rolling), base) == ()


def test_who_was_shown_an_older_state_may_make_too_many_for_a_while() -> None:
    base = run(plan=Plan(), ends=baseline.ends, changes=[change(5, "b-1", CREATE, prefix="b-")])
    assert judge(both(Plan((OlderAfterRestart(CREATE),))), base) == ()


def test_a_write_of_one_that_does_not_lead_is_told_unless_its_controller_runs_everywhere() -> None:
    foreign = change(6, "a", CREATE, before="uid-5", after="uid-5", holder="b.1", controller="orders")
    assert only(disturbed(changes=[foreign], leading=frozenset({"orders"}))).rule == "two leaders"
    assert judge(disturbed(changes=[foreign], leading=frozenset({"others"})), baseline) == ()


def test_changes_after_the_end_are_an_endless_loop_unless_there_are_as_many_undisturbed() -> None:
    assert only(disturbed(late_changes=9)).rule == "endless loop"
    usual = run(step(1, CREATE), plan=Plan(), ends=baseline.ends, changes=baseline.changes, late_changes=9)
    assert judge(disturbed(late_changes=9), usual) == ()


def test_far_more_writes_than_undisturbed_are_too_many_but_not_while_a_cache_stands_still() -> None:
    many = [step(number, At("apply ConfigMap/test/a", number)) for number in range(1, 60)]
    found = only(run(*many, ends=baseline.ends, changes=baseline.changes))
    assert (found.rule, found.actual) == ("too many writes", "59")
    behind = run(*many, plan=Plan((Hold("Order", 1),)), ends=baseline.ends, changes=baseline.changes)
    assert judge(behind, baseline) == ()


def test_a_process_that_ends_by_itself_is_told_with_the_innermost_error() -> None:
    error = ExceptionGroup("all", [ExceptionGroup("inside", [ValueError("bad")])])
    found = only(disturbed(ended=[Ended("a.1", error)]))
    assert (found.rule, found.sentence) == ("crashed", "a.1 has ended by itself: ValueError: bad")


def test_an_invariant_is_a_rule_by_its_own_name_and_comes_first() -> None:
    broken = Broken("no_two", "two of them", change(5, "a", CREATE))
    first, *_ = judge(disturbed(broken=[broken], late_changes=9), baseline)
    assert (first.rule, first.sentence, first.revision) == ("no_two", "two of them", 5)


def test_the_end_says_nothing_if_people_could_not_do_what_they_do() -> None:
    found = only(disturbed(ends=[{}], error=KeyError("x")))
    assert found.rule == "scenario"
