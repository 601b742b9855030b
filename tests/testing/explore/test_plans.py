"""A plan is one short text, and the text is the plan."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.errors import ConfigError
from levelset.testing.explore.plans import (
    DISTURBANCES,
    At,
    Away,
    Conflict,
    CrashAfter,
    CrashBefore,
    CrashDuring,
    Disturbance,
    Hold,
    LostAnswer,
    OlderAfterRestart,
    Plan,
    Refusal,
    Reorder,
    Skip,
    Slow,
    Takeover,
)

STATUS = At("patch Website/default/blog/status", 2)
ALL = [
    CrashBefore(STATUS),
    CrashAfter(STATUS),
    Away(STATUS, 20.0),
    CrashDuring(At("look websites/Website/default/blog"), 3),
    Conflict(STATUS),
    Refusal(STATUS, 503),
    LostAnswer(At("create ConfigMap/default/fleet-~", 7)),
    Slow(STATUS, 0.5),
    Hold("Website", 4, 2.5),
    Skip("Secret", 1),
    OlderAfterRestart(STATUS, 3, 4.0),
    Reorder("workers", 2),
    Takeover(STATUS),
]

names = st.text(min_size=1, max_size=20).filter(lambda text: "/" not in text)


def step(verb: str, parts: list[str], number: int) -> At:
    return At(f"{verb} {'/'.join(parts)}", number)


steps = st.builds(
    step,
    st.sampled_from(["apply", "create", "delete", "look", "patch", "update"]),
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


def test_each_disturbance_is_known_by_its_word() -> None:
    assert {type(one) for one in ALL} == set(DISTURBANCES.values())
    assert all(DISTURBANCES[one.word] is type(one) for one in ALL)


def test_an_id_is_short_and_reads_like_what_it_means() -> None:
    plan = Plan((CrashBefore(STATUS), Hold("Website", 4)))
    assert plan.id == "crash-before:patch.Website/default/blog/status#2+hold:Website:4:4"


def test_nothing_at_all_is_a_plan_too() -> None:
    assert Plan().id == "undisturbed"
    assert Plan.parse("undisturbed") == Plan()


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.word)
def test_an_id_is_read_back_and_needs_no_quotes_in_a_shell(one: Disturbance) -> None:
    plan = Plan((one, ALL[0]))
    assert Plan.parse(plan.id) == plan
    assert not set(plan.id) & set(" \t*?[]{}()<>|&;\"'`\\$")
    assert str(one)


@given(st.lists(disturbances, max_size=3).map(lambda many: Plan(tuple(many))))
def test_whatever_objects_are_called_an_id_is_read_back(plan: Plan) -> None:
    assert Plan.parse(plan.id) == plan


@pytest.mark.parametrize(
    "text",
    ["", "sabotage:x#1", "crash-after", "crash-after:update.A/b", "hold:Website:x:4", "hold:Website:1", "conflict:+"],
)
def test_what_is_no_id_is_refused_with_the_word_that_is_wrong(text: str) -> None:
    with pytest.raises(ConfigError, match="no (plan|disturbance)"):
        Plan.parse(text)


def test_a_step_knows_its_verb_and_kind() -> None:
    assert (STATUS.verb, STATUS.kind) == ("patch", "Website")
    look = At("look websites/Website/default/blog")
    assert (look.verb, look.kind) == ("look", "Website")


def test_a_plan_gives_up_one_of_its_disturbances() -> None:
    plan = Plan((ALL[0], ALL[1], ALL[2]))
    assert plan.without(1) == Plan((ALL[0], ALL[2]))
    assert len(plan) == 3
