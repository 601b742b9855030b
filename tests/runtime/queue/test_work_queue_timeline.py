"""The rules of the timeline, one by one."""

import math
from typing import Any

import pytest

from levelset.runtime.queue import LOW, NORMAL, WorkQueue

DAY = 86400.0


def timeline(*, debounce: float = 0.0, age: float = 30.0, most_reasons: int = 8) -> WorkQueue[str, str]:
    return WorkQueue(debounce=debounce, age=age, most_reasons=most_reasons)


def filled(*keys: str, now: float = 0.0) -> WorkQueue[str, str]:
    line = timeline()
    for key in keys:
        line.add(key, at=now, now=now)
    return line


def taken(line: WorkQueue[str, str], now: float = 0.0) -> str | None:
    due = line.take(now)
    return None if due is None else due.key


def drained(line: WorkQueue[str, str], now: float) -> list[str]:
    keys: list[str] = []
    while (key := taken(line, now)) is not None:
        keys.append(key)
    return keys


def test_many_requests_for_a_key_are_taken_once() -> None:
    line = filled("a", "a", "a")
    assert (len(line), line.ready) == (1, 1)
    assert drained(line, 0.0) == ["a"]


def test_adding_says_whether_the_request_is_new() -> None:
    line = timeline()
    assert line.add("a", at=0.0, now=0.0)
    assert not line.add("a", at=0.0, now=0.0)
    line.take(0.0)
    assert line.add("a", at=0.0, now=0.0)
    assert not line.add("a", at=0.0, now=0.0)


def test_keys_come_in_the_order_in_which_they_became_ready() -> None:
    line = filled("c", "a")
    line.add("late", at=2.0, now=0.0)
    line.add("early", at=1.0, now=0.0)
    assert drained(line, 0.5) == ["c", "a"]
    line.add("now", at=3.0, now=3.0)
    assert drained(line, 3.0) == ["early", "late", "now"]


def test_a_running_key_is_held_until_it_is_done() -> None:
    line = filled("a")
    assert taken(line) == "a"
    line.add("a", at=1.0, now=1.0)
    assert (taken(line, 1.0), len(line), line.ready, line.held, line.running) == (None, 1, 0, 1, 1)
    line.done("a", 5.0)
    due = line.take(5.0)
    assert due is not None
    assert (due.key, due.since, due.added) == ("a", 5.0, 1.0)


def test_requests_while_a_key_runs_become_one_more_run() -> None:
    line = filled("a")
    line.take(0.0)
    for _ in range(5):
        line.add("a", at=0.0, now=0.0)
    line.done("a", 0.0)
    assert drained(line, 0.0) == ["a"]
    line.done("a", 0.0)
    assert drained(line, 0.0) == []


def test_a_held_key_does_not_block_those_behind_it() -> None:
    line = filled("a")
    line.take(0.0)
    line.add("a", at=0.0, now=0.0)
    line.add("b", at=0.0, now=0.0)
    assert drained(line, 0.0) == ["b"]
    line.done("a", 0.0)
    assert drained(line, 0.0) == ["a"]


def test_a_key_that_is_done_goes_behind_those_that_are_ready() -> None:
    line = filled("a", "b")
    line.take(0.0)
    line.add("a", at=0.0, now=0.0)
    line.done("a", 1.0)
    assert drained(line, 1.0) == ["b", "a"]


def test_a_delayed_request_for_a_running_key_waits_for_its_time_after_it_is_done() -> None:
    line = filled("a")
    line.take(0.0)
    line.add("a", at=10.0, now=0.0)
    line.done("a", 1.0)
    assert (taken(line, 9.9), line.next_at(9.9), line.delayed) == (None, 10.0, 1)
    assert taken(line, 10.0) == "a"


def test_a_key_that_has_ended_is_done_before_the_next_is_taken() -> None:
    line = filled("a", "b")
    assert taken(line) == "a"
    due = line.take(1.0, "a")
    assert (due and due.key, line.running_keys(), line.keys()) == ("b", ["b"], [])
    assert (line.take(2.0, "b"), line.running, len(line)) == (None, 0, 0)


