"""Immutable children: names of parent, hash and sequence, and which children are missing or stale."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.objects import Object, ObjectMeta, Resource, Spec, Status
from levelset.runtime.controller import ImmutableChildren
from levelset.runtime.controller.immutable_children import data_hash


class RunSpec(Spec):
    image: str
    workers: int = 1


class WiderRunSpec(Spec):
    workers: int = 1
    image: str
    priority: int = 0


class Run(Resource[RunSpec, Status], api="example.dev/v1"):
    """A parent."""


class Pod(Object, api="v1"):
    """A child."""


def run(name: str = "import") -> Run:
    return Run.new(name, RunSpec(image="a"), namespace="default")


def pod(name: str, *, deleted: bool = False) -> Pod:
    when = datetime(2026, 1, 1, tzinfo=UTC) if deleted else None
    return Pod(metadata=ObjectMeta(name=name, namespace="default", deletion_timestamp=when))


def test_a_name_is_the_parent_the_hash_and_the_sequence_number() -> None:
    children = ImmutableChildren(run(), {"image": "a"}, count=3)
    assert children.names == tuple(f"import-{data_hash({'image': 'a'})}-{number}" for number in range(3))
    assert len(children.hash) == 10


def test_the_hash_is_the_same_in_every_process() -> None:
    assert data_hash({"image": "a", "ports": [1, 2]}) == "gllb2g2zmf"


def test_the_hash_depends_on_values_and_not_on_order_or_on_new_fields_with_a_default() -> None:
    assert data_hash({"a": 1, "b": 2}) == data_hash({"b": 2, "a": 1})
    assert data_hash(RunSpec(image="a")) == data_hash(WiderRunSpec(image="a")) == data_hash({"image": "a"})
    assert data_hash([1, 2]) != data_hash([2, 1])
    assert data_hash(RunSpec(image="a")) != data_hash(RunSpec(image="b"))


def test_children_are_missing_current_or_stale() -> None:
    old = ImmutableChildren(run(), "old", count=2)
    new = ImmutableChildren(run(), "new", count=2)
    there = [pod(old.names[0]), pod(old.names[1], deleted=True), pod(new.names[1]), pod("another")]
    assert new.missing(there) == (new.names[0],)
    assert [one.name for one in new.current(there)] == [new.names[1]]
    assert [one.name for one in new.stale(there)] == [old.names[0], "another"]
    assert new.is_current(there[2])


def test_a_child_that_is_being_deleted_is_neither_current_nor_missing_until_it_is_gone() -> None:
    children = ImmutableChildren(run(), "data")
    dying = [pod(children.names[0], deleted=True)]
    assert (children.current(dying), children.missing(dying), children.stale(dying)) == ([], (), [])
    assert children.missing([]) == children.names


def test_fewer_children_make_the_last_ones_stale() -> None:
    many = [pod(name) for name in ImmutableChildren(run(), "data", count=3).names]
    few = ImmutableChildren(run(), "data", count=1)
    assert [one.name for one in few.stale(many)] == [many[1].name, many[2].name]
    assert [one.name for one in ImmutableChildren(run(), "data", count=0).stale(many)] == [one.name for one in many]


@given(name=st.from_regex(r"[a-z0-9]([-a-z0-9]{0,251}[a-z0-9])?", fullmatch=True), count=st.integers(1, 200))
def test_names_fit_into_63_characters_and_differ(name: str, count: int) -> None:
    names = ImmutableChildren(run(name), "data", count=count).names
    assert len(set(names)) == count
    assert all(len(one) <= 63 and one[0].isalnum() and "--" not in one.removeprefix(name) for one in names)


def test_parents_whose_long_names_are_cut_have_children_of_different_names() -> None:
    one, other = (ImmutableChildren(run("x" * 80 + end), "data") for end in ("a", "b"))
    assert one.names != other.names


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match="count=-1"):
        ImmutableChildren(run(), "data", count=-1)
