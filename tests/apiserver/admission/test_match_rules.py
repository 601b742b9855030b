"""Which writes the rules and selectors of a plugin match."""

from typing import Any

import pytest

from levelset.apiserver.admission.match_rules import read_match_resources, read_selector
from tests.apiserver.support.admission_policies import rule

PODS = {"group": "", "version": "v1", "resource": "pods"}
OLD = {"group": "", "version": "v0", "resource": "pods"}
NAMESPACE = {"metadata": {"labels": {"team": "x"}}}


def request(**more: Any) -> dict[str, Any]:
    whole = {"operation": "CREATE", "resource": PODS, "requestResource": PODS, "namespace": "n", "name": "a"}
    return {**whole, "object": {"metadata": {"labels": {"k": "v"}}}, "oldObject": None, **more}


@pytest.mark.parametrize(
    ("match", "expected"),
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
def test_a_write_matches_or_not(match: Any, *, expected: bool) -> None:
    assert read_match_resources(match).matches_request(request(), NAMESPACE) is expected


def test_an_exclusion_in_one_version_applies_to_all_unless_the_match_policy_is_exact() -> None:
    match = {"resourceRules": [rule("pods")], "excludeResourceRules": [rule("pods", versions=("v0",))]}
    equivalents = [("", "v0", "pods")]
    assert not read_match_resources(match).matches_request(request(), NAMESPACE, equivalents)
    assert read_match_resources({**match, "matchPolicy": "Exact"}).matches_request(request(), NAMESPACE, equivalents)


def test_the_match_policy_exact_matches_no_other_version() -> None:
    exact = read_match_resources({"resourceRules": [rule("pods")], "matchPolicy": "Exact"})
    assert not exact.matches_request(request(requestResource=OLD), NAMESPACE)
    assert not exact.matches_any_version(request(requestResource=OLD), NAMESPACE, [("", "v1", "pods")])
    assert read_match_resources({"resourceRules": [rule("pods")]}).matches_any_version(
        request(requestResource=OLD), NAMESPACE, [("", "v1", "pods")]
    )


def test_without_rules_all_writes_match_but_for_selectors_and_exclusions() -> None:
    assert read_match_resources({}).matches_any_version(request(), NAMESPACE)
    assert not read_match_resources({"excludeResourceRules": [rule("pods")]}).matches_any_version(request(), NAMESPACE)
    assert not read_match_resources({"objectSelector": {"matchLabels": {"k": "w"}}}).matches_any_version(
        request(), NAMESPACE
    )


def test_labels_of_the_old_object_match_too() -> None:
    match = read_match_resources({"resourceRules": [rule("pods")], "objectSelector": {"matchLabels": {"k": "w"}}})
    assert match.matches_request(request(oldObject={"metadata": {"labels": {"k": "w"}}}), NAMESPACE)


def test_a_namespace_is_selected_by_the_labels_it_will_have() -> None:
    resource = {"group": "", "version": "v1", "resource": "namespaces"}
    match = read_match_resources({"resourceRules": [rule("*")], "namespaceSelector": {"matchLabels": {"k": "v"}}})
    assert match.matches_request(request(resource=resource, requestResource=resource, namespace="a"), None)
    cluster = {"group": "", "version": "v1", "resource": "nodes"}
    assert match.matches_request(request(resource=cluster, requestResource=cluster, namespace=None), None)


def test_an_invalid_selector_selects_everything() -> None:
    assert read_selector({"matchExpressions": [{"key": "a", "operator": "What"}]}).is_everything
