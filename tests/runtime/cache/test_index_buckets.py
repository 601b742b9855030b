"""Buckets, compared with a simple model."""

from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.runtime.cache.index import Buckets

KEYS = st.sampled_from("abcde")
VALUES = st.lists(st.integers(0, 4), unique=True).map(tuple)
ODD: list[tuple[Hashable, ...]] = [("a",), (("a",),), ((),), (None,), (1, ("a", 2)), ((1, 2), (3,))]


@given(st.lists(st.tuples(KEYS, VALUES | st.none())))
def test_keys_by_value_agree_with_a_recount(steps: list[tuple[str, tuple[int, ...] | None]]) -> None:
    buckets, model = Buckets(), dict[str, tuple[int, ...]]()
    for key, values in steps:
        if values is None:
            buckets.drop(key)
            model.pop(key, None)
        else:
            buckets.put(key, values)
            model[key] = values
    expected = {value: {key for key, values in model.items() if value in values} for value in range(5)}
    assert {value: set(buckets.keys(value)) for value in range(5)} == expected
    assert {value: buckets.count(value) for value in range(5)} == {value: len(keys) for value, keys in expected.items()}
    assert set(buckets.values()) == {value for value, keys in expected.items() if keys}
    assert {key for key in "abcde" if key in buckets} == {key for key, values in model.items() if values}


@pytest.mark.parametrize("values", ODD)
def test_any_hashable_value_can_be_added_and_removed(values: tuple[Hashable, ...]) -> None:
    buckets = Buckets()
    for _ in range(2):
        buckets.put("k", values)
    assert set(buckets.values()) == set(values)
    assert all(buckets.keys(value) == ["k"] for value in values)
    buckets.put("k", ("other",))
    assert list(buckets.values()) == ["other"]
    buckets.drop("k")
    assert list(buckets.values()) == []


def test_keys_come_in_the_order_in_which_they_were_put() -> None:
    buckets = Buckets()
    for key in "cab":
        buckets.put(key, ("x",))
    assert buckets.keys("x") == ["c", "a", "b"]


def test_buckets_can_be_freed_in_slices() -> None:
    buckets = Buckets()
    for number in range(10):
        buckets.put(str(number), (number,))
        buckets.put(f"same {number}", ("same",))
    turns = 1
    while buckets.free(3):
        turns += 1
    assert 7 <= turns <= 10
    assert list(buckets.values()) == []
