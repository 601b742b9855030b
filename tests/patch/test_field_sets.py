from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.patch.field_paths import path
from levelset.patch.field_sets import EMPTY, FieldSet
from levelset.patch.merge_schema import ANYTHING, Shape

SPEC, COLOR, SIZE = path("spec"), path("spec", "color"), path("spec", "size")
WEB, IMAGE = path("spec", "items", {"name": "web"}), path("spec", "items", {"name": "web"}, "image")

steps = some.sampled_from(["f:a", "f:b", 'k:{"n":1}', 'v:"x"'])
paths = some.lists(steps, min_size=1, max_size=3).map(tuple)
plain_sets = some.frozensets(paths, max_size=6)
sets = plain_sets.map(lambda found: FieldSet.of(*found))


def canonical(node: dict[str, Any], *, root: bool = True) -> bool:
    """Whether a tree is in canonical form, which all operations preserve."""
    if (root and "." in node) or list(node) == ["."]:
        return False
    return all(not child if name == "." else canonical(child, root=False) for name, child in node.items())


def test_a_path_is_in_the_set_independently_of_paths_around_it() -> None:
    fields = FieldSet.of(SPEC, IMAGE)
    assert SPEC in fields
    assert IMAGE in fields
    assert COLOR not in fields
    assert WEB not in fields
    assert fields.tree == {"f:spec": {".": {}, "f:items": {'k:{"name":"web"}': {"f:image": {}}}}}


def test_the_whole_object_and_the_dot_are_no_paths() -> None:
    assert FieldSet.of(()) == EMPTY
    assert () not in FieldSet.of(SPEC)
    assert ("f:spec", ".") not in FieldSet.of(SPEC, COLOR)


def test_inserting_does_not_mutate_the_old_set() -> None:
    before = FieldSet.of(COLOR)
    after = before.insert(SIZE)
    assert set(before) == {COLOR}
    assert set(after) == {COLOR, SIZE}


def test_paths_come_in_the_order_of_kubernetes() -> None:
    fields = FieldSet.of(IMAGE, SIZE, COLOR, WEB, SPEC, path("data"))
    assert list(fields) == [path("data"), SPEC, COLOR, SIZE, WEB, IMAGE]


def test_a_set_prints_its_paths() -> None:
    assert repr(FieldSet.of(IMAGE, SPEC)) == 'FieldSet(.spec, .spec.items[name="web"].image)'


def test_the_recursive_difference_also_removes_descendants() -> None:
    fields = FieldSet.of(SPEC, COLOR, WEB, IMAGE, path("status"))
    assert set(fields - FieldSet.of(WEB)) == {SPEC, COLOR, IMAGE, path("status")}
    assert set(fields.recursive_difference(FieldSet.of(WEB))) == {SPEC, COLOR, path("status")}
    assert set(fields.recursive_difference(FieldSet.of(SPEC))) == {path("status")}


def test_leaves_are_the_paths_with_none_below() -> None:
    assert set(FieldSet.of(SPEC, COLOR, WEB, IMAGE).leaves()) == {COLOR, IMAGE}


def test_the_subset_under_an_element_has_relative_paths() -> None:
    fields = FieldSet.of(SPEC, COLOR)
    assert fields.under("f:spec") == FieldSet.of(path("color"))
    assert fields.under("f:status") == EMPTY


def test_named_ancestors_of_a_path_can_be_added() -> None:
    shape = Shape(fields={"spec": Shape(fields={"map": Shape(items=ANYTHING)})})
    fields = FieldSet.of(path("spec", "map", "k", "x"))
    assert set(fields.with_named_fields(shape)) == {path("spec"), path("spec", "map"), path("spec", "map", "k", "x")}


def test_owning_a_part_of_a_field_that_became_atomic_is_owning_all_of_it() -> None:
    shape = Shape(fields={"map": Shape(atomic=True), "list": Shape(), "free": ANYTHING})
    fields = FieldSet.of(path("map", "a"), path("list", {"name": "x"}, "v"), path("free", "a", "b"))
    assert set(fields.fitted(shape)) == {path("map"), path("list"), path("free", "a", "b")}
    along = FieldSet.of(path("map"))
    assert path("list", {"name": "x"}, "v") in fields.fitted(shape, along=along)
    assert path("map") in fields.fitted(shape, along=along)


def test_a_set_that_fits_is_not_copied() -> None:
    fields = FieldSet.of(path("a", "b"))
    assert fields.fitted(ANYTHING) is fields


@pytest.mark.parametrize("fields", [EMPTY, FieldSet.of(COLOR), FieldSet.of(SPEC, COLOR)])
def test_a_set_is_empty_only_without_paths(fields: FieldSet) -> None:
    assert fields.is_empty() is (len(fields) == 0) is (not fields) is (fields == EMPTY)


@given(plain_sets, plain_sets)
def test_sets_of_paths_behave_as_sets(left: frozenset[Any], right: frozenset[Any]) -> None:
    one, other = FieldSet.of(*left), FieldSet.of(*right)
    assert set(one | other) == left | right
    assert set(one & other) == left & right
    assert set(one - other) == left - right
    assert (one == other) is (left == right)
    assert len(one) == len(left)
    assert all(one.has(path) for path in left)


@given(plain_sets, plain_sets)
def test_the_recursive_difference_knows_prefixes(left: frozenset[Any], right: frozenset[Any]) -> None:
    remaining = {one for one in left if not any(one[: len(other)] == other for other in right)}
    assert set(FieldSet.of(*left).recursive_difference(FieldSet.of(*right))) == remaining


@given(plain_sets)
def test_a_leaf_has_nothing_below(found: frozenset[Any]) -> None:
    remaining = {one for one in found if not any(other != one and other[: len(one)] == one for other in found)}
    assert set(FieldSet.of(*found).leaves()) == remaining


@given(sets, sets, sets)
def test_the_laws_of_sets_hold(a: FieldSet, b: FieldSet, c: FieldSet) -> None:
    assert a | b == b | a
    assert (a | b) | c == a | (b | c)
    assert a & (b | c) == (a & b) | (a & c)
    assert a - (b | c) == (a - b) - c
    assert (a - b) | (a & b) == a
    assert hash(a | b) == hash(b | a)


@given(sets, sets)
def test_every_operation_keeps_the_form_and_the_order(a: FieldSet, b: FieldSet) -> None:
    for made in (a | b, a & b, a - b, a.recursive_difference(b), a.leaves()):
        assert canonical(made.tree)
        assert [str(made.tree)] == [str(FieldSet.of(*made).tree)]


@given(plain_sets, plain_sets)
def test_no_operation_changes_its_operands(left: frozenset[Any], right: frozenset[Any]) -> None:
    one, other = FieldSet.of(*left), FieldSet.of(*right)
    shown = repr(one), repr(other)
    assert [one | other, one & other, one - other, one.recursive_difference(other)]
    assert (repr(one), repr(other)) == shown
