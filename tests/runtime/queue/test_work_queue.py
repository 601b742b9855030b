"""The rules of the work queue, one by one."""

import math
import random
from itertools import permutations
from typing import Any

import pytest

from levelset.runtime.queue import LOW, NORMAL, WorkQueue

DAY = 86400.0


def make_queue(*, debounce: float = 0.0, age: float = 30.0, max_reasons: int = 8) -> WorkQueue[str, str]:
    return WorkQueue(debounce=debounce, age=age, max_reasons=max_reasons)


def filled(*keys: str, now: float = 0.0) -> WorkQueue[str, str]:
    queue = make_queue()
    for key in keys:
        queue.add(key, at=now, now=now)
    return queue


def taken(queue: WorkQueue[str, str], now: float = 0.0) -> str | None:
    due = queue.take(now)
    return None if due is None else due.key


def drained(queue: WorkQueue[str, str], now: float) -> list[str]:
    keys: list[str] = []
    while (key := taken(queue, now)) is not None:
        keys.append(key)
    return keys


def test_many_requests_for_a_key_are_merged_into_one() -> None:
    queue = filled("a", "a", "a")
    assert (len(queue), queue.ready) == (1, 1)
    assert drained(queue, 0.0) == ["a"]


def test_add_returns_whether_the_request_is_new() -> None:
    queue = make_queue()
    assert queue.add("a", at=0.0, now=0.0)
    assert not queue.add("a", at=0.0, now=0.0)
    queue.take(0.0)
    assert queue.add("a", at=0.0, now=0.0)
    assert not queue.add("a", at=0.0, now=0.0)


def test_keys_are_taken_in_the_order_in_which_they_became_ready() -> None:
    queue = filled("c", "a")
    queue.add("late", at=2.0, now=0.0)
    queue.add("early", at=1.0, now=0.0)
    assert drained(queue, 0.5) == ["c", "a"]
    queue.add("now", at=3.0, now=3.0)
    assert drained(queue, 3.0) == ["early", "late", "now"]


def test_a_running_key_is_held_until_it_is_done() -> None:
    queue = filled("a")
    assert taken(queue) == "a"
    queue.add("a", at=1.0, now=1.0)
    assert (taken(queue, 1.0), len(queue), queue.ready, queue.held, queue.running) == (None, 1, 0, 1, 1)
    queue.done("a", 5.0)
    due = queue.take(5.0)
    assert due is not None
    assert (due.key, due.since, due.added) == ("a", 5.0, 1.0)


def test_requests_while_a_key_runs_become_one_more_run() -> None:
    queue = filled("a")
    queue.take(0.0)
    for _ in range(5):
        queue.add("a", at=0.0, now=0.0)
    queue.done("a", 0.0)
    assert drained(queue, 0.0) == ["a"]
    queue.done("a", 0.0)
    assert drained(queue, 0.0) == []


def test_a_held_key_does_not_block_those_behind_it() -> None:
    queue = filled("a")
    queue.take(0.0)
    queue.add("a", at=0.0, now=0.0)
    queue.add("b", at=0.0, now=0.0)
    assert drained(queue, 0.0) == ["b"]
    queue.done("a", 0.0)
    assert drained(queue, 0.0) == ["a"]


def test_a_key_that_is_done_goes_behind_those_that_are_ready() -> None:
    queue = filled("a", "b")
    queue.take(0.0)
    queue.add("a", at=0.0, now=0.0)
    queue.done("a", 1.0)
    assert drained(queue, 1.0) == ["b", "a"]


def test_a_delayed_request_for_a_running_key_waits_for_its_time_after_it_is_done() -> None:
    queue = filled("a")
    queue.take(0.0)
    queue.add("a", at=10.0, now=0.0)
    queue.done("a", 1.0)
    assert (taken(queue, 9.9), queue.next_at(9.9), queue.delayed) == (None, 10.0, 1)
    assert taken(queue, 10.0) == "a"


