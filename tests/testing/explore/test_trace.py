"""A trace reads like a protocol, and its digest stands for it."""

from levelset.testing.explore.plans import At
from levelset.testing.explore.trace import Cause, Step, Trace

PATCH = At("patch Website/test/blog/status", 2)


def test_a_step_says_who_did_what_when_why_and_what_came_of_it() -> None:
    cause = Cause("websites", "Website/test/blog", 3, reasons=("it has changed",))
    step = Step(7, 1.5, "a.1", "call", PATCH, cause=cause, outcome="200", revision=9, made=1, disturbance="conflict")
    assert step.line().split() == [
        *("7", "1.5000", "a.1", "call", "patch", "Website/test/blog/status#2", "->", "200"),
        *("made", "9", "in", "websites/Website/test/blog#3", "!", "conflict"),
    ]
    assert (step.verb, step.kind, step.has_effect) == ("patch", "Website", True)


def test_a_step_that_calls_nobody_has_its_act_as_verb() -> None:
    step = Step(1, 0.0, "a.1", "event", At("event Website/test/blog"), outcome="ADDED", seen=4)
    assert (step.verb, step.kind, step.has_effect) == ("event", "Website", False)


def test_the_digest_changes_with_any_step() -> None:
    one = Trace([Step(1, 0.0, "a.1", "call", PATCH)])
    other = Trace([Step(1, 0.0, "a.2", "call", PATCH)])
    assert one.digest != other.digest
    assert one.digest == Trace(list(one)).digest
    assert len(one.text().splitlines()) == len(one) == 1


def test_a_step_is_found_by_its_name_and_the_end_of_a_look_is_not_its_beginning() -> None:
    look = At("look websites/Website/test/blog")
    begun, ended = Step(1, 0.0, "a.1", "look", look), Step(2, 0.0, "a.1", "looked", look)
    trace = Trace([ended, begun])
    assert trace.find(look) is begun
    assert trace.find(PATCH) is None


def test_writes_are_what_controllers_sent() -> None:
    write, read = Step(1, 0.0, "a.1", "call", PATCH, is_write=True), Step(2, 0.0, "a.1", "call", At("get A/b"))
    people = Step(3, 0.0, "people", "people", PATCH, is_write=True)
    assert Trace([write, read, people]).writes() == [write]
