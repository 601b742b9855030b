"""The next sizes of ReplicaSets: tables, and the two limits of a rolling update under any course of events."""

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelset.kinds.apps_v1 import DeploymentSpec
from levelset.objects import from_tree
from levelset_local.deployments.rollout import (
    ReplicaSetSize,
    RolloutLimits,
    rolling_sizes,
    rollout_limits,
    scale_proportionally,
)
from systems.local.tests.samples import deployment


def spec(**given: Any) -> DeploymentSpec:
    return deployment(**given).spec


def rolling(surge: object, unavailable: object) -> dict[str, object]:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (3, "25%", "25%", RolloutLimits(3, 1, 0)),  # rounded up for the surge, down for unavailable
        (10, "25%", "25%", RolloutLimits(10, 3, 2)),
        (1, "25%", "25%", RolloutLimits(1, 1, 0)),
        (4, 1, 0, RolloutLimits(4, 1, 0)),
        (4, 0, 2, RolloutLimits(4, 0, 2)),
        (4, 0, 0, RolloutLimits(4, 0, 1)),  # otherwise no step would be possible
        (3, 0, "25%", RolloutLimits(3, 0, 1)),
        (2, 0, 5, RolloutLimits(2, 0, 2)),  # no more can be unavailable than exist
        (0, "25%", "25%", RolloutLimits(0, 0, 0)),
        (10, "150%", "100%", RolloutLimits(10, 15, 10)),
        (4, "nonsense", "0%", RolloutLimits(4, 0, 1)),
    ],
)
def test_limits_are_numbers_or_percentages(
    replicas: int, surge: object, unavailable: object, expected: RolloutLimits
) -> None:
    assert rollout_limits(spec(replicas=replicas, strategy=rolling(surge, unavailable))) == expected


def test_default_limits_are_25_percent() -> None:
    assert rollout_limits(spec(replicas=8)) == RolloutLimits(8, 2, 2)
    assert (
        rollout_limits(from_tree(DeploymentSpec, {"selector": {}, "template": {"spec": {"containers": []}}})).desired
        == 1
    )


def test_recreate_has_no_surge_and_no_unavailable_pods() -> None:
    assert rollout_limits(spec(replicas=8, strategy={"type": "Recreate"})) == RolloutLimits(8)


def size(name: str, replicas: int, **more: Any) -> ReplicaSetSize:
    given: dict[str, Any] = {"name": name, "replicas": replicas, "current": replicas, "available": replicas, **more}
    return ReplicaSetSize(**given)


@pytest.mark.parametrize(
    ("new", "olds", "limits", "expected"),
    [
        # A first template starts at full size.
        (size("new", 0), [], RolloutLimits(3, 1), {"new": 3}),
        # One Pod above the desired number, then one old Pod less for each new one that is available.
        (size("new", 0), [size("old", 3)], RolloutLimits(3, 1), {"new": 1, "old": 3}),
        (size("new", 1, available=0), [size("old", 3)], RolloutLimits(3, 1), {"new": 1, "old": 3}),
        (size("new", 1), [size("old", 3)], RolloutLimits(3, 1), {"new": 1, "old": 2}),
        (size("new", 1), [size("old", 2)], RolloutLimits(3, 1), {"new": 2, "old": 2}),
        # Without surge the old Pods are deleted first.
        (size("new", 0), [size("old", 4)], RolloutLimits(4, 0, 2), {"new": 0, "old": 2}),
        (size("new", 0), [size("old", 2)], RolloutLimits(4, 0, 2), {"new": 2, "old": 2}),
        # Both at once.
        (size("new", 0), [size("old", 10)], RolloutLimits(10, 3, 2), {"new": 3, "old": 8}),
        # Pods that still exist count, although they are no longer desired.
        (size("new", 0), [size("old", 2, current=4)], RolloutLimits(4, 0, 2), {"new": 0, "old": 2}),
        # No step before every status has observed its spec.
        (size("new", 1), [size("old", 3, is_observed=False)], RolloutLimits(3, 1), {"new": 1, "old": 3}),
        (size("new", 1, is_observed=False), [size("old", 3)], RolloutLimits(3, 1), {"new": 1, "old": 3}),
        # Unavailable Pods are deleted first, those of the oldest ReplicaSet before others.
        (size("new", 1, available=0), [size("old", 3, available=1)], RolloutLimits(3, 1, 1), {"new": 1, "old": 2}),
        (size("new", 3), [size("a", 1), size("b", 1, available=0)], RolloutLimits(3, 2), {"new": 3, "a": 0, "b": 0}),
        # Too many new Pods are reduced to the desired number.
        (size("new", 5), [], RolloutLimits(3, 1), {"new": 3}),
        # No Pods are desired.
        (size("new", 2), [size("old", 1)], RolloutLimits(0), {"new": 0, "old": 0}),
    ],
)
def test_the_next_step_of_a_rolling_update(
    new: ReplicaSetSize, olds: list[ReplicaSetSize], limits: RolloutLimits, expected: dict[str, int]
) -> None:
    assert rolling_sizes(new, olds, limits) == expected


