from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelset.apiserver.registry.strategy import own_all_fields
from levelset.patch.managed_fields import track_update
from tests.apiserver.writes import NOW, make_served, widget

SERVED = make_served()


def slow(tree: dict[str, Any]) -> Any:
    """What the thorough way notes."""
    tracked = track_update(None, tree, manager="m", shape=SERVED.shape(), now=NOW, api_version=SERVED.api_version)
    return tracked.object["metadata"].get("managedFields")  # type: ignore[union-attr]  # metadata is a map


def quick(tree: dict[str, Any]) -> Any:
    made = deepcopy(tree)
    own_all_fields(SERVED, made, manager="m", now="2026-01-31T12:00:00Z")
    return made["metadata"].get("managedFields")


@pytest.mark.parametrize(
    "tree",
    [
        widget(),
        widget(spec={}),
        widget(spec={"color": "red", "free": {"a": {"b": [1, {"c": 2}]}, "e": {}}}),
        widget(spec={"items": [{"name": "y", "v": "1"}, {"name": "x"}]}),
        widget(spec={"items": [{"v": "no key"}]}),
        widget(spec={"items": [{"name": "x"}, {"name": "x", "v": "1"}]}),
        widget(spec={"items": []}),
        widget(labels={"b": "1", "a": "2"}, annotations={"x/y": "z"}, finalizers=["e.x/f", "e.x/a"]),
        widget(ownerReferences=[{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "u"}], uid="u", generation=1),
    ],
)
def test_the_creator_owns_exactly_what_the_thorough_way_says(tree: dict[str, Any]) -> None:
    assert quick(tree) == slow(tree)


def test_an_object_of_which_nothing_can_be_owned_has_no_managers() -> None:
    assert quick(widget()) is None


trees = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "name", ""]), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(["color", "items", "free", "odd"]), trees, max_size=4))
def test_any_object_is_owned_as_the_thorough_way_says(spec: dict[str, Any]) -> None:
    assert quick(widget(spec=spec)) == slow(widget(spec=spec))


def test_the_answer_for_a_shape_of_objects_is_worked_out_once() -> None:
    assert (
        quick(widget(spec={"color": "red"}))[0]["fieldsV1"] is quick(widget("b", spec={"color": "blue"}))[0]["fieldsV1"]
    )
