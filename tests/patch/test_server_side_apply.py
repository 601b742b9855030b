from typing import Any

import pytest

from levelset.errors import ApplyConflict, BadPatch, FieldConflict
from levelset.objects.json_tree import copy_tree
from levelset.patch import builtin_shape
from levelset.patch.apply import apply
from levelset.patch.merge_schema import ANYTHING, Shape
from tests.patch.trees_strategy import deep
from tests.patch.widgets import MAIN, START, STATUS, VERSION, WIDGET, WidgetStore, widget

X, Y = 'k:{"name":"x"}', 'k:{"name":"y"}'


def conflicts(store: WidgetStore, manager: str, spec: Any) -> list[str]:
    """The fields that conflict, after making sure that the failed apply left everything as it was."""
    before = copy_tree(store.live)
    with pytest.raises(ApplyConflict) as caught:
        store.apply(manager, spec)
    assert store.live == before
    return [one.field for one in caught.value.conflicts]


def test_applying_creates_the_object_and_records_its_field_manager() -> None:
    store = WidgetStore()
    spec = {"color": "red", "items": [{"name": "x", "v": "1"}], "set": ["p"], "atom": ["q"], "labels": {"k": "v"}}
    store.apply("m1", spec, metadata={"labels": {"l": "1"}})
    assert store.spec == spec
    assert store.entries == [
        {
            "manager": "m1",
            "operation": "Apply",
            "apiVersion": VERSION,
            "time": "2026-01-01T00:01:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {"f:l": {}}},
                "f:spec": {
                    "f:atom": {},
                    "f:color": {},
                    "f:items": {X: {".": {}, "f:name": {}, "f:v": {}}},
                    "f:labels": {"f:k": {}},
                    "f:set": {'v:"p"': {}},
                },
            },
        }
    ]


def test_two_managers_may_apply_different_fields() -> None:
    store = WidgetStore()
    store.apply("m1", {"color": "red"})
    store.apply("m2", {"size": 2})
    assert store.spec == {"color": "red", "size": 2}
    assert store.owned() == {"m1": {"f:spec": {"f:color": {}}}, "m2": {"f:spec": {"f:size": {}}}}
    store.apply("m1", {})
    assert store.spec == {"size": 2}
    assert store.owned() == {"m1": {"f:spec": {}}, "m2": {"f:spec": {"f:size": {}}}}


def test_changing_a_field_of_another_manager_is_a_conflict_that_names_it() -> None:
    store = WidgetStore()
    store.apply("m1", {"color": "red", "size": 1})
    with pytest.raises(ApplyConflict) as caught:
        store.apply("m2", {"color": "blue", "size": 1})
    assert str(caught.value) == 'Apply failed with 1 conflict: conflict with "m1": .spec.color'
    assert caught.value.conflicts == (FieldConflict("m1", ".spec.color", 'conflict with "m1"'),)
    assert caught.value.causes[0].reason == "FieldManagerConflict"


def test_conflicts_are_listed_by_manager_with_the_version_of_updates() -> None:
    store = WidgetStore()
    store.apply("m1", {"color": "red", "size": 1})
    store.write("edit", {"color": "red", "size": 1, "set": ["a"], "items": [{"name": "x", "v": "1"}]})
    store.write_object("ctrl", {**(store.live or {}), "status": {"a": 1}}, subresource="status")
    with pytest.raises(ApplyConflict) as caught:
        store.apply("m2", {"color": "blue", "size": 2, "items": [{"name": "x", "v": "2"}]}, status={"a": 2})
    updated = f"using {VERSION}"
    assert str(caught.value) == "\n".join(
        [
            f'Apply failed with 4 conflicts: conflicts with "ctrl" with subresource "status" {updated}:',
            "- .status.a",
            f'conflicts with "edit" {updated}:',
            '- .spec.items[name="x"].v',
            'conflicts with "m1":',
            "- .spec.color",
            "- .spec.size",
        ]
    )


def test_force_takes_the_field_from_the_other_manager() -> None:
    store = WidgetStore()
    store.apply("m1", {"color": "red", "size": 1})
    store.apply("m2", {"color": "blue"}, force=True)
    assert store.spec == {"color": "blue", "size": 1}
    assert store.owned() == {"m1": {"f:spec": {"f:size": {}}}, "m2": {"f:spec": {"f:color": {}}}}


