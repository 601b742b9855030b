from typing import Any

import pytest

from levelset.apiserver.admission.webhooks import Webhook, read_webhook

CONFIGMAPS = ("", "v1", "configmaps")
DEPLOYMENTS = ("apps", "v1", "deployments")


def read(**hook: Any) -> Webhook:
    return read_webhook({"name": "a.example.com", **hook}, mutates=True)


def rule(*resources: str, groups: str = "*", operations: str = "*", scope: str = "*") -> dict[str, Any]:
    names: dict[str, Any] = {"apiGroups": [groups], "apiVersions": ["*"], "resources": list(resources)}
    return {**names, "operations": [operations], "scope": scope}


def request(place: tuple[str, str, str] = CONFIGMAPS, **more: Any) -> dict[str, Any]:
    resource = dict(zip(("group", "version", "resource"), place, strict=True))
    return {"resource": resource, "requestResource": resource, "operation": "CREATE", "object": {}, **more}


@pytest.mark.parametrize(
    ("resource", "subresource", "matches"),
    [
        ("*", "", True),
        ("*", "status", False),
        ("*/*", "", True),
        ("*/*", "status", True),
        ("deployments", "", True),
        ("deployments", "scale", False),
        ("deployments/*", "scale", True),
        ("deployments/*", "", True),
        ("deployments/scale", "scale", True),
        ("deployments/scale", "status", False),
        ("*/scale", "scale", True),
        ("*/scale", "", False),
        ("pods", "", False),
    ],
)
def test_rules_match_resources_and_subresources(resource: str, subresource: str, matches: bool) -> None:
    assert read(rules=[rule(resource)]).matches("CREATE", DEPLOYMENTS, subresource) is matches


def test_rules_match_groups_and_operations() -> None:
    hook = read(rules=[rule("*", groups="apps", operations="DELETE")])
    assert hook.matches("DELETE", DEPLOYMENTS, "")
    assert not hook.matches("CREATE", DEPLOYMENTS, "")
    assert not hook.matches("DELETE", CONFIGMAPS, "")


def test_admission_configurations_are_never_matched() -> None:
    place = ("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")
    assert not read(rules=[rule("*/*")]).matches("DELETE", place, "")


@pytest.mark.parametrize(
    ("scope", "place", "namespace", "wants"),
    [
        ("Namespaced", CONFIGMAPS, "default", True),
        ("Cluster", CONFIGMAPS, "default", False),
        ("Cluster", ("", "v1", "nodes"), None, True),
        ("Namespaced", ("", "v1", "nodes"), None, False),
        ("Cluster", ("", "v1", "namespaces"), "default", True),
        ("Namespaced", ("", "v1", "namespaces"), "default", False),
        ("*", CONFIGMAPS, "default", True),
    ],
)
def test_the_scope_distinguishes_namespaced_objects(scope: str, place: Any, namespace: Any, wants: bool) -> None:
    hook = read(rules=[rule("*", scope=scope)])
    assert hook.matches_request(request(place, namespace=namespace), None) is wants


def test_a_namespace_selector_does_not_exclude_cluster_scoped_objects() -> None:
    hook = read(rules=[rule("*")], namespaceSelector={"matchLabels": {"a": "b"}})
    assert hook.matches_request(request(("", "v1", "nodes")), None)
    assert not hook.matches_request(request(namespace="default"), {"metadata": {}})


def test_missing_fields_of_a_webhook_have_defaults() -> None:
    hook = read()
    assert (hook.ignores_failures, hook.reinvokes, hook.timeout_seconds, hook.version) == (False, False, 10.0, "v1")
    assert hook.has_side_effects
    assert not hook.match.exact
    assert not read(sideEffects="NoneOnDryRun").has_side_effects
