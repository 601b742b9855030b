"""The calls that a fault selects."""

from typing import Any

import pytest

from levelset import GroupVersionKind, Object
from levelset.errors import ConfigError
from levelset.testing.call_info import CallInfo
from levelset.testing.faults import WRITES, CallSelector, FaultTrigger, select_calls


class Settings(Object, api="v1", kind="ConfigMap"):
    data: dict[str, str] = {}


UPDATE = CallInfo("update", "ConfigMap", "default", "a")


def injected(chosen: CallSelector, calls: int = 10) -> list[int]:
    trigger = FaultTrigger(chosen)
    return [number for number in range(calls) if trigger.fires(UPDATE, now=float(number))]


def test_all_calls_for_objects_are_selected_by_default() -> None:
    assert CallSelector().matches(UPDATE)
    assert not CallSelector().matches(CallInfo("get", ""))


def test_events_and_leases_are_selected_only_by_name() -> None:
    lease = CallInfo("update", "Lease", "default", "a", group="coordination.k8s.io")
    assert not CallSelector().matches(lease)
    assert not CallSelector().matches(CallInfo("create", "Event", "default", "a"))
    assert select_calls(WRITES, {"kinds": ("Lease",)}).matches(lease)
    assert CallSelector().matches(CallInfo("update", "Lease", "default", "a", group="flats.example.dev"))


def test_a_kind_is_given_by_class_gvk_or_name() -> None:
    for kind in (Settings, GroupVersionKind("", "v1", "ConfigMap"), "ConfigMap"):
        assert select_calls(WRITES, {"kinds": (kind,)}).matches(UPDATE)
    assert not select_calls(WRITES, {"kinds": ("Secret",)}).matches(UPDATE)


def test_calls_are_selected_by_verb_and_name() -> None:
    assert not select_calls(WRITES, {"verbs": ("patch", "apply")}).matches(UPDATE)
    assert select_calls(WRITES, {"names": ("a", "b")}).matches(UPDATE)
    assert not select_calls(WRITES, {"names": ("b",)}).matches(UPDATE)


def test_skip_lets_calls_pass_and_count_limits_the_faults() -> None:
    assert injected(CallSelector(skip=2, count=3)) == [2, 3, 4]


def test_a_share_of_calls_is_selected_deterministically_by_seed() -> None:
    first = injected(CallSelector(share=0.3, seed=5), 1000)
    assert 250 < len(first) < 350
    assert injected(CallSelector(share=0.3, seed=5), 1000) == first
    assert injected(CallSelector(share=0.3, seed=6), 1000) != first


def test_after_and_during_count_from_the_first_call() -> None:
    assert injected(CallSelector(after=3.0, during=2.0)) == [3, 4]
    late = FaultTrigger(CallSelector(after=3.0))
    assert [at for at in (100.0, 102.0, 103.0) if late.fires(UPDATE, now=at)] == [103.0]


@pytest.mark.parametrize(
    ("selection", "message"),
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
        ({"shares": 1}, "unknown keywords shares"),
    ],
)
def test_an_invalid_selection_is_refused_with_a_hint(selection: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        select_calls(WRITES, selection)