def test_applying_the_same_value_shares_the_field() -> None:
    store = WidgetStore()
    store.apply("m1", {"color": "red"})
    store.apply("m2", {"color": "red"})
    assert store.owned() == {"m1": {"f:spec": {"f:color": {}}}, "m2": {"f:spec": {"f:color": {}}}}
    assert conflicts(store, "m2", {"color": "blue"}) == [".spec.color"]
    store.apply("m1", {})
    assert store.spec == {"color": "red"}


def test_items_of_a_keyed_list_are_merged_from_several_managers() -> None:
    store = WidgetStore()
    store.apply("m1", {"items": [{"name": "x", "v": "1"}]})
    store.apply("m2", {"items": [{"name": "y", "v": "2"}, {"name": "x", "w": "3"}]})
    assert store.spec == {"items": [{"name": "y", "v": "2"}, {"name": "x", "v": "1", "w": "3"}]}
    assert store.owned()["m2"] == {
        "f:spec": {"f:items": {X: {".": {}, "f:name": {}, "f:w": {}}, Y: {".": {}, "f:name": {}, "f:v": {}}}}
    }
    store.apply("m1", {"items": []})
    assert store.spec == {"items": [{"name": "y", "v": "2"}, {"name": "x", "w": "3"}]}


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        ({"items": [{"name": "x", "v": "1"}, {"name": "y"}]}, {"items": [{"name": "y"}]}, {"items": [{"name": "y"}]}),
        ({"items": [{"name": "x", "v": "1", "w": "2"}]}, {"items": [{"name": "x"}]}, {"items": [{"name": "x"}]}),
        ({"set": ["a", "b"], "size": 1}, {"set": ["b"], "size": 1}, {"set": ["b"], "size": 1}),
        ({"set": ["a"], "size": 1}, {"set": [], "size": 1}, {"set": [], "size": 1}),
        ({"set": ["a"], "size": 1}, {"size": 1}, {"size": 1}),
        ({"color": "red"}, {"items": []}, {"items": []}),
        ({"labels": {"a": "1", "b": "2"}}, {"labels": {"b": "2"}}, {"labels": {"b": "2"}}),
        ({"labels": {"a": "1"}, "size": 1}, {"size": 1}, {"size": 1}),
        ({"nested": {"a": {"x": 1, "y": 2}}}, {"nested": {"a": {"y": 2}}}, {"nested": {"a": {"y": 2}}}),
        ({"free": {"a": {"b": 1, "c": 2}}}, {"free": {"a": {"c": 2}}}, {"free": {"a": {"c": 2}}}),
        ({"free": {"a": {"b": 1}, "d": 1}}, {"free": {"d": 1}}, {"free": {"d": 1}}),
        ({"whole": {"a": "1"}, "atom": ["x"]}, {"whole": {}}, {"whole": {}}),
        ({"ports": [{"port": 80}, {"port": 80, "proto": "UDP"}]}, {"ports": [{"port": 80}]}, {"ports": [{"port": 80}]}),
    ],
)
def test_fields_that_a_manager_stops_applying_are_removed(first: Any, second: Any, left: Any) -> None:
    store = WidgetStore()
    store.apply("m", first)
    store.apply("m", second)
    assert store.spec == left


def test_a_container_stays_while_any_manager_owns_a_part_of_it() -> None:
    store = WidgetStore()
    store.apply("m1", {"labels": {"a": "1"}, "items": [{"name": "x", "v": "1"}]})
    store.apply("m2", {"items": [{"name": "x", "w": "2"}]})
    store.write("w", {**store.spec, "labels": {"a": "1", "b": "2"}})
    store.apply("m1", {})
    assert store.spec == {"labels": {"b": "2"}, "items": [{"name": "x", "w": "2"}]}


def test_an_item_is_removed_with_its_last_applier_even_if_others_wrote_into_it() -> None:
    store = WidgetStore()
    store.apply("m", {"size": 1, "items": [{"name": "x"}]})
    store.write("w", {"size": 1, "items": [{"name": "x", "w": "2"}]})
    store.apply("m", {"size": 1})
    assert store.spec == {"size": 1}
    assert store.owned() == {"m": {"f:spec": {"f:size": {}}}}


def test_an_applied_empty_map_stays_beside_empty_lists_without_an_owner() -> None:
    store = WidgetStore()
    store.apply("m", {"color": "red", "set": []})
    store.apply("m", {})
    assert store.spec == {"set": []}


def test_a_container_that_another_manager_created_empty_becomes_empty_again() -> None:
    store = WidgetStore()
    store.write("w", {"labels": {}})
    store.apply("m", {"labels": {"a": "1"}})
    store.apply("m", {})
    assert store.spec == {"labels": {}}


