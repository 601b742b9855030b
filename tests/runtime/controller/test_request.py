"""Reasons as text, actions as values, and the bounded history."""

from datetime import timedelta
from typing import Any

import pytest

from levelset.client import view_of
from levelset.objects import Ref
from levelset.runtime.controller import Action, Outcome, Reason, ReconcileHistory, Request, await_change, requeue
from levelset.runtime.controller.actions import Result
from levelset.runtime.controller.reconcile_history import CountReconciles, Record
from levelset.runtime.controller.request import CHANGED
from tests.runtime.controller.controller_loop import ConfigMap, Web, web_ref

__all__: list[str] = []

SECRET = Ref(ConfigMap, "settings", "default")


def test_a_reason_is_readable_and_names_the_other_object() -> None:
    assert str(Reason("changed")) == "it has changed"
    assert str(Reason("related", SECRET)) == "ConfigMap/default/settings has changed"
    assert str(Reason("related")) == "another object has changed"
    assert str(Reason("bulk", SECRET)) == "all objects are reconciled (ConfigMap/default/settings)"
    assert str(Reason("the moon is full")) == "the moon is full"


def test_reasons_are_values_so_that_equal_reasons_are_deduplicated() -> None:
    assert Reason("related", SECRET) == Reason("related", Ref(ConfigMap, "settings", "default"))
    assert len({Reason("changed"), Reason("changed"), Reason("bulk")}) == 2


def test_the_text_of_a_request_is_its_object_and_its_reasons() -> None:
    request = Request(web_ref(), (Reason("changed"), Reason("retried")), attempt=2)
    assert str(request) == "Website/default/blog: it has changed; the last reconcile failed"
    assert str(Request(web_ref())) == "Website/default/blog: no reason"


def test_requeue_adds_up_its_units_and_rejects_invalid_times() -> None:
    assert requeue(5) == Action(5.0)
    assert requeue(1, minutes=2, hours=1) == Action(3721.0)
    assert requeue(0) == Action(0.0)
    assert await_change() == Action(None)
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="requeue after"):
            requeue(wrong)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"requeue\(\) needs a time: write requeue\(30\).*await_change\(\).*raise Retry\(\)"),
        ({"seconds": "5m"}, r"requeue\('5m'\): a time is a number of seconds.*write requeue\(minutes=5\)"),
        ({"hours": "1"}, r"requeue\(hours='1'\): a time is a number"),
        ({"seconds": timedelta(minutes=5)}, r"write requeue\(300\)"),
        ({"seconds": True}, r"requeue\(True\): a time is a number"),
    ],
)
def test_a_requeue_without_a_number_says_what_to_write(given: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        requeue(**given)


def test_actions_and_outcomes_are_readable() -> None:
    assert str(requeue(5)) == "requeue after 5 s"
    assert [str(requeue(one)) for one in (64.1398, 0.01234, 1234567)] == [
        "requeue after 64.1 s",
        "requeue after 0.012 s",
        "requeue after 1234567 s",
    ]
    assert str(await_change()) == "await a change"
    done = Outcome(web_ref(), "done", await_change(), None, 0.1, ())
    failed = Outcome(web_ref(), "failed", requeue(5), ValueError("no"), 0.1, ())
    assert str(done) == "Website/default/blog: done, await a change"
    assert str(failed) == "Website/default/blog: failed, no"
    assert (done.is_error, failed.is_error) == (False, True)


def record(name: str, result: Result = "done", error: Exception | None = None) -> Record:
    return f"default/{name}", result, await_change(), error, 0.1, (CHANGED,), 0, 0.2, 7.0


def history_of(*records: Record, most: int = 3, count: CountReconciles | None = None) -> ReconcileHistory[object]:
    history: ReconcileHistory[object] = ReconcileHistory(most, ref_of=view_of(Web).ref_at, count=count)
    for one in records:
        history.pending.append(one)
        if len(history.pending) >= history.max_pending:
            history.flush()
    return history


def test_history_is_bounded_newest_last_and_counts_all() -> None:
    history = history_of(*map(record, "abcd"))
    assert [one.ref.name for one in history] == ["b", "c", "d"]
    assert (len(history), history.total, history[-1].ref.name) == (3, 4, "d")
    assert [one.ref.name for one in history[1:]] == ["c", "d"]
    assert history.of(web_ref("c")) == [history[1]]
    assert repr(history) == "<ReconcileHistory of 3 of 4 reconciles>"


def test_a_record_becomes_an_outcome_when_it_is_read() -> None:
    error = ValueError()
    history = history_of(record("a"), record("b", "failed", error))
    made: Outcome[Any] = Outcome(web_ref("a"), "done", await_change(), None, 0.1, (CHANGED,), 0, 0.2, 7.0)
    assert (history.total, history[0], next(iter(history))) == (2, made, made)
    assert (history[-1].result, history[-1].error) == ("failed", error)
    assert (history.of(web_ref("a")), history.of(web_ref("c"))) == ([made], [])
    with pytest.raises(IndexError):
        history[2]


def test_each_outcome_is_counted_once_when_a_batch_is_full_or_the_history_is_read() -> None:
    counted: list[str] = []
    history = history_of(*map(record, "abcd"), count=lambda some: counted.extend(one[0][-1] for one in some))
    assert (history.total, counted) == (4, ["a", "b", "c"])
    assert (history[-1].ref.name, counted) == ("d", ["a", "b", "c", "d"])
    history.flush()
    assert counted == ["a", "b", "c", "d"]


def test_a_failing_counter_does_not_affect_the_history(caplog: pytest.LogCaptureFixture) -> None:
    history = history_of(record("a"), most=1, count=lambda some: 1 / 0)
    assert (len(history), "1 reconciles could not be counted" in caplog.text) == (1, True)