def test_what_was_held_for_a_key_that_has_ended_is_taken_in_its_turn() -> None:
    line = filled("a", "b")
    assert taken(line) == "a"
    line.add("a", at=0.0, now=0.0, reason="again")
    assert [due and due.key for due in (line.take(1.0, "a"), line.take(1.0, "b"))] == ["b", "a"]
    assert (line.held, line.running_keys()) == (0, ["a"])


@pytest.mark.parametrize("key", ["a", "unknown"])
def test_a_key_that_does_not_run_cannot_have_ended(key: str) -> None:
    line = filled("a", "b")
    with pytest.raises(ValueError, match="is not running"):
        line.take(0.0, key)
    assert drained(line, 0.0) == ["a", "b"]


def test_a_key_that_is_not_running_cannot_be_done() -> None:
    line = filled("a")
    with pytest.raises(ValueError, match="a is not running"):
        line.done("a", 0.0)
    assert taken(line) == "a"
    line.done("a", 0.0)
    with pytest.raises(ValueError, match="a is not running"):
        line.done("a", 0.0)


def test_delayed_keys_do_not_count_as_ready() -> None:
    line = timeline()
    line.add("a", at=5.0, now=0.0)
    assert (line.ready, line.delayed, len(line), line.keys()) == (0, 1, 1, ["a"])


def test_a_delayed_key_comes_at_its_time_and_not_before() -> None:
    line = timeline()
    line.add("a", at=5.0, now=0.0)
    assert taken(line, 4.999) is None
    due = line.take(5.5)
    assert due is not None
    assert (due.since, due.added) == (5.0, 0.0)


def test_of_two_delays_the_earlier_is_kept() -> None:
    line = timeline()
    line.add("a", at=3.0, now=0.0)
    line.add("a", at=9.0, now=0.0)
    line.add("b", at=9.0, now=0.0)
    line.add("b", at=4.0, now=0.0)
    assert drained(line, 3.0) == ["a"]
    assert drained(line, 4.0) == ["b"]
    line.done("a", 4.0)
    line.done("b", 4.0)
    assert (drained(line, 99.0), len(line)) == ([], 0)


def test_an_immediate_request_for_a_delayed_key_is_taken_now_and_once() -> None:
    line = timeline()
    line.add("a", at=60.0, now=0.0)
    line.add("a", at=1.0, now=1.0)
    assert drained(line, 1.0) == ["a"]
    line.done("a", 1.0)
    assert drained(line, 99.0) == []


def test_a_taken_key_can_be_asked_for_again() -> None:
    line = filled("a")
    assert taken(line) == "a"
    line.done("a", 0.0)
    line.add("a", at=5.0, now=1.0)
    assert taken(line, 5.0) == "a"


def test_a_merged_request_has_the_reasons_of_both_each_once_in_order() -> None:
    line = timeline()
    for reason in ["created", "changed", "created", None, "child"]:
        line.add("a", at=0.0, now=0.0, reason=reason)
    due = line.take(0.0)
    assert due is not None
    assert due.reasons == ("created", "changed", "child")


def test_an_earlier_request_does_not_lose_the_reasons_of_the_later_one() -> None:
    line = timeline()
    line.add("a", at=9.0, now=0.0, reason="retry")
    line.add("a", at=0.0, now=0.0, reason="changed")
    line.add("a", at=5.0, now=0.0, reason="bulk")
    due = line.take(0.0)
    assert due is not None
    assert due.reasons == ("retry", "changed", "bulk")


def test_only_the_first_reasons_are_kept() -> None:
    line: WorkQueue[str, int] = WorkQueue(most_reasons=3)
    for reason in range(100):
        line.add("a", at=0.0, now=0.0, reason=reason)
    due = line.take(0.0)
    assert due is not None
    assert due.reasons == (0, 1, 2)


def test_a_request_that_was_taken_does_not_change_any_more() -> None:
    line = filled("a")
    due = line.take(0.0)
    line.add("a", at=0.0, now=3.0, priority=7, reason="later")
    assert due is not None
    assert (due.priority, due.reasons, due.since) == (0, (), 0.0)


