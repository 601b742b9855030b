import pytest

from levelset.apiserver.authn.request_attributes import (
    Attempt,
    attempt_at,
    attempt_path,
    forbidden_attempt,
    quoted,
    quoted_list,
)
from levelset.apiserver.authn.users import Caller
from levelset.apiserver.routes import verb_of
from levelset.apiserver.wire.request_paths import read_address
from levelset.http import Request

JANE = Caller("jane")
SCALE = 'deployments.apps "b" is forbidden: User "jane" cannot get resource "deployments/scale"'
SCALE += ' in API group "apps" in the namespace "a"'


def attempt(method: str, path: str, query: str = "") -> Attempt:
    request = Request(method, path, query)
    address = read_address(request.segments)
    assert address is not None
    return attempt_at(address, request, verb_of(address, request))


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/pods", "", Attempt("list", "", "pods")),
        ("GET", "/api/v1/pods", "watch=1", Attempt("watch", "", "pods")),
        ("GET", "/api/v1/pods", "watch=false", Attempt("list", "", "pods")),
        ("GET", "/api/v1/namespaces/a", "", Attempt("get", "", "namespaces", "", "a", "a")),
        ("PUT", "/api/v1/namespaces/a/finalize", "", Attempt("update", "", "namespaces", "finalize", "a", "a")),
        ("POST", "/api/v1/namespaces", "", Attempt("create", "", "namespaces")),
        (
            "POST",
            "/api/v1/namespaces/a/serviceaccounts/b/token",
            "",
            Attempt("create", "", "serviceaccounts", "token", "a", "b"),
        ),
        ("GET", "/apis/apps/v1/namespaces/a/deployments/b", "", Attempt("get", "apps", "deployments", "", "a", "b")),
        ("GET", "/api/v1/pods", "fieldSelector=metadata.name%3Dx", Attempt("list", "", "pods", name="x")),
        ("GET", "/api/v1/pods", "fieldSelector=metadata.name%3D..", Attempt("list", "", "pods")),
        ("GET", "/api/v1/pods", "fieldSelector=%3D%3D%3D", Attempt("list", "", "pods")),
    ],
)
def test_a_request_is_an_attempt(method: str, path: str, query: str, expected: Attempt) -> None:
    assert attempt(method, path, query) == expected


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
def test_a_path_is_judged_as_the_pages_understand_it(path: str, expected: str) -> None:
    assert attempt_path(Request("GET", path)).path == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            Attempt("get", "apps", "deployments", "scale", "a", "b"),
            SCALE,
        ),
        (
            Attempt("list", "", "nodes"),
            'nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope',
        ),
        (Attempt("get", path="/metrics"), 'forbidden: User "jane" cannot get path "/metrics"'),
        (Attempt("get", path="/<b>&"), 'forbidden: User "jane" cannot get path "/&lt;b&gt;&amp;"'),
    ],
)
def test_a_refusal_is_told_in_the_words_of_kubernetes(given: Attempt, message: str) -> None:
    assert forbidden_attempt(JANE, given).message == message


def test_a_refusal_may_say_why() -> None:
    assert forbidden_attempt(JANE, Attempt("get", path="/x"), "RBAC: none").message.endswith('path "/x": RBAC: none')


def test_what_is_quoted_cannot_be_mistaken() -> None:
    assert (quoted('a"b'), quoted("ä"), quoted("a\nb")) == ('"a\\"b"', '"ä"', '"a\\nb"')
    assert quoted_list(["a", "b"]) == '["a" "b"]'