def test_a_key_that_is_done_goes_behind_delayed_ones_whose_time_has_come() -> None:
    queue = filled("a")
    assert taken(queue) == "a"
    queue.add("b", at=1.0, now=0.0)
    queue.add("a", at=0.0, now=0.0)
    queue.done("a", 2.0)
    assert drained(queue, 2.0) == ["b", "a"]


def test_a_request_held_for_a_key_that_is_done_is_queued_in_order() -> None:
    queue = filled("a", "b")
    assert taken(queue) == "a"
    queue.add("a", at=0.0, now=0.0, reason="again")
    queue.done("a", 1.0)
    assert drained(queue, 1.0) == ["b", "a"]
    assert (queue.held, queue.running_keys()) == (0, ["b", "a"])


def test_a_key_that_is_not_running_cannot_be_done() -> None:
    queue = filled("a")
    with pytest.raises(ValueError, match="a is not running"):
        queue.done("a", 0.0)
    assert taken(queue) == "a"
    queue.done("a", 0.0)
    with pytest.raises(ValueError, match="a is not running"):
        queue.done("a", 0.0)


def test_delayed_keys_do_not_count_as_ready() -> None:
    queue = make_queue()
    queue.add("a", at=5.0, now=0.0)
    assert (queue.ready, queue.delayed, len(queue), queue.keys()) == (0, 1, 1, ["a"])


def test_a_delayed_key_is_taken_at_its_time_and_not_before() -> None:
    queue = make_queue()
    queue.add("a", at=5.0, now=0.0)
    assert taken(queue, 4.999) is None
    due = queue.take(5.5)
    assert due is not None
    assert (due.since, due.added) == (5.0, 0.0)


def test_of_two_delays_the_earlier_wins() -> None:
    queue = make_queue()
    queue.add("a", at=3.0, now=0.0)
    queue.add("a", at=9.0, now=0.0)
    queue.add("b", at=9.0, now=0.0)
    queue.add("b", at=4.0, now=0.0)
    assert drained(queue, 3.0) == ["a"]
    assert drained(queue, 4.0) == ["b"]
    queue.done("a", 4.0)
    queue.done("b", 4.0)
    assert (drained(queue, 99.0), len(queue)) == ([], 0)


def test_an_immediate_request_for_a_delayed_key_is_taken_now_and_once() -> None:
    queue = make_queue()
    queue.add("a", at=60.0, now=0.0)
    queue.add("a", at=1.0, now=1.0)
    assert drained(queue, 1.0) == ["a"]
    queue.done("a", 1.0)
    assert drained(queue, 99.0) == []


def test_a_running_key_can_be_enqueued_again() -> None:
    queue = filled("a")
    assert taken(queue) == "a"
    queue.done("a", 0.0)
    queue.add("a", at=5.0, now=1.0)
    assert taken(queue, 5.0) == "a"


def test_a_merged_request_has_the_reasons_of_both_each_once_in_order() -> None:
    queue = make_queue()
    for reason in ["created", "changed", "created", None, "child"]:
        queue.add("a", at=0.0, now=0.0, reason=reason)
    due = queue.take(0.0)
    assert due is not None
    assert due.reasons == ("created", "changed", "child")


@pytest.mark.parametrize("debounce", [0.0, 1.0])
@pytest.mark.parametrize("is_running", [False, True])
@pytest.mark.parametrize("order", list(permutations(["timer", "changed", "sooner"])))
def test_a_timer_that_an_earlier_request_replaces_is_no_reason(
    debounce: float, is_running: bool, order: tuple[str, ...]
) -> None:
    queue = make_queue(debounce=debounce)
    if is_running:
        queue.add("a", at=0.0, now=0.0)
        queue.take(debounce)
    for reason in order:
        at = {"timer": 900.0, "changed": 2.0, "sooner": 300.0}[reason]
        queue.add("a", at=at, now=2.0, reason=reason)
    if is_running:
        queue.done("a", 2.0)
    due = queue.take(2.0 + debounce)
    assert due is not None
    assert (due.reasons, due.since) == (("changed",), 2.0 + debounce)