def test_the_highest_priority_comes_first() -> None:
    line = timeline()
    for key, priority in [("low", -1), ("normal", 0), ("high", 5), ("high too", 5)]:
        line.add(key, at=0.0, now=0.0, priority=priority)
    assert drained(line, 0.0) == ["high", "high too", "normal", "low"]


def test_a_request_never_lowers_the_priority() -> None:
    line = timeline()
    line.add("a", at=0.0, now=0.0, priority=3)
    line.add("b", at=0.0, now=0.0, priority=1)
    line.add("a", at=0.0, now=0.0, priority=0)
    assert drained(line, 0.0) == ["a", "b"]


def test_a_raised_key_goes_behind_its_new_peers() -> None:
    line = timeline()
    line.add("raised", at=0.0, now=0.0, priority=LOW)
    line.add("a", at=0.0, now=0.0)
    line.add("b", at=0.0, now=0.0)
    line.add("raised", at=0.0, now=0.0)
    line.add("c", at=0.0, now=0.0)
    assert line.depths() == {0: 4}
    assert drained(line, 0.0) == ["a", "b", "raised", "c"]


def test_a_high_priority_key_that_becomes_due_overtakes_ready_low_ones() -> None:
    line = timeline()
    line.add("high", at=1.0, now=0.0, priority=5)
    line.add("low", at=0.0, now=0.0)
    line.add("low too", at=0.0, now=0.0)
    assert taken(line, 0.0) == "low"
    assert drained(line, 1.0) == ["high", "low too"]


def test_a_delayed_key_can_be_raised() -> None:
    line = timeline()
    line.add("a", at=5.0, now=0.0, priority=LOW)
    line.add("a", at=9.0, now=0.0, priority=3)
    line.add("b", at=5.0, now=5.0)
    assert drained(line, 5.0) == ["a", "b"]


def test_a_key_that_has_waited_long_gets_every_second_turn() -> None:
    line = timeline(age=30.0)
    for key in ["old 1", "old 2"]:
        line.add(key, at=0.0, now=0.0, priority=LOW)
    for key in ["new 1", "new 2", "new 3"]:
        line.add(key, at=30.0, now=30.0)
    assert taken(line, 29.9) == "new 1"
    assert drained(line, 30.0) == ["old 1", "new 2", "old 2", "new 3"]


def test_nothing_starves_under_a_flood_of_higher_priorities() -> None:
    line = timeline(age=10.0)
    line.add("humble", at=0.0, now=0.0, priority=LOW)
    for second in range(12):
        line.add(f"proud {second}", at=float(second), now=float(second), priority=9)
        line.add(f"prouder {second}", at=float(second), now=float(second), priority=10)
        if taken(line, float(second)) == "humble":
            break
    assert second <= 11


def test_of_several_aged_keys_the_oldest_goes_first() -> None:
    line = timeline(age=5.0)
    line.add("younger", at=1.0, now=1.0, priority=-1)
    line.add("older", at=0.0, now=0.0, priority=-2)
    line.add("fresh", at=9.0, now=9.0)
    assert drained(line, 9.0) == ["older", "fresh", "younger"]


def test_debounce_keeps_the_time_that_the_first_trigger_set() -> None:
    line = timeline(debounce=1.0)
    line.add("a", at=0.0, now=0.0, reason="first")
    line.add("a", at=0.3, now=0.3, reason="second")
    assert (taken(line, 0.99), line.next_at(0.99)) == (None, 1.0)
    due = line.take(1.0)
    assert due is not None
    assert due.reasons == ("first", "second")
    line.done("a", 1.1)
    line.add("a", at=1.2, now=1.2)
    assert (taken(line, 2.19), taken(line, 2.2)) == (None, "a")


def test_debounce_never_puts_off_for_ever() -> None:
    line = timeline(debounce=1.0)
    runs = 0
    for tick in range(100):
        line.add("a", at=tick / 10, now=tick / 10)
        if taken(line, tick / 10) == "a":
            runs += 1
            line.done("a", tick / 10)
    assert runs == 9


