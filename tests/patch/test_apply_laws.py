"""What holds for every sequence of applies and writes, found by trying many."""

from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.errors import ApplyConflict, BadPatch
from levelset.objects import encode_tree
from levelset.objects.json_tree import copy_tree
from levelset.patch import apply as apply_module
from levelset.patch.apply import apply, first_managed
from levelset.patch.field_sets import EMPTY, FieldSet
from levelset.patch.managed_fields import entry_time, managed_fields, parse_managed
from levelset.patch.merge_schema import ANYTHING, Shape
from levelset.patch.object_fields import compare, fields_of
from tests.patch.trees_strategy import maps, scalars, trees
from tests.patch.widgets import MAIN, START, VERSION, WIDGET, World, specs, widget

LATER = START + timedelta(minutes=1)
managers = some.sampled_from(["m1", "m2", "m3"])
requests = some.lists(some.tuples(managers, some.sampled_from(["apply", "force", "write"]), specs), max_size=5)


def labelled() -> dict[str, Any]:
    """What everybody applies besides: an object of which nobody owns anything counts as untracked."""
    return {"metadata": {"labels": {"l": "1"}}}


def replayed(history: list[tuple[str, str, Any]]) -> World:
    """A world after these requests; those that conflict leave it as it was."""
    world = World()
    for manager, verb, spec in history:
        before = copy_tree(world.live)
        try:
            if verb == "write":
                world.write(manager, spec, **labelled())
            else:
                world.apply(manager, spec, force=verb == "force", **labelled())
        except ApplyConflict:
            assert verb == "apply"
            assert world.live == before
    return world


def owners(world: World) -> dict[Any, FieldSet]:
    managed = (world.live or {"metadata": {}})["metadata"].get("managedFields")
    return {key: entry.fields for key, entry in parse_managed(managed).items()}


@given(requests, specs)
def test_applying_the_same_twice_changes_nothing(history: Any, spec: Any) -> None:
    world = replayed(history)
    live = world.apply("m1", spec, force=True, **labelled())
    world.apply("m1", copy_tree(spec), **labelled())
    assert world.live is live
    assert not world.changed


@given(requests, specs)
def test_force_makes_no_conflict_and_the_manager_owns_what_it_applied(history: Any, spec: Any) -> None:
    world = replayed(history)
    world.apply("m1", spec, force=True)
    assert owners(world).get(("m1", "Apply", "", ""), EMPTY) == fields_of({"spec": spec}, WIDGET)


@given(specs, specs)
def test_two_managers_with_disjoint_fields_never_conflict_in_any_order(one: Any, other: Any) -> None:
    left = {name: member for name, member in one.items() if name in {"color", "labels", "items", "free"}}
    right = {name: member for name, member in other.items() if name not in {"color", "labels", "items", "free"}}
    forth, back = World(), World()
    forth.apply("m1", left, **labelled())
    forth.apply("m2", right, **labelled())
    back.apply("m2", right, **labelled())
    back.apply("m1", left, **labelled())
    assert forth.spec == back.spec
    assert owners(forth) == owners(back)


@given(specs, specs, specs)
def test_what_a_manager_stops_applying_and_nobody_else_owns_is_gone(first: Any, second: Any, other: Any) -> None:
    world = World()
    world.apply("m2", other, **labelled())
    world.apply("m1", first, force=True)
    dropped = owners(world).get(("m1", "Apply", "", ""), EMPTY) - fields_of({"spec": second}, WIDGET)
    dropped = dropped - owners(world).get(("m2", "Apply", "", ""), EMPTY)
    world.apply("m1", second, force=True)
    held = EMPTY
    for fields in owners(world).values():
        held = held | fields
    left = fields_of(world.live, WIDGET) & dropped.leaves()
    assert left - held.with_named_fields(WIDGET) == EMPTY


@given(requests)
def test_nobody_owns_a_field_that_is_not_there(history: Any) -> None:
    world = replayed(history)
    there = compare({}, world.live, WIDGET).changed
    for fields in owners(world).values():
        assert fields - there == EMPTY


@given(requests)
def test_what_is_applied_with_force_is_what_is_there(history: Any) -> None:
    world = World()
    for manager, _, spec in history:
        world.apply(manager, spec, force=True, **labelled())
        wanted = widget(spec, **labelled())
        changes = compare(wanted, world.live, WIDGET)
        # A null asks for nothing where there is a map or a list.
        assert changes.changed & fields_of(wanted, WIDGET) == EMPTY or "None" in repr(spec)


@given(requests, specs)
def test_applying_changes_neither_argument(history: Any, spec: Any) -> None:
    world = replayed(history)
    live, config = world.live, widget(spec)
    before = copy_tree(live), copy_tree(config)
    world.apply_object("m1", config, force=True)
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
def test_owners_that_are_none_are_refused_as_a_bad_patch(managed: Any, spec: Any) -> None:
    world = World()
    world.live = widget({"color": "red"}, metadata={"managedFields": managed})
    try:
        world.apply("m", spec, force=True)
    except BadPatch:
        return
    assert not managed


shapes = some.sampled_from([WIDGET, ANYTHING, Shape(atomic=True), Shape(fields={"metadata": Shape(atomic=True)})])
inside = some.fixed_dictionaries(
    {}, optional={"labels": trees(), "finalizers": trees(), "b": trees(), "uid": scalars, "generation": scalars}
)


@given(shapes, specs | trees(), inside, maps())
def test_what_is_owned_at_first_is_what_an_apply_to_nothing_gives(
    shape: Shape, spec: Any, metadata: Any, more: Any
) -> None:
    config = widget(spec, metadata=metadata, **more)
    known: dict[str, Any] = {"shape": shape, "api_version": VERSION}
    try:
        made = managed_fields(apply(None, config, manager="m", now=START, **known).object)
    except BadPatch:
        with pytest.raises(BadPatch):
            first_managed(config, manager="m", time=entry_time(START), **known)
        return
    found = first_managed(config, manager="m", time=entry_time(START), **known)
    assert encode_tree(found) == encode_tree(made)


entries = some.sampled_from(
    [{}, {"manager": "n"}, {"operation": "Update"}, {"apiVersion": "v0"}, {"subresource": "status"}, {"time": "never"}]
)


@given(specs, specs, entries, some.booleans())
def test_what_the_only_owner_applies_again_comes_out_as_for_one_of_many(
    first: Any, second: Any, changes: Any, force: bool
) -> None:
    live = World().apply("m", first, **labelled())
    live["metadata"]["managedFields"][0].update(changes)
    config, outcomes = widget(second, **labelled()), list[Any]()
    known: dict[str, Any] = {"manager": "m", "shape": WIDGET, "now": LATER, "api_version": VERSION, "ignore": MAIN}
    with mock.patch.object(apply_module, "_fields_again", wraps=apply_module._fields_again) as again:
        for _ in range(2):
            try:
                done = apply(live, config, force=force, **known)
                outcomes.append((done.changed, encode_tree(done.object), done.object is live))
            except (BadPatch, ApplyConflict) as error:
                outcomes.append((type(error), str(error)))
            again.side_effect = lambda *_: None
    assert outcomes[0] == outcomes[1]


def test_the_only_owner_is_recognised() -> None:
    world = World()
    world.apply("m", {"color": "red"})
    with mock.patch.object(apply_module, "parse_managed", side_effect=AssertionError):
        same = world.apply("m", {"color": "red"})
        assert not world.changed
        changed = world.apply("m", {"color": "blue"})
    assert world.changed
    times = [one["metadata"]["managedFields"][0]["time"] for one in (same, changed)]
    assert times[0] < times[1]
