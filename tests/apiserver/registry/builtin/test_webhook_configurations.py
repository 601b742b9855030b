from typing import Any

import pytest

from levelset.apiserver.registry.builtin.rules.webhook_rules import MUTATING_WEBHOOKS

GOOD: dict[str, Any] = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://example.com/path"},
    "rules": [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "*"}
    ],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}


def problems(*hooks: Any) -> dict[str, str]:
    return {cause.field: cause.reason for cause in MUTATING_WEBHOOKS.validate({"webhooks": list(hooks)}, None)}


def rule(**more: Any) -> dict[str, Any]:
    return {"rules": [{**GOOD["rules"][0], **more}]}


def url(text: str) -> dict[str, Any]:
    return {"clientConfig": {"url": text}}


def service(**more: Any) -> dict[str, Any]:
    return {"clientConfig": {"service": {"name": "a", "namespace": "b", **more}}}


@pytest.mark.parametrize(
    "more", [{}, service(path="/x", port=443), {"matchConditions": [{"name": "a", "expression": "true"}]}]
)
def test_a_valid_configuration_passes(more: dict[str, Any]) -> None:
    assert problems({**GOOD, **more}) == {}


@pytest.mark.parametrize(
    ("more", "field", "reason"),
    [
        ({"name": "short"}, "name", "Invalid"),
        ({"name": ""}, "name", "Required"),
        ({"sideEffects": "Some"}, "sideEffects", "NotSupported"),
        ({"failurePolicy": "Maybe"}, "failurePolicy", "NotSupported"),
        ({"matchPolicy": "Close"}, "matchPolicy", "NotSupported"),
        ({"timeoutSeconds": 31}, "timeoutSeconds", "Invalid"),
        ({"timeoutSeconds": 0}, "timeoutSeconds", "Invalid"),
        ({"admissionReviewVersions": []}, "admissionReviewVersions", "Required"),
        ({"admissionReviewVersions": ["v9"]}, "admissionReviewVersions", "Invalid"),
        (
            {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            "objectSelector.matchExpressions[0].operator",
            "Invalid",
        ),
        ({"clientConfig": {}}, "clientConfig", "Required"),
        ({"clientConfig": {**url("https://a/")["clientConfig"], "service": {}}}, "clientConfig", "Required"),
        (url("http://example.com"), "clientConfig.url", "Invalid"),
        (url("https:///path"), "clientConfig.url", "Invalid"),
        (url("https://me@example.com"), "clientConfig.url", "Invalid"),
        (url("https://example.com?a=b"), "clientConfig.url", "Invalid"),
        (url("https://example.com#a"), "clientConfig.url", "Invalid"),
        (url("https://example.com:port"), "clientConfig.url", "Required"),
        (service(name=""), "clientConfig.service.namespace", "Required"),
        (service(path="x"), "clientConfig.service.path", "Invalid"),
        (service(port=70000), "clientConfig.service.port", "Invalid"),
        (rule(operations=["READ"]), "rules[0].operations[0]", "NotSupported"),
        (rule(operations=["*", "CREATE"]), "rules[0].operations", "Invalid"),
        (rule(apiGroups=["*", "apps"]), "rules[0].apiGroups", "Invalid"),
        (rule(apiVersions=[]), "rules[0].apiVersions", "Required"),
        (rule(resources=["*/*", "pods"]), "rules[0].resources", "Invalid"),
        (rule(scope="World"), "rules[0].scope", "NotSupported"),
        ({"matchConditions": [{"name": "a b", "expression": "true"}]}, "matchConditions[0].name", "Invalid"),
        ({"matchConditions": [{"name": "a", "expression": " "}]}, "matchConditions[0].expression", "Required"),
        (
            {"matchConditions": [{"name": f"a{number}", "expression": "true"} for number in range(65)]},
            "matchConditions",
            "TooMany",
        ),
    ],
)
def test_invalid_webhooks_are_rejected_by_field(more: dict[str, Any], field: str, reason: str) -> None:
    assert problems({**GOOD, **more}) == {f"webhooks[0].{field}": f"FieldValue{reason}"}


def test_conditions_that_are_too_many_are_checked_as_others() -> None:
    conditions = [{"name": f"a{number}", "expression": "true"} for number in range(65)]
    found = problems({**GOOD, "matchConditions": [*conditions, conditions[0]]})
    assert found == {
        "webhooks[0].matchConditions": "FieldValueTooMany",
        "webhooks[0].matchConditions[65].name": "FieldValueDuplicate",
    }


def test_webhook_names_are_unique() -> None:
    assert problems(GOOD, GOOD) == {"webhooks[1].name": "FieldValueDuplicate"}
    twice = {"matchConditions": [{"name": "a", "expression": "true"}] * 2}
    assert problems({**GOOD, **twice}) == {"webhooks[0].matchConditions[1].name": "FieldValueDuplicate"}
