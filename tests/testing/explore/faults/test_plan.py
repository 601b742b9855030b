"""Plan ids: a plan is written as a short text and parsed back."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.errors import ConfigError
from levelset.testing.explore.faults.disturbance import SCENARIO_END
from levelset.testing.explore.faults.environment_faults import (
    ChildDeleted,
    ChildEdited,
    ClockSkew,
    FinalizerRemoved,
    LabelChanged,
    NamespaceDeleted,
    ObjectTouched,
    Outage,
    OutsideError,
    Overlap,
    PagedList,
    Pause,
    Preempt,
    SlowGarbageCollection,
    SpecChanged,
)
from levelset.testing.explore.faults.plan import (
    DISTURBANCES,
    Conflict,
    CrashAfter,
    CrashBefore,
    CrashDuring,
    Disturbance,
    Downtime,
    ErrorResponse,
    Hold,
    LostResponse,
    Plan,
    Relist,
    Reorder,
    Slow,
    StaleRestart,
    StepName,
    Takeover,
)

STATUS = StepName("patch Website/default/blog/status", 2)
ALL = [
    CrashBefore(STATUS),
    CrashAfter(STATUS),
    Downtime(STATUS, 20.0),
    CrashDuring(StepName("reconcile websites/Website/default/blog"), 3),
    Conflict(STATUS),
    ErrorResponse(STATUS, 503),
    LostResponse(StepName("create ConfigMap/default/fleet-~", 7)),
    Slow(STATUS, 0.5),
    Hold("Website", 4, 2.5),
    Relist("Secret", 1),
    StaleRestart(STATUS, 3, 4.0),
    Reorder("workers", 2),
    Takeover(STATUS),
    OutsideError(StepName("outside Cloud.create(blog, size=3)"), 2),
    PagedList(StepName("list ConfigMap/default"), 5.0),
    ChildDeleted(SCENARIO_END, "ConfigMap/default/blog-~"),
    ObjectTouched(SCENARIO_END, "Website/default/blog"),
    ChildEdited(StepName("patch Website/default/blog by user"), "ConfigMap/default/blog"),
    LabelChanged(SCENARIO_END, "ConfigMap/default/blog"),
    FinalizerRemoved(SCENARIO_END, "Website/default/blog"),
    NamespaceDeleted(SCENARIO_END),
    SlowGarbageCollection(30.0),
    Outage(STATUS, "429", 60.0),
    ClockSkew(-300.0),
    Pause(STATUS, 60.0),
    Overlap(STATUS, 20.0),
    Preempt(StepName("reconcile websites/Website/default/blog"), 2),
    SpecChanged("Website/default/blog", "image.tag", '"1.25-2"', 1),
]

names = st.text(min_size=1, max_size=20).filter(lambda text: "/" not in text)


def step(verb: str, parts: list[str], number: int) -> StepName:
    return StepName(f"{verb} {'/'.join(parts)}", number)


steps = st.builds(
    step,
    st.sampled_from(["apply", "create", "delete", "reconcile", "patch", "update"]),
    st.lists(names, min_size=1, max_size=4),
    st.integers(1, 10**6),
)
seconds = st.floats(0.1, 1000).map(lambda number: float(f"{number:g}"))
disturbances: st.SearchStrategy[Disturbance] = st.one_of(
    st.builds(CrashAfter, steps),
    st.builds(CrashDuring, steps, st.integers(0, 99)),
    st.builds(Slow, steps, seconds),
    st.builds(Hold, names, st.integers(1, 99), seconds),
    st.builds(Reorder, names, st.integers(1, 99)),
)


def test_each_disturbance_has_its_own_word() -> None:
    assert {type(one) for one in ALL} == set(DISTURBANCES.values())
    assert all(DISTURBANCES[one.word] is type(one) for one in ALL)


def test_the_guide_names_every_disturbance() -> None:
    guide = (Path(__file__).parents[4] / "docs" / "exploring.md").read_text()
    table = guide.split("## What it does to a controller", 1)[1].split("\n\n", 2)[1]
    named = {word for line in table.splitlines()[2:] for word in re.findall(r"`([a-z-]+)`", line.split("|")[2])}
    assert named == set(DISTURBANCES)


def test_an_id_is_short_and_readable() -> None:
    plan = Plan((CrashBefore(STATUS), Hold("Website", 4)))
    assert plan.id == "crash-before:patch.Website/default/blog/status#2+hold:Website:4:4"


def test_the_empty_plan_is_undisturbed() -> None:
    assert Plan().id == "undisturbed"
    assert Plan.parse("undisturbed") == Plan()


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.word)
def test_an_id_is_parsed_back_and_needs_no_shell_quotes(one: Disturbance) -> None:
    plan = Plan((one, ALL[0]))
    assert Plan.parse(plan.id) == plan
    assert not set(plan.id) & set(" \t*?[]{}()<>|&;\"'`\\$")
    assert str(one)


@given(st.lists(disturbances, max_size=3).map(lambda many: Plan(tuple(many))))
def test_ids_with_any_object_names_are_parsed_back(plan: Plan) -> None:
    assert Plan.parse(plan.id) == plan


@pytest.mark.parametrize(
    "text",
    ["", "sabotage:x#1", "crash-after", "crash-after:update.A/b", "hold:Website:x:4", "hold:Website:1", "conflict:+"],
)
def test_an_invalid_id_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a (plan|disturbance)"):
        Plan.parse(text)


def test_a_step_name_has_a_verb_and_a_kind() -> None:
    assert (STATUS.verb, STATUS.kind) == ("patch", "Website")
    reconcile = StepName("reconcile websites/Website/default/blog")
    assert (reconcile.verb, reconcile.kind) == ("reconcile", "Website")


def test_a_plan_without_one_of_its_disturbances() -> None:
    plan = Plan((ALL[0], ALL[1], ALL[2]))
    assert plan.without(1) == Plan((ALL[0], ALL[2]))
    assert len(plan) == 3
