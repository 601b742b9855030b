from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.errors import BadPatch, BadTime
from levelset.objects.json_tree import copy_tree
from levelset.patch.managed_fields import is_reset, parse_managed, track_update
from levelset.patch.merge_schema import ANYTHING, Shape
from tests.patch.trees_strategy import deep, maps, trees
from tests.patch.widgets import MAIN, START, VERSION, WIDGET, WidgetStore, specs, widget


def test_the_creator_of_an_object_owns_all_of_it_but_its_name() -> None:
    store = WidgetStore()
    store.write("w", {"color": "red", "items": [{"name": "x"}]}, metadata={"labels": {"l": "1"}, "uid": "u"})
    assert store.owned() == {
        "w!": {
            "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
            "f:spec": {
                ".": {},
                "f:color": {},
                "f:items": {".": {}, 'k:{"name":"x"}': {".": {}, "f:name": {}}},
            },
        }
    }


def test_a_write_takes_ownership_of_changed_fields_without_conflicts() -> None:
    store = WidgetStore()
    store.apply("m", {"color": "red", "size": 1})
    store.write("w", {"color": "blue", "size": 1})
    assert store.owned() == {"m": {"f:spec": {"f:size": {}}}, "w!": {"f:spec": {"f:color": {}}}}


def test_a_write_that_removes_a_field_removes_it_from_its_owners() -> None:
    store = WidgetStore()
    store.apply("m", {"color": "red", "size": 1})
    store.write("w", {"size": 1})
    assert store.owned() == {"m": {"f:spec": {"f:size": {}}}}
    assert store.changed


def test_a_manager_that_loses_its_last_field_is_removed() -> None:
    store = WidgetStore()
    store.apply("m", {"color": "red"})
    store.write("w", {"color": "blue"})
    assert store.owned() == {"w!": {"f:spec": {"f:color": {}}}}


def test_a_write_of_the_same_object_changes_nothing() -> None:
    store = WidgetStore()
    live = store.write("w", {"color": "red"})
    store.write_object("v", copy_tree(live))
    assert not store.changed
    assert store.live is live


def test_a_write_that_leaves_out_the_version_and_the_owners_changes_nothing() -> None:
    store = WidgetStore()
    live = store.write("w", {"color": "red"}, metadata={"resourceVersion": "1"})
    store.write("v", {"color": "red"})
    assert not store.changed
    assert store.live is live


def test_only_a_manager_that_changed_something_gets_a_new_time() -> None:
    store = WidgetStore()
    store.write("w", {"color": "red"})
    store.write("v", {"color": "red", "size": 1})
    assert (store.time_of("w"), store.time_of("v")) == ("2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z")
    store.write("v", {"color": "red", "size": 2})
    assert (store.time_of("w"), store.time_of("v")) == ("2026-01-01T00:01:00Z", "2026-01-01T00:03:00Z")


def test_another_order_of_set_items_is_a_change_without_an_owner() -> None:
    store = WidgetStore()
    store.write("w", {"set": ["a", "b"]})
    before = store.entries
    store.write("v", {"set": ["b", "a"]})
    assert store.changed
    assert store.entries == before


def test_an_entry_has_the_subresource_and_omits_its_reset_fields() -> None:
    store = WidgetStore()
    live = store.write("w", {"color": "red"})
    store.write_object("c", {**live, "spec": {"color": "x"}, "status": {"phase": "ok"}}, subresource="status")
    assert [entry.get("subresource") for entry in store.entries] == [None, "status"]
    assert store.owned()["c!"] == {"f:status": {".": {}, "f:phase": {}}}


@pytest.mark.parametrize("reset", [[], [{}]])
def test_owners_can_be_forgotten(reset: list[Any]) -> None:
    store = WidgetStore()
    store.write("w", {"color": "red"})
    store.write("v", {"color": "red"}, metadata={"managedFields": reset})
    assert store.changed
    assert store.live == widget({"color": "red"})


