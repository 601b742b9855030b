"""The info of a call is read from its path and its description."""

import pytest

from levelset.client import Call
from levelset.testing.call_info import CallInfo, call_info, is_write


def call(method: str, path: str, verb: str, words: str) -> Call:
    return Call(method=method, path=path, verb=verb, about=words)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            call("GET", "/api/v1/namespaces/shop/configmaps/a", "get", "get ConfigMap/shop/a"),
            CallInfo("get", "ConfigMap", "shop", "a"),
        ),
        (
            call("PATCH", "/apis/x.dev/v1/namespaces/shop/sites/a/status", "patch", "patch Site/shop/a/status"),
            CallInfo("patch", "Site", "shop", "a", "status", "x.dev"),
        ),
        (
            call("PATCH", "/apis/x.dev/v1/namespaces/shop/sites/a", "patch", "apply Site/shop/a"),
            CallInfo("apply", "Site", "shop", "a", group="x.dev"),
        ),
        (
            call("POST", "/apis/x.dev/v1/namespaces/shop/sites", "create", "create Site in shop"),
            CallInfo("create", "Site", "shop", group="x.dev"),
        ),
        (
            call("GET", "/apis/x.dev/v1/sites", "list", "list Site in all namespaces"),
            CallInfo("list", "Site", group="x.dev"),
        ),
        (call("GET", "/api/v1/nodes/a", "get", "get Node/a"), CallInfo("get", "Node", None, "a")),
        (
            call("GET", "/api/v1/namespaces/shop", "get", "get Namespace/shop"),
            CallInfo("get", "Namespace", None, "shop"),
        ),
        (
            call("DELETE", "/api/v1/namespaces/shop/pods", "deletecollection", "delete all Pod in shop"),
            CallInfo("deletecollection", "Pod", "shop"),
        ),
        (call("GET", "/apis", "", ""), CallInfo("", "")),
        (call("GET", "/apis/x.dev/v1", "", ""), CallInfo("", "")),
        (call("GET", "/api/v1/pods", "list", ""), CallInfo("list", "pods")),
    ],
    ids=lambda value: str(value) if isinstance(value, CallInfo) else "",
)
def test_a_call_has_a_verb_kind_object_and_subresource(given: Call, expected: CallInfo) -> None:
    assert call_info(given) == expected


def test_percent_encoded_names_are_decoded() -> None:
    found = call_info(call("GET", "/apis/rbac/v1/clusterroles/system%3Anode", "get", "get ClusterRole/system:node"))
    assert found.name == "system:node"
    assert str(found) == "get ClusterRole/system:node"


def test_a_patch_is_a_write_and_a_get_is_not() -> None:
    assert is_write(call("PATCH", "/", "patch", ""))
    assert not is_write(call("GET", "/", "get", ""))


def test_only_events_and_leases_of_the_builtin_groups_are_bookkeeping() -> None:
    lease = "/apis/{}/v1/namespaces/shop/leases/a"
    assert call_info(call("PUT", lease.format("coordination.k8s.io"), "update", "update Lease/shop/a")).is_bookkeeping
    assert not call_info(call("PUT", lease.format("flats.example.dev"), "update", "update Lease/shop/a")).is_bookkeeping