def test_of_two_timers_the_earlier_one_is_the_reason() -> None:
    for times in ((9.0, 5.0), (5.0, 9.0)):
        queue = make_queue()
        for at in times:
            queue.add("a", at=at, now=0.0, reason=f"at {at:g}")
        due = queue.take(10.0)
        assert due is not None
        assert due.reasons == ("at 5",)


def test_a_timer_whose_time_has_come_is_a_reason_beside_a_change() -> None:
    queue = make_queue()
    queue.add("a", at=5.0, now=0.0, reason="requeued")
    queue.add("a", at=6.0, now=6.0, reason="changed")
    due = queue.take(6.0)
    assert due is not None
    assert due.reasons == ("requeued", "changed")


def test_only_the_first_reasons_are_retained() -> None:
    queue: WorkQueue[str, int] = WorkQueue(max_reasons=3)
    for reason in range(100):
        queue.add("a", at=0.0, now=0.0, reason=reason)
    due = queue.take(0.0)
    assert due is not None
    assert due.reasons == (0, 1, 2)


def test_a_request_that_was_taken_does_not_change_any_more() -> None:
    queue = filled("a")
    due = queue.take(0.0)
    queue.add("a", at=0.0, now=3.0, priority=7, reason="later")
    assert due is not None
    assert (due.priority, due.reasons, due.since) == (0, (), 0.0)


def test_the_highest_priority_comes_first() -> None:
    queue = make_queue()
    for key, priority in [("low", -1), ("normal", 0), ("high", 5), ("high too", 5)]:
        queue.add(key, at=0.0, now=0.0, priority=priority)
    assert drained(queue, 0.0) == ["high", "high too", "normal", "low"]


def test_a_request_never_lowers_the_priority() -> None:
    queue = make_queue()
    queue.add("a", at=0.0, now=0.0, priority=3)
    queue.add("b", at=0.0, now=0.0, priority=1)
    queue.add("a", at=0.0, now=0.0, priority=0)
    assert drained(queue, 0.0) == ["a", "b"]


def test_a_key_with_raised_priority_goes_behind_its_new_peers() -> None:
    queue = make_queue()
    queue.add("raised", at=0.0, now=0.0, priority=LOW)
    queue.add("a", at=0.0, now=0.0)
    queue.add("b", at=0.0, now=0.0)
    queue.add("raised", at=0.0, now=0.0)
    queue.add("c", at=0.0, now=0.0)
    assert queue.depths() == {0: 4}
    assert drained(queue, 0.0) == ["a", "b", "raised", "c"]


def test_a_high_priority_key_that_becomes_due_overtakes_ready_low_ones() -> None:
    queue = make_queue()
    queue.add("high", at=1.0, now=0.0, priority=5)
    queue.add("low", at=0.0, now=0.0)
    queue.add("low too", at=0.0, now=0.0)
    assert taken(queue, 0.0) == "low"
    assert drained(queue, 1.0) == ["high", "low too"]


def test_the_priority_of_a_delayed_key_can_be_raised() -> None:
    queue = make_queue()
    queue.add("a", at=5.0, now=0.0, priority=LOW)
    queue.add("a", at=9.0, now=0.0, priority=3)
    queue.add("b", at=5.0, now=5.0)
    assert drained(queue, 5.0) == ["a", "b"]


def test_an_aged_key_is_served_by_every_second_take() -> None:
    queue = make_queue(age=30.0)
    for key in ["old 1", "old 2"]:
        queue.add(key, at=0.0, now=0.0, priority=LOW)
    for key in ["new 1", "new 2", "new 3"]:
        queue.add(key, at=30.0, now=30.0)
    assert taken(queue, 29.9) == "new 1"
    assert drained(queue, 30.0) == ["old 1", "new 2", "old 2", "new 3"]