def test_an_object_without_managed_fields_stays_untracked() -> None:
    store = WidgetStore()
    store.live = widget({"color": "red"})
    store.write("w", {"color": "blue"})
    assert store.changed
    assert store.live == widget({"color": "blue"})


@pytest.mark.parametrize(
    ("managed", "reset"), [([], True), ([{}], True), (None, False), ([{}, {}], False), ([{"manager": "m"}], False)]
)
def test_a_reset_is_an_empty_list_or_one_empty_entry(managed: Any, reset: bool) -> None:
    assert is_reset(managed) is reset


def test_a_writer_may_rewrite_the_owners() -> None:
    store = WidgetStore()
    store.apply("m", {"color": "red"})
    theirs = [{**store.entries[0], "manager": "n"}]
    store.write("w", {"color": "red"}, metadata={"managedFields": theirs})
    assert store.changed
    assert store.owned() == {"n": {"f:spec": {"f:color": {}}}}


def test_a_writer_may_not_rewrite_the_owners_through_a_subresource() -> None:
    store = WidgetStore()
    live = store.apply("m", {"color": "red"})
    new = widget({"color": "red"}, metadata={"managedFields": []}, status={"a": 1})
    store.write_object("w", new, subresource="status")
    assert store.entries[0] == live["metadata"]["managedFields"][0]


@pytest.mark.parametrize("managed", ["x", [1], [{"manager": "m"}]])
def test_unreadable_managed_fields_are_replaced_by_the_previous_ones(managed: Any) -> None:
    store = WidgetStore()
    live = store.apply("m", {"color": "red"})
    store.write("w", {"color": "red"}, metadata={"managedFields": managed})
    assert store.live is live


def test_an_object_with_unreadable_owners_is_untracked() -> None:
    store = WidgetStore()
    store.live = widget({"color": "red"}, metadata={"managedFields": [{"manager": 1}]})
    store.write("w", {"color": "blue"})
    assert store.live == widget({"color": "blue"})


def test_more_than_ten_update_entries_are_merged() -> None:
    store = WidgetStore()
    store.live = None
    labels: dict[str, str] = {}
    for number in range(13):
        labels[f"l{number:02}"] = "1"
        store.write(f"w{number:02}", {"labels": dict(labels)})
    assert len(store.entries) == 10
    assert store.entries[0]["manager"] == "ancient-changes"
    owned = [name for entry in store.entries for name in entry["fieldsV1"]["f:spec"]["f:labels"] if name != "."]
    assert sorted(owned) == [f"f:l{number:02}" for number in range(13)]


def test_changing_a_field_that_became_atomic_takes_ownership_of_all_of_it() -> None:
    store = WidgetStore()
    store.apply("m", {"labels": {"a": "1"}, "color": "red"})
    spec = Shape(fields={"labels": Shape(atomic=True), "color": ANYTHING})
    shape = Shape(fields={"metadata": ANYTHING, "spec": spec})
    new = widget({"labels": {"a": "2"}, "color": "red"})
    result = track_update(store.live, new, manager="w", shape=shape, now=START, api_version=VERSION)
    store.live = result.object
    assert store.owned() == {"m": {"f:spec": {"f:color": {}}}, "w!": {"f:spec": {"f:labels": {}}}}


def test_the_same_change_has_another_owner_under_another_shape() -> None:
    parts = Shape(fields={"metadata": ANYTHING, "spec": Shape(fields={"labels": ANYTHING})})
    whole = Shape(fields={"metadata": ANYTHING, "spec": Shape(fields={"labels": Shape(atomic=True)})})
    store = WidgetStore()
    store.apply("m", {"labels": {"a": "1", "b": "1"}})
    live, new = store.live, widget({"labels": {"a": "2", "b": "1"}})
    for shape, owners in ((parts, ["m", "w!"]), (whole, ["w!"])) * 2:
        store.live = track_update(live, new, manager="w", shape=shape, now=START, api_version=VERSION).object
        assert sorted(store.owned()) == owners
    assert store.owned() == {"w!": {"f:spec": {"f:labels": {}}}}


