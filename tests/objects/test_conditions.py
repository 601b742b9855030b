from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.objects import Condition, decode, encode, replace, to_tree
from levelset.objects.conditions import find_condition, is_condition_true, remove_condition, set_condition
from tests.objects.samples import Website

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)


def test_a_new_condition_starts_now_and_goes_to_the_end():
    first = set_condition((), "Ready", status=True, now=NOON)
    both = set_condition(first, "Synced", status=None, now=LATER, reason="Waiting")
    assert [(one.type, one.status, one.last_transition_time) for one in both] == [
        ("Ready", "True", NOON),
        ("Synced", "Unknown", LATER),
    ]


def test_the_transition_time_stays_while_the_status_does():
    before = set_condition((), "Ready", "True", now=NOON)
    (after,) = set_condition(before, "Ready", "True", now=LATER, reason="Other", message="m", observed_generation=2)
    assert (after.last_transition_time, after.reason, after.message, after.observed_generation) == (
        NOON,
        "Other",
        "m",
        2,
    )


def test_the_transition_time_moves_with_the_status():
    before = set_condition((), "Ready", "True", now=NOON)
    assert set_condition(before, "Ready", "False", now=LATER)[0].last_transition_time == LATER


def test_setting_the_same_again_changes_nothing():
    before = set_condition((), "Ready", "True", now=NOON, reason="r")
    assert set_condition(before, "Ready", "True", now=LATER, reason="r") == before


def test_a_time_is_cut_to_the_second():
    (one,) = set_condition((), "Ready", status=True, now=NOON.replace(microsecond=5))
    assert one.last_transition_time == NOON


def test_conditions_are_found_and_removed():
    both = set_condition(set_condition((), "A", status=True, now=NOON), "B", status=False, now=NOON)
    assert find_condition(both, "B") == both[1]
    assert find_condition(both, "C") is None
    assert (is_condition_true(both, "A"), is_condition_true(both, "B"), is_condition_true(both, "C")) == (
        True,
        False,
        False,
    )
    assert remove_condition(both, "A") == both[1:]


def test_any_other_status_is_refused():
    with pytest.raises(ValueError, match="True, False or Unknown"):
        set_condition((), "Ready", "yes", now=NOON)


@given(some.lists(some.tuples(some.sampled_from("ABC"), some.sampled_from(["True", "False", "Unknown"])), max_size=12))
def test_there_is_one_condition_for_each_type_and_it_is_the_last_one_set(steps):
    conditions = ()
    for type_, status in steps:
        conditions = set_condition(conditions, type_, status, now=NOON)
    assert {one.type: one.status for one in conditions} == dict(steps)
    assert len(conditions) == len(dict(steps))


def test_a_condition_is_encoded_with_reason_and_message_even_if_empty():
    (made,) = set_condition((), "Ready", status=True, now=NOON)
    tree = to_tree(made)
    assert (tree["reason"], tree["message"]) == ("", "")
    assert to_tree(Condition(type="Ready", status="True")).keys() >= {"reason", "message"}


def test_a_condition_decoded_without_a_message_is_encoded_without_one():
    text = b'{"apiVersion":"example.dev/v1","kind":"Website","metadata":{"name":"a"},"spec":{"image":"a"},'
    text += b'"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
    site = decode(Website, text)
    assert encode(site) == text
    labelled = replace(site, metadata=replace(site.metadata, labels={"a": "b"}))
    assert to_tree(labelled)["status"]["conditions"] == [{"type": "Ready", "status": "True"}]