def test_nothing_starves_under_a_flood_of_higher_priorities() -> None:
    queue = make_queue(age=10.0)
    queue.add("humble", at=0.0, now=0.0, priority=LOW)
    for second in range(12):
        queue.add(f"proud {second}", at=float(second), now=float(second), priority=9)
        queue.add(f"prouder {second}", at=float(second), now=float(second), priority=10)
        if taken(queue, float(second)) == "humble":
            break
    assert second <= 11


def test_of_several_aged_keys_the_oldest_goes_first() -> None:
    queue = make_queue(age=5.0)
    queue.add("younger", at=1.0, now=1.0, priority=-1)
    queue.add("older", at=0.0, now=0.0, priority=-2)
    queue.add("fresh", at=9.0, now=9.0)
    assert drained(queue, 9.0) == ["older", "fresh", "younger"]


def test_debounce_keeps_the_time_that_the_first_trigger_set() -> None:
    queue = make_queue(debounce=1.0)
    queue.add("a", at=0.0, now=0.0, reason="first")
    queue.add("a", at=0.3, now=0.3, reason="second")
    assert (taken(queue, 0.99), queue.next_at(0.99)) == (None, 1.0)
    due = queue.take(1.0)
    assert due is not None
    assert due.reasons == ("first", "second")
    queue.done("a", 1.1)
    queue.add("a", at=1.2, now=1.2)
    assert (taken(queue, 2.19), taken(queue, 2.2)) == (None, "a")


def test_debounce_never_delays_for_ever() -> None:
    queue = make_queue(debounce=1.0)
    runs = 0
    for tick in range(100):
        queue.add("a", at=tick / 10, now=tick / 10)
        if taken(queue, tick / 10) == "a":
            runs += 1
            queue.done("a", tick / 10)
    assert runs == 9


def test_an_explicit_delay_is_not_debounced_and_wins_when_earlier() -> None:
    queue = make_queue(debounce=1.0)
    queue.add("a", at=0.0, now=0.0)
    queue.add("a", at=0.2, now=0.0)
    queue.add("b", at=5.0, now=0.0)
    assert drained(queue, 0.2) == ["a"]
    assert (drained(queue, 4.9), drained(queue, 5.0)) == ([], ["b"])


def test_a_trigger_during_a_run_that_outlasts_the_debounce_is_due_when_it_is_done() -> None:
    queue = make_queue(debounce=1.0)
    queue.add("a", at=0.0, now=0.0)
    assert taken(queue, 1.0) == "a"
    queue.add("a", at=1.5, now=1.5)
    assert queue.is_superseded("a", 1.5)
    queue.done("a", 9.0)
    assert taken(queue, 9.0) == "a"


@pytest.mark.parametrize("at", [math.nan, math.inf, -math.inf])
def test_a_time_that_is_not_finite_is_refused(at: float) -> None:
    queue = make_queue()
    with pytest.raises(ValueError, match="cannot schedule at"):
        queue.add("a", at=at, now=0.0)
    assert len(queue) == 0


@pytest.mark.parametrize("at", [181 * DAY, 1e300])
def test_a_delay_above_the_maximum_is_truncated(at: float) -> None:
    queue = make_queue()
    queue.add("a", at=at, now=5.0)
    assert queue.next_at(5.0) == 180 * DAY + 5.0


@pytest.mark.parametrize(
    ("debounce", "age", "most"), [(-1.0, 1.0, 1), (math.nan, 1.0, 1), (0.0, 0.0, 1), (0.0, 1.0, 0)]
)
def test_invalid_options_are_rejected(debounce: float, age: float, most: int) -> None:
    with pytest.raises(ValueError, match="WorkQueue"):
        make_queue(debounce=debounce, age=age, max_reasons=most)


def test_the_smallest_and_largest_options_are_accepted() -> None:
    queue = make_queue(debounce=180 * DAY, age=0.001, max_reasons=1)
    for reason in ("first", "second"):
        queue.add("a", at=0.0, now=0.0, reason=reason)
    due = queue.take(180 * DAY)
    assert due is not None
    assert due.reasons == ("first",)
    with pytest.raises(ValueError, match="WorkQueue"):
        make_queue(debounce=180 * DAY + 1)


