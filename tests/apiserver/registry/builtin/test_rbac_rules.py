from typing import Any

import pytest

from levelset.apiserver.registry.builtin.rules.rbac_rules import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    ROLE,
    ROLE_BINDING,
)
from tests.apiserver.support.rbac_server import binding, role, rule


def fields(causes: Any) -> dict[str, str]:
    return {cause.field: cause.reason for cause in causes}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (rule("get", "pods"), {}),
        ({"apiGroups": [""], "resources": ["pods"]}, {"rules[0].verbs": "FieldValueRequired"}),
        ({"verbs": ["get"], "resources": ["pods"]}, {"rules[0].apiGroups": "FieldValueRequired"}),
        ({"verbs": ["get"], "apiGroups": [""]}, {"rules[0].resources": "FieldValueRequired"}),
    ],
)
def test_a_rule_has_verbs_groups_and_resources(given: Any, expected: dict[str, str]) -> None:
    assert fields(ROLE.validate(role("r", given), None)) == expected
    assert fields(CLUSTER_ROLE.validate(role("r", given), None)) == expected


def test_non_resource_urls_are_only_for_cluster_roles_and_not_mixed() -> None:
    paths = {"verbs": ["get"], "nonResourceURLs": ["/x"]}
    assert fields(CLUSTER_ROLE.validate(role("r", paths), None)) == {}
    assert fields(ROLE.validate(role("r", paths), None)) == {"rules[0].nonResourceURLs": "FieldValueInvalid"}
    both = {**rule("get", "pods"), **paths}
    assert fields(CLUSTER_ROLE.validate(role("r", both), None)) == {"rules[0].nonResourceURLs": "FieldValueInvalid"}


def test_an_aggregation_rule_has_valid_selectors() -> None:
    where = "aggregationRule.clusterRoleSelectors"
    assert fields(CLUSTER_ROLE.validate(role("r", aggregationRule={}), None)) == {where: "FieldValueRequired"}
    bad = {"clusterRoleSelectors": [{"matchLabels": {"-": "b"}}]}
    assert fields(CLUSTER_ROLE.validate(role("r", aggregationRule=bad), None)) == {
        f"{where}[0]": "FieldValueInvalid",
        f"{where}[0].matchLabels": "FieldValueInvalid",
    }


def test_a_cluster_role_binding_needs_a_cluster_role_and_service_account_namespaces() -> None:
    tree = binding("b", "r", "robot", kind="ServiceAccount")
    assert fields(ROLE_BINDING.validate(tree, None)) == {}
    assert fields(CLUSTER_ROLE_BINDING.validate(tree, None)) == {
        "roleRef.kind": "FieldValueNotSupported",
        "subjects[0].namespace": "FieldValueRequired",
    }


@pytest.mark.parametrize("name", ["a/b", "..", "50%"])
def test_the_name_of_a_role_is_a_path_segment(name: str) -> None:
    assert fields(ROLE_BINDING.validate(binding("b", name), None)) == {"roleRef.name": "FieldValueInvalid"}


def test_a_subject_has_a_name_and_the_group_of_its_kind() -> None:
    subjects = [
        {"kind": "User", "apiGroup": "rbac.authorization.k8s.io"},
        {"kind": "Group", "name": "a", "apiGroup": "other"},
        {"kind": "ServiceAccount", "name": "a", "apiGroup": "rbac.authorization.k8s.io"},
        {"kind": "Robot", "name": "a"},
    ]
    assert fields(ROLE_BINDING.validate({**binding("b", "r"), "subjects": subjects}, None)) == {
        "subjects[0].name": "FieldValueRequired",
        "subjects[1].apiGroup": "FieldValueNotSupported",
        "subjects[2].apiGroup": "FieldValueNotSupported",
        "subjects[3].kind": "FieldValueNotSupported",
    }


def test_the_role_ref_of_a_binding_is_immutable() -> None:
    (cause,) = ROLE_BINDING.validate(binding("b", "other"), binding("b", "r"))
    assert (cause.field, cause.message.endswith(": cannot change roleRef")) == ("roleRef", True)
