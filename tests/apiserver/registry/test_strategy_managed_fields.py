from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelset.apiserver.registry.strategy import track_new_object
from levelset.patch.managed_fields import track_update
from tests.apiserver.support.server_state import NOW, make_served, widget

SERVED = make_served()


def slow(tree: dict[str, Any]) -> Any:
    """The managedFields that `track_update` computes."""
    tracked = track_update(None, tree, manager="m", shape=SERVED.shape(), now=NOW, api_version=SERVED.api_version)
    return tracked.object["metadata"].get("managedFields")  # type: ignore[union-attr]  # metadata is a map


def quick(tree: dict[str, Any]) -> Any:
    made = deepcopy(tree)
    track_new_object(SERVED, made, manager="m", now="2026-01-31T12:00:00Z")
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
def test_managed_fields_of_a_new_object_equal_those_of_track_update(tree: dict[str, Any]) -> None:
    assert quick(tree) == slow(tree)


def test_an_object_without_trackable_fields_has_no_managed_fields() -> None:
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
def test_managed_fields_of_any_object_equal_those_of_track_update(spec: dict[str, Any]) -> None:
    assert quick(widget(spec=spec)) == slow(widget(spec=spec))


def test_managed_fields_are_computed_once_per_outline() -> None:
    assert (
        quick(widget(spec={"color": "red"}))[0]["fieldsV1"] is quick(widget("b", spec={"color": "blue"}))[0]["fieldsV1"]
    )