def test_a_time_in_the_past_means_now() -> None:
    queue = make_queue()
    queue.add("a", at=-5.0, now=3.0)
    due = queue.take(3.0)
    assert due is not None
    assert due.since == 3.0


def test_a_time_in_the_past_is_debounced_like_now() -> None:
    queue = make_queue(debounce=2.0)
    queue.add("a", at=-5.0, now=3.0)
    assert (taken(queue, 4.9), queue.next_at(4.9), taken(queue, 5.0)) == (None, 5.0, "a")


def test_a_clock_that_goes_backwards_loses_nothing() -> None:
    queue = filled("a", now=100.0)
    queue.add("b", at=110.0, now=100.0)
    queue.add("c", at=50.0, now=50.0)
    assert drained(queue, 10.0) == ["a", "c"]
    queue.add("a", at=10.0, now=10.0)
    queue.done("a", 10.0)
    assert drained(queue, 10.0) == ["a"]
    assert drained(queue, 110.0) == ["b"]


def test_a_request_can_be_cancelled_in_any_state() -> None:
    queue = filled("running", "ready")
    queue.take(0.0)
    queue.add("running", at=0.0, now=0.0)
    queue.add("delayed", at=5.0, now=0.0)
    assert [queue.cancel(key) for key in ["running", "ready", "delayed", "unknown"]] == [True, True, True, False]
    assert not queue.cancel("running")
    assert (len(queue), queue.keys(), queue.running_keys(), queue.next_at(0.0)) == (0, [], ["running"], None)
    queue.done("running", 0.0)
    assert drained(queue, 99.0) == []


def test_all_requests_can_be_removed_at_once() -> None:
    queue = filled("running", "ready")
    queue.take(0.0)
    queue.add("running", at=0.0, now=0.0)
    queue.add("delayed", at=5.0, now=0.0)
    assert sorted(queue.clear()) == ["delayed", "ready", "running"]
    assert (len(queue), queue.running) == (0, 1)


def test_delayed_requests_can_be_removed_alone() -> None:
    queue = filled("ready")
    queue.add("delayed", at=5.0, now=0.0)
    assert queue.drop_delayed() == ["delayed"]
    assert drained(queue, 9.0) == ["ready"]


def test_a_running_key_is_superseded_when_a_newer_request_is_held() -> None:
    queue = filled("a", "b")
    assert not queue.is_superseded("a", 0.0)
    queue.take(0.0)
    assert not queue.is_superseded("a", 0.0)
    queue.add("a", at=0.0, now=0.0)
    assert queue.is_superseded("a", 0.0)


def test_a_request_for_much_later_does_not_supersede() -> None:
    queue = filled("a")
    queue.take(0.0)
    queue.add("a", at=600.0, now=0.0)
    assert not queue.is_superseded("a", 0.0)


def test_the_next_time_is_now_when_something_is_ready() -> None:
    queue = make_queue()
    assert queue.next_at(0.0) is None
    queue.add("a", at=5.0, now=0.0)
    assert (queue.next_at(1.0), queue.next_at(7.0)) == (5.0, 7.0)
    queue.take(7.0)
    queue.add("a", at=8.0, now=7.0)
    assert queue.next_at(7.0) is None


def test_depths_are_counted_by_priority_and_never_negative() -> None:
    queue = filled("a", "b")
    queue.add("c", at=0.0, now=0.0, priority=LOW)
    assert queue.depths() == {0: 2, LOW: 1}
    queue.add("c", at=0.0, now=0.0, priority=4)
    queue.cancel("a")
    assert queue.depths() == {4: 1, 0: 1}
    drained(queue, 0.0)
    assert queue.depths() == {}


def test_a_key_that_is_done_leaves_nothing_behind() -> None:
    queue = make_queue()
    for number in range(1000):
        key = str(number)
        queue.add(key, at=0.0, now=0.0, priority=number % 40)
        queue.take(0.0)
        queue.done(key, 0.0)
    assert (queue._entries, len(queue._levels) <= 17, len(queue._delayed)) == ({}, True, 0)


