"""How many Pods each ReplicaSet has next: tables, and the two promises of a roll under any course of events."""

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelset.kinds.apps_v1 import DeploymentSpec
from levelset.objects import from_tree
from levelset_local.deployments.rolling import Limits, Size, limits_of, roll, spread
from systems.local.tests.samples import deployment


def spec(**given: Any) -> DeploymentSpec:
    return deployment(**given).spec


def rolling(surge: object, unavailable: object) -> dict[str, object]:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (3, "25%", "25%", Limits(3, 1, 0)),  # up for the surge, down for what may be missing
        (10, "25%", "25%", Limits(10, 3, 2)),
        (1, "25%", "25%", Limits(1, 1, 0)),
        (4, 1, 0, Limits(4, 1, 0)),
        (4, 0, 2, Limits(4, 0, 2)),
        (4, 0, 0, Limits(4, 0, 1)),  # else nothing could ever change
        (3, 0, "25%", Limits(3, 0, 1)),
        (2, 0, 5, Limits(2, 0, 2)),  # no more can be missing than there are
        (0, "25%", "25%", Limits(0, 0, 0)),
        (10, "150%", "100%", Limits(10, 15, 10)),
        (4, "nonsense", "0%", Limits(4, 0, 1)),
    ],
)
def test_limits_are_numbers_or_shares(replicas: int, surge: object, unavailable: object, expected: Limits) -> None:
    assert limits_of(spec(replicas=replicas, strategy=rolling(surge, unavailable))) == expected


def test_limits_that_are_left_out_are_a_quarter() -> None:
    assert limits_of(spec(replicas=8)) == Limits(8, 2, 2)
    assert limits_of(from_tree(DeploymentSpec, {"selector": {}, "template": {"spec": {"containers": []}}})).desired == 1


def test_a_deployment_that_recreates_may_miss_nothing_to_be_available() -> None:
    assert limits_of(spec(replicas=8, strategy={"type": "Recreate"})) == Limits(8)


def size(name: str, wanted: int, **more: Any) -> Size:
    given: dict[str, Any] = {"name": name, "wanted": wanted, "there": wanted, "available": wanted, **more}
    return Size(**given)


@pytest.mark.parametrize(
    ("new", "olds", "limits", "expected"),
    [
        # A first template starts at full size.
        (size("new", 0), [], Limits(3, 1), {"new": 3}),
        # One more than wanted, then one old one less for each that is available.
        (size("new", 0), [size("old", 3)], Limits(3, 1), {"new": 1, "old": 3}),
        (size("new", 1, available=0), [size("old", 3)], Limits(3, 1), {"new": 1, "old": 3}),
        (size("new", 1), [size("old", 3)], Limits(3, 1), {"new": 1, "old": 2}),
        (size("new", 1), [size("old", 2)], Limits(3, 1), {"new": 2, "old": 2}),
        # Without surge the old ones go first.
        (size("new", 0), [size("old", 4)], Limits(4, 0, 2), {"new": 0, "old": 2}),
        (size("new", 0), [size("old", 2)], Limits(4, 0, 2), {"new": 2, "old": 2}),
        # Both at once.
        (size("new", 0), [size("old", 10)], Limits(10, 3, 2), {"new": 3, "old": 8}),
        # What is still there counts, although it is not wanted any more.
        (size("new", 0), [size("old", 2, there=4)], Limits(4, 0, 2), {"new": 0, "old": 2}),
        # Nothing moves before everybody has taken notice.
        (size("new", 1), [size("old", 3, is_current=False)], Limits(3, 1), {"new": 1, "old": 3}),
        (size("new", 1, is_current=False), [size("old", 3)], Limits(3, 1), {"new": 1, "old": 3}),
        # What serves nobody goes first, the oldest before the others.
        (size("new", 1, available=0), [size("old", 3, available=1)], Limits(3, 1, 1), {"new": 1, "old": 2}),
        (size("new", 3), [size("a", 1), size("b", 1, available=0)], Limits(3, 2), {"new": 3, "a": 0, "b": 0}),
        # Too many new ones are cut to what is wanted.
        (size("new", 5), [], Limits(3, 1), {"new": 3}),
        # Nothing is wanted at all.
        (size("new", 2), [size("old", 1)], Limits(0), {"new": 0, "old": 0}),
    ],
)
def test_the_next_step_of_a_roll(new: Size, olds: list[Size], limits: Limits, expected: dict[str, int]) -> None:
    assert roll(new, olds, limits) == expected


