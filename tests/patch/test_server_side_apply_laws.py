"""Property tests of server-side apply: what holds for every sequence of applies and writes."""

from datetime import timedelta
from importlib import import_module
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from levelset.errors import ApplyConflict, BadPatch
from levelset.objects import encode_tree
from levelset.objects.json_tree import copy_tree
from levelset.patch.apply import apply
from levelset.patch.field_sets import EMPTY, FieldSet, compare, fields_of, remove_fields
from levelset.patch.managed_fields import (
    NEVER_TRACKED,
    ManagedEntry,
    entry_time,
    managed_fields,
    parse_managed,
    without_managed,
)
from levelset.patch.merge_schema import ANYTHING, Shape
from tests.patch.trees_strategy import maps, scalars, trees
from tests.patch.widgets import MAIN, START, VERSION, WIDGET, WidgetStore, specs, widget

apply_module = import_module("levelset.patch.apply")  # the package exports a function of that name

LATER = START + timedelta(minutes=1)
managers = some.sampled_from(["m1", "m2", "m3"])
requests = some.lists(some.tuples(managers, some.sampled_from(["apply", "force", "write"]), specs), max_size=5)


def labelled() -> dict[str, Any]:
    """A label that every manager applies: an object without any owner counts as untracked."""
    return {"metadata": {"labels": {"l": "1"}}}


def replayed(history: list[tuple[str, str, Any]]) -> WidgetStore:
    """A store after these requests; those that conflict do not change it."""
    store = WidgetStore()
    for manager, verb, spec in history:
        before = copy_tree(store.live)
        try:
            if verb == "write":
                store.write(manager, spec, **labelled())
            else:
                store.apply(manager, spec, force=verb == "force", **labelled())
        except ApplyConflict:
            assert verb == "apply"
            assert store.live == before
    return store


def owners(store: WidgetStore) -> dict[Any, FieldSet]:
    managed = (store.live or {"metadata": {}})["metadata"].get("managedFields")
    return {key: entry.fields for key, entry in parse_managed(managed).items()}


@example([("m1", "force", {"free": {"a": None}})], {"free": None})
@given(requests, specs)
def test_applying_the_same_twice_changes_nothing(history: Any, spec: Any) -> None:
    store = replayed(history)
    live = store.apply("m1", spec, force=True, **labelled())
    store.apply("m1", copy_tree(spec), **labelled())
    assert store.live is live
    assert not store.changed


@given(requests, specs)
def test_a_forced_apply_has_no_conflict_and_the_manager_owns_the_applied_fields(history: Any, spec: Any) -> None:
    store = replayed(history)
    store.apply("m1", spec, force=True)
    assert owners(store).get(("m1", "Apply", "", ""), EMPTY) == fields_of({"spec": spec}, WIDGET)


@given(specs, specs)
def test_two_managers_with_disjoint_fields_never_conflict_in_any_order(one: Any, other: Any) -> None:
    left = {name: member for name, member in one.items() if name in {"color", "labels", "items", "free"}}
    right = {name: member for name, member in other.items() if name not in {"color", "labels", "items", "free"}}
    forth, back = WidgetStore(), WidgetStore()
    forth.apply("m1", left, **labelled())
    forth.apply("m2", right, **labelled())
    back.apply("m2", right, **labelled())
    back.apply("m1", left, **labelled())
    assert forth.spec == back.spec
    assert owners(forth) == owners(back)


@given(specs, specs, specs)
def test_a_field_that_a_manager_stops_applying_and_no_other_manager_owns_is_removed(
    first: Any, second: Any, other: Any
) -> None:
    store = WidgetStore()
    store.apply("m2", other, **labelled())
    store.apply("m1", first, force=True)
    dropped = owners(store).get(("m1", "Apply", "", ""), EMPTY) - fields_of({"spec": second}, WIDGET)
    dropped = dropped - owners(store).get(("m2", "Apply", "", ""), EMPTY)
    store.apply("m1", second, force=True)
    held = EMPTY
    for fields in owners(store).values():
        held = held | fields
    left = fields_of(store.live, WIDGET) & dropped.leaves()
    assert left - held.with_named_fields(WIDGET) == EMPTY


@given(requests)
def test_no_manager_owns_a_field_that_does_not_exist(history: Any) -> None:
    store = replayed(history)
    there = compare({}, store.live, WIDGET).changed
    for fields in owners(store).values():
        assert fields - there == EMPTY