def test_an_explicit_delay_is_not_debounced_and_wins_when_earlier() -> None:
    line = timeline(debounce=1.0)
    line.add("a", at=0.0, now=0.0)
    line.add("a", at=0.2, now=0.0)
    line.add("b", at=5.0, now=0.0)
    assert drained(line, 0.2) == ["a"]
    assert (drained(line, 4.9), drained(line, 5.0)) == ([], ["b"])


def test_a_trigger_during_a_run_that_outlasts_the_debounce_is_due_when_it_is_done() -> None:
    line = timeline(debounce=1.0)
    line.add("a", at=0.0, now=0.0)
    assert taken(line, 1.0) == "a"
    line.add("a", at=1.5, now=1.5)
    assert line.is_superseded("a", 1.5)
    line.done("a", 9.0)
    assert taken(line, 9.0) == "a"


@pytest.mark.parametrize("at", [math.nan, math.inf, -math.inf])
def test_a_time_that_is_not_finite_is_refused(at: float) -> None:
    line = timeline()
    with pytest.raises(ValueError, match="cannot schedule at"):
        line.add("a", at=at, now=0.0)
    assert len(line) == 0


@pytest.mark.parametrize("at", [181 * DAY, 1e300])
def test_a_time_too_far_off_is_cut(at: float) -> None:
    line = timeline()
    line.add("a", at=at, now=5.0)
    assert line.next_at(5.0) == 180 * DAY + 5.0


@pytest.mark.parametrize(
    ("debounce", "age", "most"), [(-1.0, 1.0, 1), (math.nan, 1.0, 1), (0.0, 0.0, 1), (0.0, 1.0, 0)]
)
def test_options_that_make_no_sense_are_refused(debounce: float, age: float, most: int) -> None:
    with pytest.raises(ValueError, match="WorkQueue"):
        timeline(debounce=debounce, age=age, most_reasons=most)


def test_a_time_in_the_past_means_now() -> None:
    line = timeline()
    line.add("a", at=-5.0, now=3.0)
    due = line.take(3.0)
    assert due is not None
    assert due.since == 3.0


def test_a_clock_that_goes_back_loses_nothing() -> None:
    line = filled("a", now=100.0)
    line.add("b", at=110.0, now=100.0)
    line.add("c", at=50.0, now=50.0)
    assert drained(line, 10.0) == ["a", "c"]
    line.add("a", at=10.0, now=10.0)
    line.done("a", 10.0)
    assert drained(line, 10.0) == ["a"]
    assert drained(line, 110.0) == ["b"]


def test_a_request_can_be_taken_back_wherever_it_waits() -> None:
    line = filled("running", "ready")
    line.take(0.0)
    line.add("running", at=0.0, now=0.0)
    line.add("delayed", at=5.0, now=0.0)
    assert [line.cancel(key) for key in ["running", "ready", "delayed", "unknown"]] == [True, True, True, False]
    assert not line.cancel("running")
    assert (len(line), line.keys(), line.running_keys(), line.next_at(0.0)) == (0, [], ["running"], None)
    line.done("running", 0.0)
    assert drained(line, 99.0) == []


def test_everything_that_waits_can_be_taken_back_at_once() -> None:
    line = filled("running", "ready")
    line.take(0.0)
    line.add("running", at=0.0, now=0.0)
    line.add("delayed", at=5.0, now=0.0)
    assert sorted(line.clear()) == ["delayed", "ready", "running"]
    assert (len(line), line.running) == (0, 1)


def test_what_is_delayed_can_be_taken_back_alone() -> None:
    line = filled("ready")
    line.add("delayed", at=5.0, now=0.0)
    assert line.drop_delayed() == ["delayed"]
    assert drained(line, 9.0) == ["ready"]


def test_a_running_key_is_superseded_when_a_newer_request_is_held() -> None:
    line = filled("a", "b")
    assert not line.is_superseded("a", 0.0)
    line.take(0.0)
    assert not line.is_superseded("a", 0.0)
    line.add("a", at=0.0, now=0.0)
    assert line.is_superseded("a", 0.0)


def test_a_request_for_much_later_does_not_supersede() -> None:
    line = filled("a")
    line.take(0.0)
    line.add("a", at=600.0, now=0.0)
    assert not line.is_superseded("a", 0.0)