def test_fields_without_an_owner_are_not_removed() -> None:
    store = WidgetStore()
    store.apply("m", {"items": [{"name": "x"}]})
    defaulted = copy_tree(store.live)
    defaulted["spec"]["items"][0]["v"] = "default"  # type: ignore[index, call-overload]  # as applied above
    store.live = defaulted  # type: ignore[assignment]  # as applied above
    store.apply("m", {"items": [{"name": "x"}], "size": 1})
    assert store.spec == {"items": [{"name": "x", "v": "default"}], "size": 1}
    store.apply("m", {"size": 1})
    assert store.spec == {"size": 1}


def test_a_field_that_an_update_took_over_is_not_removed_with_its_applier() -> None:
    store = WidgetStore()
    store.apply("m", {"color": "red"})
    store.write("w", {"color": "blue"})
    store.apply("m", {})
    assert store.spec == {"color": "blue"}


@pytest.mark.parametrize(
    ("mine", "theirs", "fields"),
    [
        ({"atom": ["a"]}, {"atom": ["a", "b"]}, [".spec.atom"]),
        ({"whole": {"a": "1"}}, {"whole": {"b": "1"}}, [".spec.whole"]),
        ({"items": [{"name": "x", "v": "1"}]}, {"items": [{"name": "x", "v": "2"}]}, ['.spec.items[name="x"].v']),
        ({"free": {"l": [1]}}, {"free": {"l": [2]}}, [".spec.free.l"]),
        ({"free": {"a": 1}}, {"free": {"a": True}}, [".spec.free.a"]),
        ({"size": 1}, {"size": None}, [".spec.size"]),
        ({"ports": [{"port": 80, "name": "a"}]}, {"ports": [{"proto": "TCP", "port": 80, "name": "b"}]}, None),
        ({"labels": {"a": "1"}}, {"labels": {"b": "1"}}, []),
        ({"set": ["a"]}, {"set": ["b"]}, []),
        ({"size": 1}, {"size": 1.0}, []),
    ],
)
def test_changing_a_field_of_another_owner_is_a_conflict(mine: Any, theirs: Any, fields: list[str] | None) -> None:
    store = WidgetStore()
    store.apply("m1", mine)
    if fields == []:
        store.apply("m2", theirs)
    else:
        assert conflicts(store, "m2", theirs) == (fields or ['.spec.ports[port=80,proto="TCP"].name'])


def test_a_manager_may_both_apply_and_update() -> None:
    store = WidgetStore()
    store.apply("m", {"color": "red"})
    store.write("m", {"color": "red", "size": 1})
    store.apply("m", {"color": "red", "size": 1})
    assert store.owned() == {"m": {"f:spec": {"f:color": {}, "f:size": {}}}, "m!": {"f:spec": {"f:size": {}}}}


def test_applying_the_same_again_changes_nothing() -> None:
    store = WidgetStore()
    live = store.apply("m", {"color": "red", "items": [{"name": "x"}]})
    store.apply("m", {"color": "red", "items": [{"name": "x"}]})
    assert not store.changed
    assert store.live is live


@pytest.mark.parametrize(("depth", "is_read"), [(190, True), (210, False)])
def test_unreadable_managed_fields_are_refused_to_their_only_owner_too(depth: int, is_read: bool) -> None:
    store = WidgetStore()
    store.apply("m", {"free": deep(depth, "x")})
    if is_read:
        store.apply("m", {"free": deep(depth, "x")})
        assert not store.changed
        return
    with pytest.raises(BadPatch, match="nested deeper than 200 levels"):
        store.apply("m", {"free": deep(depth, "x")})


def test_the_time_moves_when_the_manager_changed_something() -> None:
    store = WidgetStore()
    store.apply("m1", {"color": "red"})
    store.apply("m2", {"color": "red"})
    assert store.time_of("m1") == "2026-01-01T00:01:00Z"
    assert [one.get("time") for one in store.entries if one["manager"] == "m2"] == [None]  # it has changed nothing
    store.apply("m1", {"color": "red", "size": 1})
    store.apply("m1", {"color": "red", "size": 2})
    assert store.time_of("m1") == "2026-01-01T00:04:00Z"


def test_before_a_first_apply_all_existing_fields_have_one_owner() -> None:
    store = WidgetStore()
    store.live = widget({"color": "red", "size": 1}, metadata={"labels": {"l": "1"}})
    assert conflicts(store, "m", {"color": "blue"}) == [".spec.color"]
    store.apply("m", {"color": "blue"}, force=True)
    assert store.owned() == {
        "m": {"f:spec": {"f:color": {}}},
        "before-first-apply!": {
            "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
            "f:spec": {".": {}, "f:size": {}},
        },
    }


