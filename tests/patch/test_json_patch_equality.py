import pytest
from hypothesis import given

from levelset.objects.json_tree import same
from levelset.patch.json_patch import json_equal
from tests.patch.trees_strategy import deep, trees


@given(one=trees(), other=trees())
def test_it_agrees_with_the_slow_comparison(one, other):
    assert json_equal(one, other) is same(one, other)


@pytest.mark.parametrize(
    ("one", "other", "answer"),
    [
        (1, True, False),
        ([1, {"a": 0}], [1, {"a": False}], False),
        (1, 1.0, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ("\ud800", "\ud800", True),
        (["\ud800"], ["\ud800"], True),
    ],
)
def test_odd_values_are_compared_as_json(one, other, answer):
    assert json_equal(one, other) is answer


def test_numbers_too_long_to_print_are_compared():
    assert json_equal([10**5000], [10**5000])
    assert not json_equal([10**5000], [10**5000 + 1])


def test_trees_too_deep_for_python_are_compared():
    assert json_equal(deep(100_000, 1), deep(100_000, 1))
    assert not json_equal(deep(100_000, 1), deep(100_000, 2))


def test_a_copy_in_another_order_is_compared_member_by_member():
    one, other = {"a": 1, "b": True}, {"b": 1, "a": True}
    assert not json_equal(one, other)
    assert json_equal({"x": one}, {"x": one})
    assert json_equal(one, dict(one))
