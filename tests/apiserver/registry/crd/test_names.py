from typing import Any

from levelset.apiserver.registry.crd.names import (
    CrdNames,
    compute_status,
    has_all_names,
    is_established,
    with_condition,
)
from tests.apiserver.support.kinds_harness import definition

NOW = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:00:09Z"


def named(plural: str = "widgets", kind: str = "Widget", **names: Any) -> dict[str, Any]:
    complete = {"singular": kind.lower(), "listKind": f"{kind}List", **names}
    return definition(plural, kind, names=complete)


def settled(tree: dict[str, Any], names: CrdNames, now: str = NOW) -> dict[str, Any]:
    made = {**tree, "status": compute_status(tree, names, now)}
    names.claim(made)
    return made


def reason(tree: dict[str, Any], kind: str) -> str:
    return str(next(one["reason"] for one in tree["status"]["conditions"] if one["type"] == kind))


def test_free_names_are_accepted_and_the_crd_is_established() -> None:
    tree = settled(named(shortNames=["w"], categories=["all"]), CrdNames())
    assert tree["status"]["acceptedNames"] == tree["spec"]["names"]
    assert tree["status"]["storedVersions"] == ["v1"]
    assert (reason(tree, "NamesAccepted"), reason(tree, "Established")) == ("NoConflicts", "InitialNamesAccepted")
    assert is_established(tree)
    assert has_all_names(tree)


def test_a_taken_kind_is_not_accepted_and_the_last_conflict_is_reported() -> None:
    names = CrdNames()
    settled(named(), names)
    tree = settled(named("wodgets"), names)
    assert (reason(tree, "NamesAccepted"), reason(tree, "Established")) == ("ListKindConflict", "NotAccepted")
    assert tree["status"]["acceptedNames"] == {"plural": "wodgets"}


def test_names_are_released_with_their_crd() -> None:
    names = CrdNames()
    settled(named(), names)
    tree = settled(named("wodgets"), names)
    names.release("widgets.example.com")
    assert is_established(settled(tree, names))


def test_an_established_crd_stays_established_when_a_new_name_is_taken() -> None:
    names = CrdNames()
    settled(named(shortNames=["w"]), names)
    tree = settled(named("gadgets", "Gadget"), names)
    tree["spec"]["names"]["shortNames"] = ["w"]
    tree = settled(tree, names)
    assert reason(tree, "NamesAccepted") == "ShortNamesConflict"
    assert is_established(tree)
    assert "shortNames" not in tree["status"]["acceptedNames"]


def test_the_same_names_in_another_group_are_no_conflict() -> None:
    names = CrdNames()
    settled(named(), names)
    other = definition(group="other.com", names={"singular": "widget", "listKind": "WidgetList"})
    assert is_established(settled(other, names))


def test_plural_and_singular_can_be_equal() -> None:
    names = CrdNames()
    tree = settled(definition("fish", "Fish", names={"singular": "fish", "listKind": "FishList"}), names)
    assert is_established(tree)
    names.release("fish.example.com")
    assert names.holder("example.com", "resource", "fish") is None


def test_the_later_of_two_crds_with_one_name_loses_it() -> None:
    first, second = settled(named(), CrdNames()), settled(named("wodgets"), CrdNames())
    names = CrdNames()
    names.claim(first)
    names.claim(second)
    assert not names.has_conflict(first)
    assert names.has_conflict(second)
    assert not is_established({**second, "status": compute_status(second, names, NOW)})
    assert is_established({**first, "status": compute_status(first, names, NOW)})


def test_a_storage_version_stays_in_stored_versions() -> None:
    names = CrdNames()
    tree = settled(named(), names)
    tree["spec"]["versions"] = [{"name": "v2", "served": True, "storage": True}]
    assert compute_status(tree, names, NOW)["storedVersions"] == ["v1", "v2"]


def test_the_transition_time_of_a_condition_changes_only_with_its_status() -> None:
    first = with_condition([], "Ready", "True", "A", "a", now=NOW)
    again = with_condition(first, "Ready", "True", "B", "b", now=LATER)
    assert (again[0]["lastTransitionTime"], again[0]["reason"]) == (NOW, "B")
    changed = with_condition(again, "Ready", "False", "B", "b", now=LATER)
    assert changed[0]["lastTransitionTime"] == LATER


def test_computing_the_status_is_idempotent() -> None:
    names = CrdNames()
    tree = settled(named(), names)
    assert compute_status(tree, names, LATER) == tree["status"]
