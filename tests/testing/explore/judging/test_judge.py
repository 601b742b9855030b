"""The rules of the judge: each finding with its step and values, and no findings for correct runs."""

from typing import Any

import pytest

from levelset.testing.explore.faults.environment_faults import Outage
from levelset.testing.explore.faults.plan import Conflict, Hold, Plan, StaleRestart, StepName
from levelset.testing.explore.judging.judge import judge
from levelset.testing.explore.records.run_result import BrokenInvariant, Change, EndedProcess, Finding, Run
from levelset.testing.explore.records.trace import Cause, Step, Trace

PLAN = Plan((Conflict(StepName("update Order/test/a")),))
CREATE = StepName("create ConfigMap/test/a")
THING = '{"kind":"ConfigMap","data":{"x":"1"}}'


def step(number: int, name: StepName, **more: Any) -> Step:
    return Step(number, float(number), "a.1", "call", name, is_write=True, **more)


def change(revision: int, name: str, by: StepName | None, **more: Any) -> Change:
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


def test_a_run_like_the_undisturbed_one_has_no_findings() -> None:
    assert judge(disturbed(), baseline) == ()
    assert judge(baseline) == ()


def test_a_field_that_differs_at_the_end_is_reported_with_its_last_write() -> None:
    found = only(disturbed(ends=[{"ConfigMap/test/a": (THING.replace("1", "2"),)}]))
    assert (found.rule, found.expected, found.actual) == ("end state", '"1"', '"2"')
    assert "data.x" in found.sentence
    assert found.step is not None
    assert found.step.name == CREATE


def test_any_undisturbed_end_state_is_accepted() -> None:
    base = run(plan=Plan(), ends=[{}, {"ConfigMap/test/a": (THING,)}], changes=baseline.changes)
    assert judge(disturbed(), base) == ()


@pytest.mark.parametrize(
    ("location", "text", "rule"),
    [
        ("ConfigMap/test/b", THING, "leaked"),
        ("ConfigMap/test/b-~", THING, "created twice"),
        ("ConfigMap/test/b", '{"metadata":{"deletionTimestamp":"<time>"}}', "stuck"),
    ],
)
def test_an_extra_object_at_the_end_is_leaked_created_twice_or_stuck(location: str, text: str, rule: str) -> None:
    assert only(disturbed(ends=[{"ConfigMap/test/a": (THING,), location: (text,)}])).rule == rule


def test_a_missing_object_at_the_end_is_reported() -> None:
    found = only(disturbed(ends=[{}]))
    assert (found.rule, "does not exist" in found.sentence) == ("end state", True)


def test_a_deletion_that_does_not_happen_undisturbed_is_lost() -> None:
    gone = change(6, "a", StepName("delete ConfigMap/test/a"), before="uid-5", after=None)
    found = only(disturbed(changes=[change(5, "a", CREATE), gone]))
    assert (found.rule, found.revision, found.kind) == ("lost", 6, "ConfigMap")


def test_a_child_that_is_deleted_and_created_again_to_recover_is_not_lost() -> None:
    gone = change(6, "a", StepName("delete ConfigMap/test/a"), before="uid-5", after=None)
    changes = [change(5, "a", CREATE), gone, change(7, "a", CREATE)]
    assert judge(disturbed(changes=changes), baseline) == ()
    assert only(disturbed(changes=changes, plan=Plan((Hold("Order", 1),)))).rule == "lost"


def test_a_successor_may_be_created_while_an_object_is_being_deleted() -> None:
    first, second = (change(number, f"b-{number}", CREATE, prefix="b-") for number in (5, 7))
    marked = change(6, "b-5", CREATE, before="uid-5", after="uid-5", prefix="b-", is_deleting=True)
    base = run(step(1, CREATE), plan=Plan(), ends=baseline.ends, changes=[first])
    assert judge(run(step(1, CREATE), ends=baseline.ends, changes=[first, marked, second]), base) == ()
    assert only(run(step(1, CREATE), ends=baseline.ends, changes=[first, second]), base).rule == "created twice"


@pytest.mark.parametrize("allowed", ["leaked", "leaked: ConfigMap"])
def test_a_rule_is_switched_off_by_name_and_by_kind(allowed: str) -> None:
    extra = disturbed(ends=[{"ConfigMap/test/a": (THING,), "ConfigMap/test/b": (THING,)}])
    assert judge(extra, baseline, allowed=[allowed]) == ()
    assert judge(extra, baseline, allowed=["leaked: Secret", "end state"]) != ()


def test_deletions_by_the_user_or_the_server_are_not_lost() -> None:
    for process, by in (("user", StepName("delete ConfigMap/test/a by user")), ("server", None)):
        gone = change(6, "a", by, before="uid-5", after=None, process=process)
        assert judge(disturbed(changes=[change(5, "a", CREATE), gone]), baseline) == ()


def both(plan: Plan) -> Run:
    first, second = (change(number, f"b-{number}", CREATE, prefix="b-") for number in (5, 6))
    gone = change(7, "b-6", CREATE, before="uid-6", after=None, prefix="b-")
    return run(step(1, CREATE), plan=plan, ends=baseline.ends, changes=[first, second, gone])


