import pytest

from levelset.apiserver.authn.request_attributes import (
    RequestAttributes,
    forbidden_error,
    non_resource_attributes,
    quoted,
    quoted_list,
    resource_attributes,
)
from levelset.apiserver.authn.users import User
from levelset.apiserver.routes import verb_of
from levelset.apiserver.wire.request_paths import parse_request_path
from levelset.http import Request

JANE = User("jane")
SCALE = 'deployments.apps "b" is forbidden: User "jane" cannot get resource "deployments/scale"'
SCALE += ' in API group "apps" in the namespace "a"'


def attributes_of(method: str, path: str, query: str = "") -> RequestAttributes:
    request = Request(method, path, query)
    path_of_resource = parse_request_path(request.segments)
    assert path_of_resource is not None
    return resource_attributes(path_of_resource, request, verb_of(path_of_resource, request))


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/pods", "", RequestAttributes("list", "", "pods")),
        ("GET", "/api/v1/pods", "watch=1", RequestAttributes("watch", "", "pods")),
        ("GET", "/api/v1/pods", "watch=false", RequestAttributes("list", "", "pods")),
        ("GET", "/api/v1/namespaces/a", "", RequestAttributes("get", "", "namespaces", "", "a", "a")),
        (
            "PUT",
            "/api/v1/namespaces/a/finalize",
            "",
            RequestAttributes("update", "", "namespaces", "finalize", "a", "a"),
        ),
        ("POST", "/api/v1/namespaces", "", RequestAttributes("create", "", "namespaces")),
        (
            "POST",
            "/api/v1/namespaces/a/serviceaccounts/b/token",
            "",
            RequestAttributes("create", "", "serviceaccounts", "token", "a", "b"),
        ),
        (
            "GET",
            "/apis/apps/v1/namespaces/a/deployments/b",
            "",
            RequestAttributes("get", "apps", "deployments", "", "a", "b"),
        ),
        ("GET", "/api/v1/pods", "fieldSelector=metadata.name%3Dx", RequestAttributes("list", "", "pods", name="x")),
        ("GET", "/api/v1/pods", "fieldSelector=metadata.name%3D..", RequestAttributes("list", "", "pods")),
        ("GET", "/api/v1/pods", "fieldSelector=%3D%3D%3D", RequestAttributes("list", "", "pods")),
    ],
)
def test_a_request_has_the_attributes_of_its_path_and_method(
    method: str, path: str, query: str, expected: RequestAttributes
) -> None:
    assert attributes_of(method, path, query) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", "/"),
        ("/version", "/version"),
        ("/version/", "/version/"),
        ("//version", "/version"),
        ("/a//b", "/a//b"),
        ("/a%2Fb", "/a%2Fb"),
        ("/%61", "/a"),
        ("/a/../b", "/a/../b"),
        ("/a%252Fb", "/a%252Fb"),
    ],
)
def test_a_non_resource_path_is_normalized_before_it_is_authorized(path: str, expected: str) -> None:
    assert non_resource_attributes(Request("GET", path)).path == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            RequestAttributes("get", "apps", "deployments", "scale", "a", "b"),
            SCALE,
        ),
        (
            RequestAttributes("list", "", "nodes"),
            'nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope',
        ),
        (RequestAttributes("get", path="/metrics"), 'forbidden: User "jane" cannot get path "/metrics"'),
        (RequestAttributes("get", path="/<b>&"), 'forbidden: User "jane" cannot get path "/&lt;b&gt;&amp;"'),
    ],
)
def test_a_forbidden_error_has_the_words_of_kubernetes(given: RequestAttributes, message: str) -> None:
    assert forbidden_error(JANE, given).message == message


def test_a_forbidden_error_can_have_a_reason() -> None:
    assert forbidden_error(JANE, RequestAttributes("get", path="/x"), "RBAC: none").message.endswith(
        'path "/x": RBAC: none'
    )


def test_quoting_escapes_ambiguous_characters() -> None:
    assert (quoted('a"b'), quoted("ä"), quoted("a\nb")) == ('"a\\"b"', '"ä"', '"a\\nb"')
    assert quoted_list(["a", "b"]) == '["a" "b"]'
