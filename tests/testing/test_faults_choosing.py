"""Which calls a fault strikes."""

from typing import Any

import pytest

from levelset import ConfigError, GroupVersionKind, Object
from levelset.testing.call_info import About
from levelset.testing.faults import WRITES, Chooser, Which, which


class Settings(Object, api="v1", kind="ConfigMap"):
    data: dict[str, str] = {}


UPDATE = About("update", "ConfigMap", "default", "a")


def struck(chosen: Which, calls: int = 10) -> list[int]:
    chooser = Chooser(chosen)
    return [number for number in range(calls) if chooser.chooses(UPDATE, now=float(number))]


def test_everything_about_objects_is_chosen_unless_it_is_said_what() -> None:
    assert Which().fits(UPDATE)
    assert not Which().fits(About("get", ""))


def test_what_a_manager_writes_for_itself_is_left_alone_unless_it_is_named() -> None:
    lease = About("update", "Lease", "default", "a", group="coordination.k8s.io")
    assert not Which().fits(lease)
    assert not Which().fits(About("create", "Event", "default", "a"))
    assert which(WRITES, {"kinds": ("Lease",)}).fits(lease)
    assert Which().fits(About("update", "Lease", "default", "a", group="flats.example.dev"))


def test_a_kind_is_named_by_its_class_its_identity_or_its_name() -> None:
    for kind in (Settings, GroupVersionKind("", "v1", "ConfigMap"), "ConfigMap"):
        assert which(WRITES, {"kinds": (kind,)}).fits(UPDATE)
    assert not which(WRITES, {"kinds": ("Secret",)}).fits(UPDATE)


def test_verbs_and_names_choose_too() -> None:
    assert not which(WRITES, {"verbs": ("patch", "apply")}).fits(UPDATE)
    assert which(WRITES, {"names": ("a", "b")}).fits(UPDATE)
    assert not which(WRITES, {"names": ("b",)}).fits(UPDATE)


def test_some_pass_first_and_no_more_are_struck_than_were_asked_for() -> None:
    assert struck(Which(skip=2, count=3)) == [2, 3, 4]


def test_a_share_is_struck_by_a_chance_that_repeats_itself() -> None:
    first = struck(Which(share=0.3, seed=5), 1000)
    assert 250 < len(first) < 350
    assert struck(Which(share=0.3, seed=5), 1000) == first
    assert struck(Which(share=0.3, seed=6), 1000) != first


def test_time_is_counted_from_the_first_call_on() -> None:
    assert struck(Which(after=3.0, during=2.0)) == [3, 4]
    late = Chooser(Which(after=3.0))
    assert [at for at in (100.0, 102.0, 103.0) if late.chooses(UPDATE, now=at)] == [103.0]


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"verbs": ("write",)}, "choose from get"),
        ({"verbs": "update"}, r"give several, such as \('update',\)"),
        ({"names": "a"}, "give several"),
        ({"kinds": Settings}, "give several"),
        ({"share": 0}, "above 0"),
        ({"count": 0}, "1 or more"),
        ({"skip": -1}, "0 or more"),
        ({"after": -1.0}, "seconds"),
        ({"during": 0.0}, "above 0"),
        ({"shares": 1}, "cannot be chosen by shares"),
    ],
)
def test_a_choice_that_means_nothing_is_refused_with_what_would(choice: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        which(WRITES, choice)