def test_fields_that_the_endpoint_resets_are_neither_merged_nor_owned() -> None:
    store = WidgetStore()
    config = widget({"color": "red"}, status={"phase": "x"})
    options: Any = {"shape": WIDGET, "now": START, "api_version": VERSION}
    store.live = apply(None, config, manager="m", ignore=MAIN, **options).object
    assert "status" not in store.live
    config = widget({"color": "ignored"}, status={"phase": "ok"})
    done = apply(store.live, config, manager="c", ignore=STATUS, subresource="status", **options)
    store.live = done.object
    assert (store.spec, store.live["status"]) == ({"color": "red"}, {"phase": "ok"})
    assert store.owned() == {"c": {"f:status": {"f:phase": {}}}, "m": {"f:spec": {"f:color": {}}}}
    assert [entry.get("subresource") for entry in store.entries] == ["status", None]


def test_items_stored_twice_are_tolerated_until_one_is_applied() -> None:
    store = WidgetStore()
    twice = [{"name": "x", "v": "1"}, {"name": "x", "v": "2"}, {"name": "y"}]
    store.write("w", {"items": twice})
    store.apply("m", {"items": [{"name": "z"}]})
    assert store.spec == {"items": [*twice, {"name": "z"}]}
    assert conflicts(store, "m", {"items": [{"name": "x", "w": "1"}]}) == ['.spec.items[name="x"]']
    store.apply("m", {"items": [{"name": "x", "w": "1"}]}, force=True)
    assert store.spec == {"items": [{"name": "x", "w": "1"}, {"name": "y"}]}


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (None, None),
        ([], None),
        (widget({}, apiVersion="v2"), "apiVersion"),
        ({"kind": "Widget"}, "apiVersion"),
        (widget({}, metadata={"managedFields": []}), "metadata.managedFields"),
        ({**widget(), "metadata": "a"}, "metadata"),
        (widget({"items": [{"v": "1"}]}), ".spec.items[0]"),
        (widget({"items": [{"name": "x"}, {"name": "x"}]}), ".spec.items"),
        (widget({"labels": {1: "a"}}), ".spec.labels.1"),
    ],
)
def test_a_config_that_cannot_be_applied_is_refused_with_its_place(config: Any, field: str | None) -> None:
    with pytest.raises(BadPatch) as caught:
        WidgetStore().apply_object("m", config)
    assert caught.value.field == field


def test_a_stored_object_whose_owners_cannot_be_read_is_refused() -> None:
    store = WidgetStore()
    store.live = widget({}, metadata={"managedFields": [{"manager": "m"}]})
    with pytest.raises(BadPatch, match=r"managedFields\[0\]"):
        store.apply("m", {})


def test_an_object_too_deep_is_refused() -> None:
    with pytest.raises(BadPatch, match="deeply"):
        WidgetStore().apply_object("m", {**widget(), "spec": deep(100_000)})


def test_an_apply_after_a_field_became_atomic_owns_it_as_a_whole() -> None:
    store = WidgetStore()
    store.apply("m", {"labels": {"a": "1"}})
    shape = Shape(fields={"metadata": ANYTHING, "spec": Shape(fields={"labels": Shape(atomic=True)})})
    options: Any = {"shape": shape, "now": START, "api_version": VERSION}
    done = apply(store.live, widget({"labels": {"b": "2"}}), manager="m", **options)
    assert done.object["spec"] == {"labels": {"b": "2"}}


def test_containers_of_a_deployment_are_applied_by_name() -> None:
    shape = builtin_shape("apps", "v1", "Deployment")
    assert shape is not None
    options: Any = {"shape": shape, "now": START, "api_version": "apps/v1"}
    first = deployment({"name": "a", "image": "a:1", "ports": [{"containerPort": 80}]}, {"name": "b", "image": "b:1"})
    second = deployment({"name": "side", "image": "s:1"}, {"name": "a", "env": [{"name": "Z", "value": "3"}]})
    live = apply(None, first, manager="m1", **options).object
    done: Any = apply(live, second, manager="m2", **options).object
    containers = done["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in containers] == ["side", "a", "b"]
    assert containers[1] == {**first["spec"]["template"]["spec"]["containers"][0], "env": [{"name": "Z", "value": "3"}]}
    owned = done["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    ports: Any = {'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}}
    assert owned['k:{"name":"a"}'] == {".": {}, "f:image": {}, "f:name": {}, "f:ports": ports}


def deployment(*containers: dict[str, Any]) -> Any:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": list(containers)}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": template}}
