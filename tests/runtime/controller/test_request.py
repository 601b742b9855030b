"""Reasons in words, actions as values, and the bounded history."""

import pytest

from levelset.client import view_of
from levelset.objects import Ref
from levelset.runtime.controller import Action, History, Outcome, Reason, Request, await_change, requeue
from levelset.runtime.controller.request import CHANGED
from tests.runtime.controller.loops import ConfigMap, Web, web_ref

__all__: list[str] = []

SECRET = Ref(ConfigMap, "settings", "default")


def test_a_reason_reads_as_words_and_names_the_other_object() -> None:
    assert str(Reason("changed")) == "it has changed"
    assert str(Reason("related", SECRET)) == "ConfigMap/default/settings has changed"
    assert str(Reason("related")) == "another object has changed"
    assert str(Reason("bulk", SECRET)) == "all objects are looked at (ConfigMap/default/settings)"
    assert str(Reason("the moon is full")) == "the moon is full"


def test_reasons_are_values_so_that_the_same_reason_is_kept_once() -> None:
    assert Reason("related", SECRET) == Reason("related", Ref(ConfigMap, "settings", "default"))
    assert len({Reason("changed"), Reason("changed"), Reason("bulk")}) == 2


def test_a_request_reads_as_its_object_and_why() -> None:
    asked = Request(web_ref(), (Reason("changed"), Reason("retried")), attempt=2)
    assert str(asked) == "Website/default/blog: it has changed; the last try has failed"
    assert str(Request(web_ref())) == "Website/default/blog: for no reason"


def test_requeue_adds_up_its_units_and_refuses_what_is_no_time() -> None:
    assert requeue(5) == Action(5.0)
    assert requeue(1, minutes=2, hours=1) == Action(3721.0)
    assert requeue() == Action(0.0)
    assert await_change() == Action(None)
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="requeue after"):
            requeue(wrong)


def test_an_action_and_an_outcome_read_as_words() -> None:
    assert str(requeue(5)) == "look again after 5 s"
    assert str(await_change()) == "await a change"
    done = Outcome(web_ref(), "done", await_change(), None, 0.1, ())
    failed = Outcome(web_ref(), "failed", requeue(5), ValueError("no"), 0.1, ())
    assert str(done) == "Website/default/blog: done, await a change"
    assert str(failed) == "Website/default/blog: failed, no"
    assert (done.is_error, failed.is_error) == (False, True)


def test_history_is_bounded_newest_last_and_counts_all() -> None:
    history: History[object] = History(3)
    for name in "abcd":
        history.add(Outcome(web_ref(name), "done", await_change(), None, 0.1, ()))
    assert [one.ref.name for one in history] == ["b", "c", "d"]
    assert (len(history), history.total, history[-1].ref.name) == (3, 4, "d")
    assert [one.ref.name for one in history[1:]] == ["c", "d"]
    assert history.of(web_ref("c")) == [history[1]]
    assert repr(history) == "<History of 3 of 4 looks>"


def test_a_look_that_is_only_laid_down_becomes_an_outcome_for_who_asks_and_stays_the_same() -> None:
    history: History[object] = History(3)
    history.fresh += (web_ref("a"), 0.1, (CHANGED,), 0.2)
    made = Outcome(web_ref("a"), "done", await_change(), None, 0.1, (CHANGED,), 0, 0.2)
    assert (history.total, history.newest(), history[0], list(history)) == (1, made, made, [made])
    assert history[0] is history[-1] is history.newest() is next(iter(history))
    history.add(Outcome(web_ref("b"), "failed", await_change(), ValueError(), 0.1, ()))
    assert (history.newest().result, [one.result for one in history]) == ("failed", ["done", "failed"])
    with pytest.raises(IndexError):
        history[2]


def test_a_look_that_is_laid_down_by_a_key_has_the_ref_that_is_made_of_it() -> None:
    history: History[object] = History(3, ref_of=view_of(Web).ref_at)
    history.fresh += ("default/a", 0.1, (CHANGED,), 0.2)
    assert (history.newest().ref, history.of(web_ref("a"))) == (web_ref("a"), [history[0]])
    assert history.of(web_ref("b")) == []


def test_each_outcome_is_counted_once_when_there_are_many_or_somebody_looks() -> None:
    counted: list[str] = []
    history: History[object] = History(3, count=lambda some: counted.extend(one.ref.name for one in some[::4]))
    for name in "abcd":
        history.add(Outcome(web_ref(name), "done", await_change(), None, 0.1, ()))
    assert (history.total, counted) == (4, ["a", "b", "c"])
    assert (history[-1].ref.name, counted) == ("d", ["a", "b", "c", "d"])
    history.settle()
    assert len(counted) == 4


def test_who_cannot_count_does_not_disturb(caplog: pytest.LogCaptureFixture) -> None:
    history: History[object] = History(1, count=lambda some: 1 / 0)
    history.add(Outcome(web_ref("a"), "done", await_change(), None, 0.1, ()))
    assert (len(history), "1 looks could not be counted" in caplog.text) == (1, True)
