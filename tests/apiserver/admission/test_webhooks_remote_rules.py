from typing import Any

import pytest

from levelset.apiserver.admission.webhooks import RemoteWebhook, read_webhooks

CONFIGMAPS = ("", "v1", "configmaps")
DEPLOYMENTS = ("apps", "v1", "deployments")


def read(**hook: Any) -> RemoteWebhook:
    tree = {"metadata": {"name": "c"}, "webhooks": [{"name": "a.example.com", **hook}]}
    (made,) = read_webhooks(tree, mutates=True)
    return made


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
def test_resources_are_named_as_in_roles(resource: str, subresource: str, matches: bool) -> None:
    assert read(rules=[rule(resource)]).matches("CREATE", DEPLOYMENTS, subresource) is matches


def test_groups_and_operations_must_fit() -> None:
    hook = read(rules=[rule("*", groups="apps", operations="DELETE")])
    assert hook.matches("DELETE", DEPLOYMENTS, "")
    assert not hook.matches("CREATE", DEPLOYMENTS, "")
    assert not hook.matches("DELETE", CONFIGMAPS, "")


def test_configurations_of_admission_match_nothing() -> None:
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
def test_scopes_tell_objects_in_namespaces_from_others(scope: str, place: Any, namespace: Any, wants: bool) -> None:
    hook = read(rules=[rule("*", scope=scope)])
    assert hook.wants(request(place, namespace=namespace), None) is wants


def test_an_object_without_a_namespace_is_never_left_out_for_its_namespace() -> None:
    hook = read(rules=[rule("*")], namespaceSelector={"matchLabels": {"a": "b"}})
    assert hook.wants(request(("", "v1", "nodes")), None)
    assert not hook.wants(request(namespace="default"), {"metadata": {}})


def test_what_a_configuration_leaves_out_has_the_usual_meaning() -> None:
    hook = read()
    assert (hook.may_fail, hook.reinvokes, hook.seconds, hook.version) == (False, False, 10.0, "v1")
    assert hook.has_effects
    assert not hook.match.exact
    assert not read(sideEffects="NoneOnDryRun").has_effects