@pytest.mark.parametrize(
    ("sizes", "limits", "expected"),
    [
        # Ten of 10 and 3 more: from 8 and 5 to twice as many, in proportion.
        ([size("a", 8, room=13), size("b", 5, room=13)], Limits(20, 5), {"a": 15, "b": 10}),
        # What is left after rounding goes to the largest.
        ([size("a", 5, room=10), size("b", 5, room=10)], Limits(11, 0), {"a": 5, "b": 6}),
        ([size("a", 6, room=12), size("b", 6, room=12)], Limits(5, 1), {"a": 3, "b": 3}),
        ([size("a", 3), size("b", 1)], Limits(0, 0), {"a": 0, "b": 0}),
        ([size("a", 2, room=4), size("b", 2, room=4)], Limits(3, 1), {"a": 2, "b": 2}),
        ([], Limits(3, 1), {}),
    ],
)
def test_a_change_of_size_is_spread(sizes: list[Size], limits: Limits, expected: dict[str, int]) -> None:
    assert spread(sizes, limits) == expected


COUNTS = st.integers(0, 20)


@given(st.lists(st.tuples(COUNTS, COUNTS), max_size=5), st.integers(0, 30), st.integers(0, 10))
def test_sizes_that_were_spread_add_up(given: list[tuple[int, int]], desired: int, surge: int) -> None:
    sizes = [size(f"s{place}", wanted, room=wanted + more) for place, (wanted, more) in enumerate(given)]
    limits = Limits(desired, surge)
    found = spread(sizes, limits)
    assert all(count >= 0 for count in found.values())
    if found:
        assert sum(found.values()) == limits.most


@dataclass
class Set:
    """A pretend ReplicaSet: what it is told, what it has done about it, and what it says of that."""

    name: str
    told: int = 0
    pods: int = 0
    ready: int = 0
    said: tuple[int, int] = (0, 0)
    noticed: bool = True

    def act(self) -> None:
        self.ready -= max(0, self.ready - self.told)  # what is not ready goes first
        self.pods = self.told

    def say(self) -> None:
        self.said = (self.pods, self.ready)
        self.noticed = self.pods == self.told

    def size(self) -> Size:
        there, available = self.said
        return Size(name=self.name, wanted=self.told, there=there, available=available, is_current=self.noticed)

    def tell(self, wanted: int) -> None:
        if wanted != self.told:
            self.told, self.noticed = wanted, False


LIMITS = st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(0, 6)).map(
    lambda it: Limits(it[0], it[1], min(it[0], it[2] or (0 if it[1] else 1)))
)


@settings(max_examples=300)
@given(LIMITS, st.lists(st.sampled_from(["act", "say", "ready", "roll", "turn"]), max_size=120), st.randoms())
def test_a_roll_keeps_its_word_whatever_happens_when(limits: Limits, course: list[str], chance: Random) -> None:
    """New templates may come in the middle, and each part acts, and tells, when it likes."""
    sets = [Set("a", limits.desired, limits.desired, limits.desired, (limits.desired, limits.desired)), Set("b")]
    target = 1
    for event in course:
        one = chance.choice(sets)
        match event:
            case "act":
                one.act()
            case "say":
                one.say()
            case "ready":
                one.ready = one.pods
            case "turn":
                target = 1 - target
            case _:
                step(sets, target, limits)
        assert sum(it.pods for it in sets) <= limits.most
        assert sum(it.ready for it in sets) >= limits.least
    finish(sets, target, limits)


def step(sets: list[Set], target: int, limits: Limits) -> None:
    new, old = sets[target], sets[1 - target]
    found = roll(new.size(), [old.size()], limits)
    for one in sets:
        one.tell(found[one.name])


def finish(sets: list[Set], target: int, limits: Limits) -> None:
    """Left alone, it always comes to its end, and stays there."""
    for _ in range(4 * (limits.desired + 2)):
        for one in sets:
            one.act()
            one.ready = one.pods
            one.say()
        step(sets, target, limits)
    assert [one.told for one in sets] == [limits.desired if place == target else 0 for place in range(2)]
    before = [replace(one) for one in sets]
    step(sets, target, limits)
    assert sets == before
