"""The state map: lookup by ref and by external key, and immutable states."""

from dataclasses import dataclass

import msgspec
import pytest

from levelset.errors import ConfigError, KeyTaken
from levelset.objects import Ref
from levelset.runtime.state import StateMap
from tests.runtime.state.runs import Run, ref

Runs = StateMap[object, int, Run]
WEB, DB = ref("web"), ref("db")


@dataclass
class Loose:
    phase: str = "New"


class LooseStruct(msgspec.Struct):
    phase: str = "New"


class FrozenStruct(msgspec.Struct, frozen=True):
    phase: str = "New"


def test_a_state_is_found_by_its_object_and_by_its_key() -> None:
    runs: Runs = StateMap()
    runs.put(WEB, Run("Running"), key=17)
    assert runs.get(WEB) == runs.get(17) == Run("Running")
    assert (runs.find(17), runs.key_of(WEB)) == ((WEB, Run("Running")), 17)


def test_an_unknown_object_has_no_state() -> None:
    runs: Runs = StateMap()
    assert (runs.get(WEB), runs.get(17), runs.find(17), runs.key_of(WEB), runs.forget(WEB)) == (None,) * 5
    assert runs.forget(17) is None


def test_a_state_needs_no_key() -> None:
    runs: Runs = StateMap()
    runs.put(WEB, Run())
    runs.put(DB, Run(), key=None)
    assert (len(runs), runs.key_of(WEB), runs.key_of(DB)) == (2, None, None)


def test_putting_again_replaces_the_state_and_keeps_the_key() -> None:
    runs: Runs = StateMap()
    runs.put(WEB, Run("Starting"), key=17)
    runs.put(WEB, Run("Running"))
    assert (runs.get(17), len(runs)) == (Run("Running"), 1)


def test_a_key_can_change_and_the_old_one_is_free() -> None:
    runs: Runs = StateMap()
    runs.put(WEB, Run("old"), key=17)
    runs.put(WEB, Run("new"), key=18)
    assert (runs.find(17), runs.find(18)) == (None, (WEB, Run("new")))
    runs.put(DB, Run(), key=17)
    runs.put(WEB, Run("none"), key=None)
    assert (runs.get(18), runs.get(WEB), 17 in runs, 18 in runs) == (None, Run("none"), True, False)


def test_a_key_of_another_object_is_refused_and_nothing_changes() -> None:
    runs: Runs = StateMap()
    runs.put(WEB, Run("web"), key=17)
    runs.put(DB, Run("db"), key=18)
    with pytest.raises(
        KeyTaken, match="17 cannot be the key of Executable/default/db.*Executable/default/web"
    ) as error:
        runs.put(DB, Run("thief"), key=17)
    assert (error.value.key, error.value.owner) == (17, WEB)
    assert (runs.get(DB), runs.key_of(DB), runs.find(17)) == (Run("db"), 18, (WEB, Run("web")))


def test_forgetting_works_by_either_key_and_frees_both() -> None:
    runs: Runs = StateMap()
    runs.put(WEB, Run("web"), key=17)
    runs.put(DB, Run("db"), key=18)
    assert (runs.forget(WEB), runs.forget(18)) == (Run("web"), Run("db"))
    assert (len(runs), 17 in runs, WEB in runs, runs.find(17)) == (0, False, False, None)
    runs.put(DB, Run(), key=17)


def test_iteration_uses_a_copy() -> None:
    runs: Runs = StateMap()
    runs.put(WEB, Run("web"))
    runs.put(DB, Run("db"))
    for one in runs:
        runs.forget(one)
        runs.put(ref("other"), Run())
    assert list(runs) == [ref("other")]
    assert runs.items() == [(ref("other"), Run())]


def test_all_states_can_be_removed_at_once() -> None:
    runs: Runs = StateMap(clock=lambda: 0.0)
    runs.put(WEB, Run(), key=17)
    runs.defer(WEB, lambda run: run)
    runs.defer(DB, lambda run: run)
    runs.clear()
    assert (len(runs), runs.deferred, 17 in runs) == (0, 0, False)


@pytest.mark.parametrize("state", [{}, [], set(), bytearray(), Loose(), LooseStruct(), None])
def test_a_mutable_state_is_rejected(state: object) -> None:
    states: StateMap[object, int, object] = StateMap()
    with pytest.raises(ConfigError, match="Executable/default/web"):
        states.put(WEB, state, key=17)
    assert (len(states), 17 in states) == (0, False)


@pytest.mark.parametrize("state", [(), "text", 7, frozenset(), Run(), FrozenStruct()])
def test_a_frozen_state_is_accepted(state: object) -> None:
    states: StateMap[object, int, object] = StateMap()
    states.put(WEB, state)
    assert states.get(WEB) is state


def test_a_ref_cannot_be_an_external_key() -> None:
    states: StateMap[object, Ref[object], Run] = StateMap()
    with pytest.raises(ConfigError, match="use a string"):
        states.put(WEB, Run(), key=DB)
    assert len(states) == 0


@pytest.mark.parametrize(("limit", "orphan_timeout", "orphan_limit"), [(0, 1.0, 1), (1, 0.0, 1), (1, 1.0, 0)])
def test_bounds_are_above_zero(limit: int, orphan_timeout: float, orphan_limit: int) -> None:
    with pytest.raises(ValueError, match="must be above 0"):
        StateMap(limit=limit, orphan_timeout=orphan_timeout, orphan_limit=orphan_limit)
