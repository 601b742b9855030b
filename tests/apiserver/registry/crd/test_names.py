from typing import Any

from levelset.apiserver.registry.crd.names import Names, has_all_names, is_established, settle_status, with_condition
from tests.apiserver.kinds_world import definition

NOW = "2026-01-01T00:00:00Z"
LATER = "2026-01-01T00:00:09Z"


def named(plural: str = "widgets", kind: str = "Widget", **names: Any) -> dict[str, Any]:
    complete = {"singular": kind.lower(), "listKind": f"{kind}List", **names}
    return definition(plural, kind, names=complete)


def settled(tree: dict[str, Any], names: Names, now: str = NOW) -> dict[str, Any]:
    made = {**tree, "status": settle_status(tree, names, now)}
    names.claim(made)
    return made


def reason(tree: dict[str, Any], kind: str) -> str:
    return str(next(one["reason"] for one in tree["status"]["conditions"] if one["type"] == kind))


def test_names_that_nobody_has_are_accepted_and_the_definition_is_established() -> None:
    tree = settled(named(shortNames=["w"], categories=["all"]), Names())
    assert tree["status"]["acceptedNames"] == tree["spec"]["names"]
    assert tree["status"]["storedVersions"] == ["v1"]
    assert (reason(tree, "NamesAccepted"), reason(tree, "Established")) == ("NoConflicts", "InitialNamesAccepted")
    assert is_established(tree)
    assert has_all_names(tree)


def test_a_taken_kind_is_not_accepted_and_the_last_conflict_is_told() -> None:
    names = Names()
    settled(named(), names)
    tree = settled(named("wodgets"), names)
    assert (reason(tree, "NamesAccepted"), reason(tree, "Established")) == ("ListKindConflict", "NotAccepted")
    assert tree["status"]["acceptedNames"] == {"plural": "wodgets"}


def test_names_are_freed_with_their_holder() -> None:
    names = Names()
    settled(named(), names)
    tree = settled(named("wodgets"), names)
    names.release("widgets.example.com")
    assert is_established(settled(tree, names))


def test_an_established_definition_stays_so_when_a_new_name_is_taken() -> None:
    names = Names()
    settled(named(shortNames=["w"]), names)
    tree = settled(named("gadgets", "Gadget"), names)
    tree["spec"]["names"]["shortNames"] = ["w"]
    tree = settled(tree, names)
    assert reason(tree, "NamesAccepted") == "ShortNamesConflict"
    assert is_established(tree)
    assert "shortNames" not in tree["status"]["acceptedNames"]


def test_the_same_names_in_another_group_are_no_conflict() -> None:
    names = Names()
    settled(named(), names)
    other = definition(group="other.com", names={"singular": "widget", "listKind": "WidgetList"})
    assert is_established(settled(other, names))


def test_a_plural_may_be_its_own_singular() -> None:
    names = Names()
    tree = settled(definition("fish", "Fish", names={"singular": "fish", "listKind": "FishList"}), names)
    assert is_established(tree)
    names.release("fish.example.com")
    assert names.holder("example.com", "resource", "fish") is None


def test_of_two_that_claim_a_name_the_later_has_to_give_it_back() -> None:
    first, second = settled(named(), Names()), settled(named("wodgets"), Names())
    names = Names()
    names.claim(first)
    names.claim(second)
    assert not names.are_contested(first)
    assert names.are_contested(second)
    assert not is_established({**second, "status": settle_status(second, names, NOW)})
    assert is_established({**first, "status": settle_status(first, names, NOW)})


def test_a_version_that_objects_are_stored_in_is_noted_for_ever() -> None:
    names = Names()
    tree = settled(named(), names)
    tree["spec"]["versions"] = [{"name": "v2", "served": True, "storage": True}]
    assert settle_status(tree, names, NOW)["storedVersions"] == ["v1", "v2"]


def test_the_time_of_a_condition_moves_only_with_its_status() -> None:
    first = with_condition([], "Ready", "True", "A", "a", now=NOW)
    again = with_condition(first, "Ready", "True", "B", "b", now=LATER)
    assert (again[0]["lastTransitionTime"], again[0]["reason"]) == (NOW, "B")
    changed = with_condition(again, "Ready", "False", "B", "b", now=LATER)
    assert changed[0]["lastTransitionTime"] == LATER


def test_settling_again_changes_nothing() -> None:
    names = Names()
    tree = settled(named(), names)
    assert settle_status(tree, names, LATER) == tree["status"]
