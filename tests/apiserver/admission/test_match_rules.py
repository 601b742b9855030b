"""Which writes rules and selectors mean."""

from typing import Any

import pytest

from levelset.apiserver.admission.match_rules import read_match, read_selector
from tests.apiserver.ruling import rule

PODS = {"group": "", "version": "v1", "resource": "pods"}
OLD = {"group": "", "version": "v0", "resource": "pods"}
SPACE = {"metadata": {"labels": {"team": "x"}}}


def asked(**more: Any) -> dict[str, Any]:
    whole = {"operation": "CREATE", "resource": PODS, "requestResource": PODS, "namespace": "n", "name": "a"}
    return {**whole, "object": {"metadata": {"labels": {"k": "v"}}}, "oldObject": None, **more}


@pytest.mark.parametrize(
    ("match", "wanted"),
    [
        ({}, False),
        ({"resourceRules": [rule("pods")]}, True),
        ({"resourceRules": [rule("services"), rule("*")]}, True),
        ({"resourceRules": [rule("pods/status")]}, False),
        ({"resourceRules": [rule("pods", operations=["DELETE"])]}, False),
        ({"resourceRules": [rule("pods", groups=("apps",))]}, False),
        ({"resourceRules": [rule("pods", resourceNames=["a", "b"])]}, True),
        ({"resourceRules": [rule("pods", resourceNames=["b"])]}, False),
        ({"resourceRules": [rule("pods", scope="Cluster")]}, False),
        ({"resourceRules": [rule("pods", scope="Namespaced")]}, True),
        ({"resourceRules": [rule("pods")], "excludeResourceRules": [rule("pods")]}, False),
        ({"resourceRules": [rule("pods")], "excludeResourceRules": [rule("pods", resourceNames=["b"])]}, True),
        ({"resourceRules": [rule("pods")], "namespaceSelector": {"matchLabels": {"team": "x"}}}, True),
        ({"resourceRules": [rule("pods")], "namespaceSelector": {"matchLabels": {"team": "y"}}}, False),
        ({"resourceRules": [rule("pods")], "objectSelector": {"matchLabels": {"k": "v"}}}, True),
        ({"resourceRules": [rule("pods")], "objectSelector": {"matchLabels": {"k": "w"}}}, False),
    ],
)
def test_a_write_is_meant_or_not(match: Any, *, wanted: bool) -> None:
    assert read_match(match).wants(asked(), SPACE) is wanted


def test_what_is_excluded_in_one_version_is_excluded_in_all_unless_meant_exactly() -> None:
    match = {"resourceRules": [rule("pods")], "excludeResourceRules": [rule("pods", versions=("v0",))]}
    others = [("", "v0", "pods")]
    assert not read_match(match).wants(asked(), SPACE, others)
    assert read_match({**match, "matchPolicy": "Exact"}).wants(asked(), SPACE, others)


def test_who_means_it_exactly_wants_no_other_version() -> None:
    exact = read_match({"resourceRules": [rule("pods")], "matchPolicy": "Exact"})
    assert not exact.wants(asked(requestResource=OLD), SPACE)
    assert not exact.covers(asked(requestResource=OLD), SPACE, [("", "v1", "pods")])
    assert read_match({"resourceRules": [rule("pods")]}).covers(asked(requestResource=OLD), SPACE, [("", "v1", "pods")])


def test_without_rules_all_writes_are_covered_that_selectors_and_exceptions_leave() -> None:
    assert read_match({}).covers(asked(), SPACE)
    assert not read_match({"excludeResourceRules": [rule("pods")]}).covers(asked(), SPACE)
    assert not read_match({"objectSelector": {"matchLabels": {"k": "w"}}}).covers(asked(), SPACE)


def test_labels_of_the_object_before_count_too() -> None:
    match = read_match({"resourceRules": [rule("pods")], "objectSelector": {"matchLabels": {"k": "w"}}})
    assert match.wants(asked(oldObject={"metadata": {"labels": {"k": "w"}}}), SPACE)


def test_a_namespace_is_selected_by_the_labels_it_will_have() -> None:
    place = {"group": "", "version": "v1", "resource": "namespaces"}
    match = read_match({"resourceRules": [rule("*")], "namespaceSelector": {"matchLabels": {"k": "v"}}})
    assert match.wants(asked(resource=place, requestResource=place, namespace="a"), None)
    cluster = {"group": "", "version": "v1", "resource": "nodes"}
    assert match.wants(asked(resource=cluster, requestResource=cluster, namespace=None), None)


def test_a_selector_that_is_none_selects_everything() -> None:
    assert read_selector({"matchExpressions": [{"key": "a", "operator": "What"}]}).is_everything
