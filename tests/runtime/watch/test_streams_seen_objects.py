"""The traces of objects that a predicate has seen."""

import pytest

from levelset.errors import ConfigError
from levelset.runtime.watch.predicates import by
from levelset.runtime.watch.streams import SeenObjects
from tests.runtime.watch.machine_inputs import item


def same(version: str = "1", *, uid: str = "u", name: str = "a"):
    """An object that differs only in its version."""
    return item(name, metadata={"name": name, "uid": uid, "resourceVersion": version, "generation": 1})


def test_an_unchanged_object_passes_once() -> None:
    memory = SeenObjects(by.generation, 60.0)
    assert [memory.passes(same(version), 0.0) for version in "123"] == [True, False, False]


def test_a_recreated_object_with_the_same_generation_is_another_one() -> None:
    memory = SeenObjects(by.generation, 60.0)
    assert memory.passes(same(uid="u1"), 0.0)
    assert memory.passes(same(uid="u2"), 0.0)


def test_an_object_not_seen_for_long_counts_as_new() -> None:
    memory = SeenObjects(by.generation, 60.0)
    assert [memory.passes(same(), when) for when in (0.0, 59.0, 118.0, 178.0)] == [True, False, False, True]


def test_traces_of_objects_that_are_no_longer_seen_expire() -> None:
    memory = SeenObjects(by.generation, 60.0)
    for number in range(100):
        memory.passes(same(name=f"a{number}"), 1.0)
    memory.passes(same(name="b"), 30.0)
    memory.passes(same(name="c"), 62.0)
    assert len(memory) == 2


def test_a_deleted_object_is_new_when_it_is_recreated() -> None:
    memory = SeenObjects(by.generation, 60.0)
    memory.passes(same(), 0.0)
    memory.forget(same("9"))
    memory.forget(same("9"))
    assert len(memory) == 0
    assert memory.passes(same(), 0.0)


def test_the_memory_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="memory=0"):
        SeenObjects(by.generation, 0)