def test_the_next_time_is_now_when_something_is_ready() -> None:
    line = timeline()
    assert line.next_at(0.0) is None
    line.add("a", at=5.0, now=0.0)
    assert (line.next_at(1.0), line.next_at(7.0)) == (5.0, 7.0)
    line.take(7.0)
    line.add("a", at=8.0, now=7.0)
    assert line.next_at(7.0) is None


def test_depths_are_counted_by_priority_and_never_negative() -> None:
    line = filled("a", "b")
    line.add("c", at=0.0, now=0.0, priority=LOW)
    assert line.depths() == {0: 2, LOW: 1}
    line.add("c", at=0.0, now=0.0, priority=4)
    line.cancel("a")
    assert line.depths() == {4: 1, 0: 1}
    drained(line, 0.0)
    assert line.depths() == {}


def test_nothing_is_left_of_a_key_that_is_done() -> None:
    line = timeline()
    for number in range(1000):
        key = str(number)
        line.add(key, at=0.0, now=0.0, priority=number % 40)
        line.take(0.0)
        line.done(key, 0.0)
    assert (line._entries, len(line._levels) <= 17, len(line._agenda)) == ({}, True, 0)


def test_keys_that_leave_their_place_early_do_not_pile_up() -> None:
    line = timeline()
    for number in range(2000):
        line.add("often expedited", at=number + 600.0, now=float(number))
        line.add("often expedited", at=float(number), now=float(number))
        line.take(float(number))
        line.done("often expedited", float(number))
        line.add("often cancelled", at=0.0, now=0.0)
        line.cancel("often cancelled")
    assert len(line) == 0
    assert len(line._agenda) <= 130
    assert sum(len(queue) for queue in line._levels) <= 130


def test_a_request_shows_what_it_is_for() -> None:
    line = timeline()
    line.add("a", at=0.0, now=0.0, reason="changed")
    assert repr(line.take(0.0)) == "<Due a: priority 0, since 0.0, ['changed']>"


def test_keys_of_a_crowd_that_run_are_held_and_an_urgent_crowd_overtakes() -> None:
    line: WorkQueue[str, str] = WorkQueue()
    line.ask_all(["a", "b"], 0.0, LOW, "list")
    assert taken(line, 0.0) == "a"
    assert line.ask_all(["a", "d", "b", "c"], 1.0, NORMAL, "change") == 3
    assert (line.held, [taken(line, 1.0) for _ in range(4)]) == (1, ["d", "b", "c", None])


def test_of_a_crowd_with_a_key_that_is_none_those_before_it_are_asked_for() -> None:
    line: WorkQueue[Any, str] = WorkQueue()
    line.ask("a", 0.0, LOW, "list")
    with pytest.raises(TypeError):
        line.ask_all(["a", "b", [], "c"], 1.0, NORMAL, "change")
    assert ([taken(line, 1.0) for _ in range(3)], line.running, line.ready) == (["a", "b", None], 2, 0)


def test_a_crowd_finds_its_level_also_if_that_was_swept_out_meanwhile() -> None:
    line: WorkQueue[str, str] = WorkQueue()
    line.add("later", at=9.0, now=0.0, priority=99)
    for level in range(15):  # with one more as many as are kept, all of them empty
        line.ask(str(level), 0.0, level, "change")
        line.take(0.0)
    assert line.ask_all(["later", "b", "c"], 1.0, 50, "change") == 2
    assert (line.depths(), [taken(line, 1.0) for _ in range(4)]) == ({99: 1, 50: 2}, ["later", "b", "c", None])


def test_ended_and_next_in_one_step_says_when_a_key_does_not_run() -> None:
    line: WorkQueue[str, str] = WorkQueue()
    line.ask_all(["a", "b"], 0.0, NORMAL, "change")
    with pytest.raises(ValueError, match="a is not running"):
        line.take(0.0, "a")
    with pytest.raises(ValueError, match="z is not running"):
        line.take(0.0, "z")
    assert (line.ready, line.running, [taken(line, 0.0) for _ in range(3)]) == (2, 0, ["a", "b", None])