@given(requests)
def test_after_a_forced_apply_the_object_has_the_applied_values(history: Any) -> None:
    store = WidgetStore()
    for manager, _, spec in history:
        store.apply(manager, spec, force=True, **labelled())
        wanted = widget(spec, **labelled())
        changes = compare(wanted, store.live, WIDGET)
        # A null does not change a map or a list.
        assert changes.changed & fields_of(wanted, WIDGET) == EMPTY or "None" in repr(spec)


@given(requests, specs)
def test_applying_changes_neither_argument(history: Any, spec: Any) -> None:
    store = replayed(history)
    live, config = store.live, widget(spec)
    before = copy_tree(live), copy_tree(config)
    store.apply_object("m1", config, force=True)
    assert (live, config) == before


@given(trees() | maps(), trees() | maps(), trees() | specs, some.booleans())
def test_anything_else_is_refused_as_a_bad_patch_or_a_conflict(live: Any, config: Any, more: Any, force: bool) -> None:
    if isinstance(config, dict):
        config |= {"apiVersion": VERSION, "spec": more}
    if isinstance(live, dict):
        live["spec"] = config.get("b") if isinstance(config, dict) else more
    try:
        done = apply(live, config, manager="m", shape=WIDGET, now=START, api_version=VERSION, force=force, ignore=MAIN)
    except (BadPatch, ApplyConflict):
        return
    assert isinstance(done.object, dict)


@given(trees(), specs)
def test_invalid_managed_fields_are_refused_as_a_bad_patch(managed: Any, spec: Any) -> None:
    store = WidgetStore()
    store.live = widget({"color": "red"}, metadata={"managedFields": managed})
    try:
        store.apply("m", spec, force=True)
    except BadPatch:
        return
    assert not managed


shapes = some.sampled_from([WIDGET, ANYTHING, Shape(atomic=True), Shape(fields={"metadata": Shape(atomic=True)})])
inside = some.fixed_dictionaries(
    {}, optional={"labels": trees(), "finalizers": trees(), "b": trees(), "uid": scalars, "generation": scalars}
)


@given(shapes, specs | trees(), inside, maps(), some.sampled_from([EMPTY, MAIN]))
def test_an_apply_that_creates_owns_all_that_it_specifies_and_the_server_does_not_set(
    shape: Shape, spec: Any, metadata: Any, more: Any, ignore: FieldSet
) -> None:
    config = widget(spec, metadata=metadata, **more)
    try:
        made = apply(None, config, manager="m", now=START, shape=shape, api_version=VERSION, ignore=ignore).object
    except BadPatch:
        with pytest.raises(BadPatch):
            fields_of(config, shape, strict=True)
        return
    owned = fields_of(config, shape, strict=True).recursive_difference(ignore) - NEVER_TRACKED
    entry = ManagedEntry("m", "Apply", VERSION, owned, entry_time(START))
    assert encode_tree(managed_fields(made)) == encode_tree([entry.print()] if owned else None)
    assert encode_tree(without_managed(made)) == encode_tree(remove_fields(config, ignore, shape))


entries = some.sampled_from(
    [{}, {"manager": "n"}, {"operation": "Update"}, {"apiVersion": "v0"}, {"subresource": "status"}, {"time": "never"}]
)


@given(specs, specs, entries, some.booleans())
def test_the_fast_path_for_an_only_owner_gives_the_same_result_as_the_general_one(
    first: Any, second: Any, changes: Any, force: bool
) -> None:
    live = WidgetStore().apply("m", first, **labelled())
    live["metadata"]["managedFields"][0].update(changes)
    config, outcomes = widget(second, **labelled()), list[Any]()
    known: dict[str, Any] = {"manager": "m", "shape": WIDGET, "now": LATER, "api_version": VERSION, "ignore": MAIN}
    with mock.patch.object(apply_module, "_fields_if_reapplied", wraps=apply_module._fields_if_reapplied) as again:
        for _ in range(2):
            try:
                done = apply(live, config, force=force, **known)
                outcomes.append((done.changed, encode_tree(done.object), done.object is live))
            except (BadPatch, ApplyConflict) as error:
                outcomes.append((type(error), str(error)))
            again.side_effect = lambda *_: None
    assert outcomes[0] == outcomes[1]


def test_the_only_owner_is_recognised() -> None:
    store = WidgetStore()
    store.apply("m", {"color": "red"})
    with mock.patch.object(apply_module, "parse_managed", side_effect=AssertionError):
        same = store.apply("m", {"color": "red"})
        assert not store.changed
        changed = store.apply("m", {"color": "blue"})
    assert store.changed
    times = [one["metadata"]["managedFields"][0]["time"] for one in (same, changed)]
    assert times[0] < times[1]