def test_more_equal_objects_at_once_than_undisturbed_are_created_twice() -> None:
    base = run(plan=Plan(), ends=baseline.ends, changes=[change(5, "b-1", CREATE, prefix="b-")])
    found = only(both(PLAN), base)
    assert (found.rule, found.revision, found.actual) == ("created twice", 6, "2")


def test_objects_with_other_content_are_not_created_twice() -> None:
    base = run(plan=Plan(), ends=baseline.ends, changes=[change(5, "b-1", CREATE, prefix="b-", content="1")])
    rolling = [change(number, f"b-{number}", CREATE, prefix="b-", content=str(number)) for number in (1, 2, 3)]
    assert judge(disturbed(changes=rolling), base) == ()


def test_a_stale_restart_may_create_too_many_for_a_while() -> None:
    base = run(plan=Plan(), ends=baseline.ends, changes=[change(5, "b-1", CREATE, prefix="b-")])
    assert judge(both(Plan((StaleRestart(CREATE),))), base) == ()


def test_a_write_of_a_standby_is_reported_unless_its_controller_runs_everywhere() -> None:
    foreign = change(6, "a", CREATE, before="uid-5", after="uid-5", holder="b.1", controller="orders")
    assert only(disturbed(changes=[foreign], leading=frozenset({"orders"}))).rule == "two leaders"
    assert judge(disturbed(changes=[foreign], leading=frozenset({"others"})), baseline) == ()


def test_two_processes_at_one_shared_object_are_two_actors_unless_the_first_has_ended() -> None:
    cause = Cause("orders", "Order/test/a", 1)

    def acted(number: int, process: str, act: Any, name: str = "reconcile orders/Order/test/a") -> Step:
        return Step(number, float(number), process, act, StepName(name), cause if "reconcile" in act else None)

    def judged(*steps: Step, sharing: frozenset[str] = frozenset({"orders"})) -> list[str]:
        found = disturbed(sharing=sharing)
        found.trace = Trace([*found.trace.steps, *steps])
        return [one.rule for one in judge(found, baseline) if one.rule == "two actors"]

    first, second = acted(91, "a.1", "reconcile"), acted(93, "b.1", "reconcile")
    assert judged(first, second) == ["two actors"]
    assert judged(first, second, sharing=frozenset()) == []
    assert judged(first, acted(92, "a.1", "reconciled"), second) == []
    assert judged(first, acted(92, "a.1", "crash", "crash a"), second) == []
    assert judged(first, acted(92, "a.2", "start", "start a"), second) == []


def test_changes_after_the_end_are_an_endless_loop_unless_there_are_as_many_undisturbed() -> None:
    assert only(disturbed(late_changes=9)).rule == "endless loop"
    usual = run(step(1, CREATE), plan=Plan(), ends=baseline.ends, changes=baseline.changes, late_changes=9)
    assert judge(disturbed(late_changes=9), usual) == ()


def test_far_more_writes_than_undisturbed_are_too_many_unless_caches_are_stale() -> None:
    many = [step(number, StepName("apply ConfigMap/test/a", number)) for number in range(1, 60)]
    found = only(run(*many, ends=baseline.ends, changes=baseline.changes))
    assert (found.rule, found.actual) == ("too many writes", "59")
    behind = run(*many, plan=Plan((Hold("Order", 1),)), ends=baseline.ends, changes=baseline.changes)
    assert judge(behind, baseline) == ()


def test_a_process_that_ends_by_itself_is_reported_with_the_innermost_error() -> None:
    error = ExceptionGroup("all", [ExceptionGroup("inside", [ValueError("bad")])])
    found = only(disturbed(ended=[EndedProcess("a.1", error)]))
    assert (found.rule, found.sentence) == ("crashed", "a.1 ended by itself: ValueError: bad")


def test_an_invariant_is_a_rule_by_its_own_name_and_comes_first() -> None:
    broken = BrokenInvariant("no_two", "two of them", change(5, "a", CREATE))
    first, *_ = judge(disturbed(broken=[broken], late_changes=9), baseline)
    assert (first.rule, first.sentence, first.revision) == ("no_two", "two of them", 5)


def test_the_end_state_is_not_compared_if_the_scenario_failed() -> None:
    found = only(disturbed(ends=[{}], error=KeyError("x")))
    assert found.rule == "scenario"


@pytest.mark.parametrize(("made", "rules"), [(0, []), (1, ["too many writes"])])
def test_writes_without_effect_in_an_outage_are_not_too_many(made: int, rules: list[str]) -> None:
    name = StepName("apply ConfigMap/test/a")
    steps = [step(number, StepName(name.action, number), outcome="200", made=made) for number in range(1, 100)]
    tried = run(*steps, plan=Plan((Outage(name, "409"),)), ends=baseline.ends, changes=baseline.changes)
    assert [one.rule for one in judge(tried, baseline)] == rules
