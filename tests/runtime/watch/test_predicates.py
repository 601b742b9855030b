"""Predicates on an object before and after."""

from typing import Any

import pytest

from levelset.runtime.watch.predicates import Predicate, all_of, any_of, by, not_, where
from tests.runtime.watch.machine_inputs import item

PASS: Predicate = any_of(by.value(lambda obj: object()))  # a value that is always another


def made(**metadata: Any):
    """An object whose metadata have these members besides."""
    version = metadata.pop("resourceVersion", "1")
    return item("a", metadata={"name": "a", "uid": "u", "resourceVersion": version, **metadata})


@pytest.mark.parametrize(
    ("predicate", "member", "value"),
    [
        (by.resource_version, "resourceVersion", "2"),
        (by.generation, "generation", 2),
        (by.labels, "labels", {"a": "b"}),
        (by.annotations, "annotations", {"a": "b"}),
        (by.finalizers, "finalizers", ["example.dev/x"]),
        (by.deletion, "deletionTimestamp", "2026-01-01T00:00:00Z"),
    ],
    ids=repr,
)
def test_a_predicate_passes_changes_of_its_field_only(predicate, member, value) -> None:
    old = made(generation=1, name="a")
    assert predicate.passes(old, made(generation=1) if member == "generation" else old) is False
    assert predicate.passes(old, made(**{"generation": 1, member: value})) is True
    other = made(generation=1, creationTimestamp="2026-01-01T00:00:00Z")
    assert predicate.passes(old, other) is False


@pytest.mark.parametrize("predicate", [by.resource_version, by.generation, by.labels, by.annotations, by.finalizers])
def test_added_and_deleted_objects_pass(predicate: Predicate) -> None:
    assert predicate.passes(None, made())
    assert predicate.passes(made(), None)
    assert not predicate.passes(None, None)


def test_where_passes_changes_of_objects_that_fit_before_or_after() -> None:
    predicate = where(lambda obj: "ours" in obj.metadata.labels)
    ours, theirs = made(labels={"ours": ""}), made(labels={"theirs": ""})
    assert predicate.passes(None, ours)
    assert predicate.passes(ours, None)
    assert predicate.passes(ours, ours)
    assert predicate.passes(ours, theirs)
    assert predicate.passes(theirs, ours)
    assert not predicate.passes(None, theirs)
    assert not predicate.passes(theirs, None)
    assert not predicate.passes(theirs, theirs)
    assert not predicate.passes(None, None)
    assert not not_(predicate).passes(ours, ours)


def test_where_passes_an_object_for_which_its_function_raises() -> None:
    assert where(lambda obj: obj.nothing).passes(None, made())
    assert repr(where(bool)) == "where(bool)"


def test_by_generation_passes_the_start_of_a_deletion() -> None:
    dying = made(generation=1, deletionTimestamp="2026-01-01T00:00:00Z")
    assert by.generation.passes(made(generation=1), dying)
    assert not by.generation.passes(dying, dying)


def test_by_generation_passes_every_change_of_a_kind_without_generations() -> None:
    assert by.generation.passes(made(), made(resourceVersion="2"))
    assert not by.generation.passes(made(), made())


def test_labels_in_another_order_are_the_same() -> None:
    assert not by.labels.passes(made(labels={"a": "1", "b": "2"}), made(labels={"b": "2", "a": "1"}))


def test_by_value_compares_a_value_of_the_typed_object() -> None:
    by_size = by.value(lambda settings: len(settings.data))
    assert by_size.passes(item("a", data={}), item("a", data={"x": "1"}))
    assert not by_size.passes(item("a", data={"x": "1"}), item("a", data={"x": "2"}))


def test_by_value_passes_objects_that_cannot_be_decoded() -> None:
    by_size = by.value(lambda settings: len(settings.data))
    broken = item("a", data="no map")
    assert by_size.passes(broken, broken)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_any_all_and_not_have_their_truth_tables(first: bool, second: bool) -> None:
    one, two = (PASS if passes else not_(PASS) for passes in (first, second))
    for old, new in ((item("a"), item("a")), (None, item("a")), (item("a"), None)):
        assert any_of(one, two).passes(old, new) is (first or second)
        assert all_of(one, two).passes(old, new) is (first and second)
        assert not_(one).passes(old, new) is (not first)


def test_any_of_nothing_passes_nothing_and_all_of_nothing_everything() -> None:
    assert not any_of().passes(item("a"), item("a"))
    assert all_of().passes(item("a"), item("a"))


def test_the_repr_of_a_predicate_names_it() -> None:
    assert repr(any_of(by.generation, not_(by.labels))) == "any_of(by.generation, not_(by.labels))"
