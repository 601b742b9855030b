import copy

import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.objects.unknown_fields import carry
from tests.objects.tree_strategies import maps


@pytest.mark.parametrize(
    ("origin", "before", "after", "expected"),
    [
        pytest.param({"a": 1, "x": 2}, {"a": 1}, {"a": 3}, {"a": 3, "x": 2}, id="unknown stays"),
        pytest.param({"a": 1, "x": 2}, {"a": 1}, {}, {"x": 2}, id="removed goes"),
        pytest.param({"a": 1}, {"a": 1}, {"a": 1, "b": 2}, {"a": 1, "b": 2}, id="added comes"),
        pytest.param({"a": "1.50"}, {"a": "1.5"}, {"a": "1.5"}, {"a": "1.50"}, id="form stays"),
        pytest.param({"a": 1}, {"a": 1}, {"a": True}, {"a": True}, id="true is not 1"),
        pytest.param({"a": {"x": 1}}, {"a": {}}, {"a": 5}, {"a": 5}, id="type changed"),
        pytest.param({"a": [1, 1, 2]}, {"a": [1, 2]}, {"a": [1, 2]}, {"a": [1, 1, 2]}, id="class made a set"),
        pytest.param({"a": [1, 1, 2]}, {"a": [1, 2]}, {"a": [3]}, {"a": [3]}, id="class made a set, changed"),
    ],
)
def test_unchanged_values_keep_the_form_in_which_they_were_decoded(origin, before, after, expected):
    assert carry(origin, before, after) == expected


def item(value, extra=None, **key):
    return {"v": value, **key, **({"x": extra} if extra else {})}


@pytest.mark.parametrize(
    ("origin", "after", "expected"),
    [
        pytest.param(
            [item(1, "a"), item(2, "b")], [item(2), item(1)], [item(2, "b"), item(1, "a")], id="equal items move"
        ),
        pytest.param([item(1, "a"), item(2, "b")], [item(2)], [item(2, "b")], id="one goes"),
        pytest.param([item(1, "a")], [item(9), item(1)], [item(9), item(1, "a")], id="a new one carries nothing"),
        pytest.param([item(1, "a"), item(2, "b")], [item(1), item(3)], [item(1, "a"), item(3, "b")], id="by place"),
        pytest.param(
            [item(1, "a", name="n"), item(2, "b", name="m")],
            [item(3, name="m"), item(4, name="n")],
            [item(3, "b", name="m"), item(4, "a", name="n")],
            id="by key",
        ),
        pytest.param(
            [item(1, "a", name="n")], [item(1, name="other")], [item(1, name="other")], id="another key, another item"
        ),
        pytest.param(
            [item(1, "a"), item(1, "b")], [item(1), item(1)], [item(1, "a"), item(1, "b")], id="twins keep places"
        ),
        pytest.param(
            [item(1, "a"), item(2, "b")], [item(7), item(8), item(9)], [item(7), item(8), item(9)], id="doubt"
        ),
    ],
)
def test_list_items_keep_their_unknown_fields(origin, after, expected):
    before = [{name: value for name, value in one.items() if name != "x"} for one in origin]
    assert carry(origin, before, after) == expected


@given(maps())
def test_without_changes_the_result_is_the_origin(tree):
    assert carry(tree, tree, tree) == tree


@given(maps(), maps(), maps())
def test_the_arguments_stay_as_they_are(origin, before, after):
    given_trees = copy.deepcopy((origin, before, after))
    carry(origin, before, after)
    assert (origin, before, after) == given_trees


@given(maps(), maps())
def test_with_everything_known_the_new_tree_wins(before, after):
    assert carry(before, before, after) == after


@given(maps(), some.dictionaries(some.just("x-unknown"), some.integers(), min_size=1))
def test_unknown_members_survive_beside_any_change(known, unknown):
    assert carry({**known, **unknown}, known, {"other": 1}) == {"other": 1, **unknown}