def test_a_repeated_write_gives_the_same_owners_and_the_new_time() -> None:
    store = WidgetStore()
    store.write("w", {"color": "red", "size": 1})
    for color in ("blue", "green", "blue"):
        store.write("v", {"color": color, "size": 1})
        assert store.owned() == {"w!": {"f:spec": {".": {}, "f:size": {}}}, "v!": {"f:spec": {"f:color": {}}}}
    assert store.entries[-1]["time"] > store.entries[0]["time"]


def test_the_time_of_a_write_may_be_given_as_its_text() -> None:
    for now in (START, "2026-01-01T00:00:00Z"):
        tracked = track_update(None, widget({"size": 1}), manager="w", shape=WIDGET, now=now, api_version=VERSION)
        metadata: Any = tracked.object["metadata"]
        assert parse_managed(metadata["managedFields"])["w", "Update", VERSION, ""].time == "2026-01-01T00:00:00Z"


def test_without_a_name_the_manager_is_unknown() -> None:
    store = WidgetStore()
    store.write("", {"color": "red"})
    assert list(store.owned()) == ["unknown!"]


def test_the_time_must_have_a_zone() -> None:
    with pytest.raises(BadTime):
        track_update(None, widget(), manager="m", shape=WIDGET, now=datetime(2026, 1, 1), api_version=VERSION)


@given(specs, specs, specs)
def test_every_field_has_an_owner_and_every_owned_field_exists(first: Any, second: Any, third: Any) -> None:
    store = WidgetStore()
    for manager, spec in (("a", first), ("b", second), ("c", third)):
        store.write(manager, spec)
    fresh = WidgetStore()
    fresh.write("x", third)
    everything = fresh.owned()["x!"]
    owned = {path for fields in store.owned().values() for path in flat(fields)}
    assert owned == set(flat(everything))


def flat(fields: dict[str, Any], prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    here = [prefix] if prefix and (not fields or "." in fields) else []
    return here + [path for name, below in fields.items() if name != "." for path in flat(below, (*prefix, name))]


@given(specs, specs)
def test_tracking_changes_neither_argument(old: Any, new: Any) -> None:
    store = WidgetStore()
    live = store.write("a", old)
    after = widget(new)
    before = copy_tree(live), copy_tree(after)
    store.write_object("b", after)
    assert (live, after) == before


@given(trees() | maps(), trees() | maps(), trees() | some.just([{}]))
def test_anything_but_an_object_is_refused_as_a_bad_patch(live: Any, new: Any, managed: Any) -> None:
    for tree in (live, new):
        if isinstance(tree, dict):
            tree.setdefault("metadata", {"managedFields": managed})
    try:
        result = track_update(live, new, manager="m", shape=WIDGET, now=START, api_version=VERSION, ignore=MAIN)
    except BadPatch:
        return
    assert isinstance(result.object, dict)


def test_an_object_too_deep_is_refused() -> None:
    with pytest.raises(BadPatch, match="deeply"):
        track_update(None, deep(100_000), manager="m", shape=ANYTHING, now=START, api_version=VERSION)


def test_the_last_of_two_entries_of_one_manager_is_left_by_a_write_that_changes_nothing():
    def entry(field: str) -> dict[str, Any]:
        fields = {"fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {f"f:{field}": {}}}}
        return {"manager": "a", "operation": "Update", "apiVersion": "v1", **fields}

    live = {"metadata": {"managedFields": [entry("x"), entry("y")]}, "spec": {"x": 1, "y": 2}}
    tracked = track_update(live, copy_tree(live), manager="b", shape=ANYTHING, now=START, api_version="v1")
    assert tracked.changed
    assert tracked.object["metadata"] == {"managedFields": [entry("y")]}