def test_stale_entries_are_compacted() -> None:
    queue = make_queue()
    for number in range(2000):
        queue.add("often expedited", at=number + 600.0, now=float(number))
        queue.add("often expedited", at=float(number), now=float(number))
        queue.take(float(number))
        queue.done("often expedited", float(number))
        queue.add("often cancelled", at=0.0, now=0.0)
        queue.cancel("often cancelled")
    assert len(queue) == 0
    assert len(queue._delayed) <= 130
    assert sum(len(level) for level in queue._levels) <= 130


def test_delayed_keys_are_taken_in_order_after_most_of_them_were_cancelled_and_their_entries_removed() -> None:
    queue, chance = make_queue(), random.Random(7)
    times = {str(number): chance.uniform(1.0, 1000.0) for number in range(1000)}
    for key, at in times.items():
        queue.add(key, at=at, now=0.0)
    for number in range(900):
        assert queue.cancel(str(number))
    assert (queue.delayed, len(queue._delayed) <= 250) == (100, True)
    expected = sorted(times.items(), key=lambda one: one[1])
    for key, at in [(key, at) for key, at in expected if int(key) >= 900]:
        assert (queue.next_at(0.0), taken(queue, at)) == (at, key)
    assert (queue.next_at(0.0), queue._delayed, queue._stale_delayed) == (None, [], 0)


def test_ready_keys_are_taken_in_order_after_most_of_them_were_cancelled_and_their_entries_removed() -> None:
    queue = filled(*map(str, range(1000)))
    for number in range(900):
        assert queue.cancel(str(number))
    left = sum(len(level) for level in queue._levels)
    assert (queue.ready, left <= 250, queue._stale_ready) == (100, True, left - 100)
    assert drained(queue, 0.0) == [str(number) for number in range(900, 1000)]
    assert queue._stale_ready == 0


def test_a_request_has_a_readable_repr() -> None:
    queue = make_queue()
    queue.add("a", at=0.0, now=0.0, reason="changed")
    assert repr(queue.take(0.0)) == "<Due a: priority 0, since 0.0, ['changed']>"


def test_add_all_holds_running_keys_and_a_higher_priority_overtakes() -> None:
    queue: WorkQueue[str, str] = WorkQueue()
    queue.add_all(["a", "b"], at=0.0, now=0.0, priority=LOW, reason="list")
    assert taken(queue, 0.0) == "a"
    assert queue.add_all(["a", "d", "b", "c"], at=1.0, now=1.0, priority=NORMAL, reason="change") == 3
    assert (queue.held, [taken(queue, 1.0) for _ in range(4)]) == (1, ["d", "b", "c", None])


def test_add_all_with_an_unhashable_key_enqueues_the_keys_before_it() -> None:
    queue: WorkQueue[Any, str] = WorkQueue()
    queue.add("a", at=0.0, now=0.0, priority=LOW, reason="list")
    with pytest.raises(TypeError):
        queue.add_all(["a", "b", [], "c"], at=1.0, now=1.0, priority=NORMAL, reason="change")
    assert ([taken(queue, 1.0) for _ in range(3)], queue.running, queue.ready) == (["a", "b", None], 2, 0)


def test_add_all_finds_its_level_even_if_it_was_dropped_meanwhile() -> None:
    queue: WorkQueue[str, str] = WorkQueue()
    queue.add("later", at=9.0, now=0.0, priority=99)
    for level in range(15):  # one fewer than the maximum of retained levels, all of them empty
        queue.add(str(level), at=0.0, now=0.0, priority=level, reason="change")
        queue.take(0.0)
    assert queue.add_all(["later", "b", "c"], at=1.0, now=1.0, priority=50, reason="change") == 2
    assert (queue.depths(), [taken(queue, 1.0) for _ in range(4)]) == ({99: 1, 50: 2}, ["later", "b", "c", None])