@pytest.mark.parametrize(
    ("sizes", "limits", "expected"),
    [
        # Ten of 10 and 3 more: from 8 and 5 to twice as many, in proportion.
        ([size("a", 8, max_total=13), size("b", 5, max_total=13)], RolloutLimits(20, 5), {"a": 15, "b": 10}),
        # The remainder after rounding goes to the largest.
        ([size("a", 5, max_total=10), size("b", 5, max_total=10)], RolloutLimits(11, 0), {"a": 5, "b": 6}),
        ([size("a", 6, max_total=12), size("b", 6, max_total=12)], RolloutLimits(5, 1), {"a": 3, "b": 3}),
        ([size("a", 3), size("b", 1)], RolloutLimits(0, 0), {"a": 0, "b": 0}),
        ([size("a", 2, max_total=4), size("b", 2, max_total=4)], RolloutLimits(3, 1), {"a": 2, "b": 2}),
        ([], RolloutLimits(3, 1), {}),
    ],
)
def test_scaling_is_proportional(sizes: list[ReplicaSetSize], limits: RolloutLimits, expected: dict[str, int]) -> None:
    assert scale_proportionally(sizes, limits) == expected


COUNTS = st.integers(0, 20)


@given(st.lists(st.tuples(COUNTS, COUNTS), max_size=5), st.integers(0, 30), st.integers(0, 10))
def test_proportional_sizes_add_up(given: list[tuple[int, int]], desired: int, surge: int) -> None:
    sizes = [size(f"s{place}", wanted, max_total=wanted + more) for place, (wanted, more) in enumerate(given)]
    limits = RolloutLimits(desired, surge)
    found = scale_proportionally(sizes, limits)
    assert all(count >= 0 for count in found.values())
    if found:
        assert sum(found.values()) == limits.max_total


@dataclass
class FakeReplicaSet:
    """A fake ReplicaSet: its desired size, its Pods, and the counts that it has reported."""

    name: str
    desired: int = 0
    pods: int = 0
    ready: int = 0
    reported: tuple[int, int] = (0, 0)
    observed: bool = True

    def act(self) -> None:
        self.ready -= max(0, self.ready - self.desired)  # Pods that are not ready are deleted first
        self.pods = self.desired

    def report(self) -> None:
        self.reported = (self.pods, self.ready)
        self.observed = self.pods == self.desired

    def size(self) -> ReplicaSetSize:
        current, available = self.reported
        return ReplicaSetSize(
            name=self.name, replicas=self.desired, current=current, available=available, is_observed=self.observed
        )

    def scale(self, replicas: int) -> None:
        if replicas != self.desired:
            self.desired, self.observed = replicas, False


LIMITS = st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(0, 6)).map(
    lambda it: RolloutLimits(it[0], it[1], min(it[0], it[2] or (0 if it[1] else 1)))
)


@settings(max_examples=300)
@given(LIMITS, st.lists(st.sampled_from(["act", "report", "ready", "roll", "retarget"]), max_size=120), st.randoms())
def test_a_rolling_update_respects_its_limits_under_any_course_of_events(
    limits: RolloutLimits, course: list[str], random: Random
) -> None:
    """The target may change during the update, and ReplicaSets act and report at any time."""
    sets = [
        FakeReplicaSet("a", limits.desired, limits.desired, limits.desired, (limits.desired, limits.desired)),
        FakeReplicaSet("b"),
    ]
    target = 1
    for event in course:
        one = random.choice(sets)
        match event:
            case "act":
                one.act()
            case "report":
                one.report()
            case "ready":
                one.ready = one.pods
            case "retarget":
                target = 1 - target
            case _:
                step(sets, target, limits)
        assert sum(it.pods for it in sets) <= limits.max_total
        assert sum(it.ready for it in sets) >= limits.min_available
    finish(sets, target, limits)


def step(sets: list[FakeReplicaSet], target: int, limits: RolloutLimits) -> None:
    new, old = sets[target], sets[1 - target]
    found = rolling_sizes(new.size(), [old.size()], limits)
    for one in sets:
        one.scale(found[one.name])


def finish(sets: list[FakeReplicaSet], target: int, limits: RolloutLimits) -> None:
    """Without further changes the update completes, and stays complete."""
    for _ in range(4 * (limits.desired + 2)):
        for one in sets:
            one.act()
            one.ready = one.pods
            one.report()
        step(sets, target, limits)
    assert [one.desired for one in sets] == [limits.desired if place == target else 0 for place in range(2)]
    before = [replace(one) for one in sets]
    step(sets, target, limits)
    assert sets == before
