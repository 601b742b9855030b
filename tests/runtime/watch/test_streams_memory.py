"""What was seen of each object."""

import pytest

from levelset.errors import ConfigError
from levelset.runtime.watch.predicates import by
from levelset.runtime.watch.streams import Memory
from tests.runtime.watch.scripted import item


def same(version: str = "1", *, uid: str = "u", name: str = "a"):
    """An object that differs only in its version."""
    return item(name, metadata={"name": name, "uid": uid, "resourceVersion": version, "generation": 1})


def test_what_has_not_changed_is_seen_once() -> None:
    memory = Memory(by.generation, 60.0)
    assert [memory.passes(same(version), 0.0) for version in "123"] == [True, False, False]


def test_an_object_made_again_with_the_same_generation_is_another() -> None:
    memory = Memory(by.generation, 60.0)
    assert memory.passes(same(uid="u1"), 0.0)
    assert memory.passes(same(uid="u2"), 0.0)


def test_what_was_not_seen_for_long_is_as_new() -> None:
    memory = Memory(by.generation, 60.0)
    assert [memory.passes(same(), when) for when in (0.0, 59.0, 118.0, 178.0)] == [True, False, False, True]


def test_what_nobody_sees_any_more_is_forgotten() -> None:
    memory = Memory(by.generation, 60.0)
    for number in range(100):
        memory.passes(same(name=f"a{number}"), 1.0)
    memory.passes(same(name="b"), 30.0)
    memory.passes(same(name="c"), 62.0)
    assert len(memory) == 2


def test_what_is_gone_is_forgotten_and_is_new_when_it_comes_again() -> None:
    memory = Memory(by.generation, 60.0)
    memory.passes(same(), 0.0)
    memory.forget(same("9"))
    memory.forget(same("9"))
    assert len(memory) == 0
    assert memory.passes(same(), 0.0)


def test_nothing_can_be_remembered_for_no_time() -> None:
    with pytest.raises(ConfigError, match="memory=0"):
        Memory(by.generation, 0)
