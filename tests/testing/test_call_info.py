"""What a call is about is read from its path and its words."""

import pytest

from levelset.client import Call
from levelset.testing.call_info import About, about, is_write


def call(method: str, path: str, verb: str, words: str) -> Call:
    return Call(method=method, path=path, verb=verb, words=words)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            call("GET", "/api/v1/namespaces/shop/configmaps/a", "get", "get ConfigMap/shop/a"),
            About("get", "ConfigMap", "shop", "a"),
        ),
        (
            call("PATCH", "/apis/x.dev/v1/namespaces/shop/sites/a/status", "patch", "patch Site/shop/a/status"),
            About("patch", "Site", "shop", "a", "status", "x.dev"),
        ),
        (
            call("PATCH", "/apis/x.dev/v1/namespaces/shop/sites/a", "patch", "apply Site/shop/a"),
            About("apply", "Site", "shop", "a", group="x.dev"),
        ),
        (
            call("POST", "/apis/x.dev/v1/namespaces/shop/sites", "create", "create Site in shop"),
            About("create", "Site", "shop", group="x.dev"),
        ),
        (
            call("GET", "/apis/x.dev/v1/sites", "list", "list Site in all namespaces"),
            About("list", "Site", group="x.dev"),
        ),
        (call("GET", "/api/v1/nodes/a", "get", "get Node/a"), About("get", "Node", None, "a")),
        (call("GET", "/api/v1/namespaces/shop", "get", "get Namespace/shop"), About("get", "Namespace", None, "shop")),
        (
            call("DELETE", "/api/v1/namespaces/shop/pods", "deletecollection", "delete all Pod in shop"),
            About("deletecollection", "Pod", "shop"),
        ),
        (call("GET", "/apis", "", ""), About("", "")),
        (call("GET", "/apis/x.dev/v1", "", ""), About("", "")),
        (call("GET", "/api/v1/pods", "list", ""), About("list", "pods")),
    ],
    ids=lambda value: str(value) if isinstance(value, About) else "",
)
def test_a_call_is_about_its_verb_kind_object_and_part(given: Call, expected: About) -> None:
    assert about(given) == expected


def test_what_is_percent_encoded_in_a_path_is_not_in_a_name() -> None:
    found = about(call("GET", "/apis/rbac/v1/clusterroles/system%3Anode", "get", "get ClusterRole/system:node"))
    assert found.name == "system:node"
    assert str(found) == "get ClusterRole/system:node"


def test_a_call_that_may_change_something_is_a_write() -> None:
    assert is_write(call("PATCH", "/", "patch", ""))
    assert not is_write(call("GET", "/", "get", ""))


def test_only_the_events_and_leases_of_kubernetes_are_a_managers_own() -> None:
    lease = "/apis/{}/v1/namespaces/shop/leases/a"
    assert about(call("PUT", lease.format("coordination.k8s.io"), "update", "update Lease/shop/a")).is_own
    assert not about(call("PUT", lease.format("flats.example.dev"), "update", "update Lease/shop/a")).is_own
