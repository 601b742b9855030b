"""The trace of a run: its steps as text, and its digest."""

from levelset.testing.explore.faults.plan import StepName
from levelset.testing.explore.records.trace import Cause, Step, Trace

PATCH = StepName("patch Website/test/blog/status", 2)


def test_a_step_line_has_time_process_name_cause_and_outcome() -> None:
    cause = Cause("websites", "Website/test/blog", 3, reasons=("it has changed",))
    step = Step(7, 1.5, "a.1", "call", PATCH, cause=cause, outcome="200", revision=9, made=1, disturbance="conflict")
    assert step.line().split() == [
        *("7", "1.5000", "a.1", "call", "patch", "Website/test/blog/status#2", "->", "200"),
        *("made", "9", "in", "websites/Website/test/blog#3", "!", "conflict"),
    ]
    assert (step.verb, step.kind, step.has_effect) == ("patch", "Website", True)


def test_a_step_without_a_call_has_its_act_as_verb() -> None:
    step = Step(1, 0.0, "a.1", "event", StepName("event Website/test/blog"), outcome="ADDED", seen=4)
    assert (step.verb, step.kind, step.has_effect) == ("event", "Website", False)


def test_the_digest_changes_with_any_step() -> None:
    one = Trace([Step(1, 0.0, "a.1", "call", PATCH)])
    other = Trace([Step(1, 0.0, "a.2", "call", PATCH)])
    assert one.digest != other.digest
    assert one.digest == Trace(list(one)).digest
    assert len(one.text().splitlines()) == len(one) == 1


def test_a_step_is_found_by_its_name_at_the_start_of_a_reconcile() -> None:
    reconcile = StepName("reconcile websites/Website/test/blog")
    begun, ended = Step(1, 0.0, "a.1", "reconcile", reconcile), Step(2, 0.0, "a.1", "reconciled", reconcile)
    trace = Trace([ended, begun])
    assert trace.find(reconcile) is begun
    assert trace.find(PATCH) is None


def test_writes_are_those_of_controllers() -> None:
    write, read = Step(1, 0.0, "a.1", "call", PATCH, is_write=True), Step(2, 0.0, "a.1", "call", StepName("get A/b"))
    by_user = Step(3, 0.0, "user", "user", PATCH, is_write=True)
    assert Trace([write, read, by_user]).writes() == [write]
