import json

from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.wire.status_errors import (
    ExpiredContinueToken,
    as_api_error,
    invalid_options,
    not_found,
    page_not_found,
    status_response,
    status_tree,
)
from levelset.errors import BadObject, BadRequest, Cause, TooManyRequests, Unauthorized
from levelset.storage import FutureRevision

WIDGETS = ServedResource("example.com", "v1", "Widget", "widgets", "widget", "WidgetList", True, "v1", custom=True)
CONFIGMAPS = ServedResource("", "v1", "ConfigMap", "configmaps", "configmap", "ConfigMapList", True, "v1")


def test_an_error_becomes_a_status_with_code_reason_and_details() -> None:
    assert status_tree(not_found(WIDGETS, "a")) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'widgets.example.com "a" not found',
        "reason": "NotFound",
        "details": {"name": "a", "group": "example.com", "kind": "widgets"},
        "code": 404,
    }


def test_the_core_group_is_not_named() -> None:
    assert status_tree(not_found(CONFIGMAPS, "a"))["details"] == {"name": "a", "kind": "configmaps"}


def test_causes_are_in_the_details() -> None:
    error = invalid_options("ListOptions", [Cause("limit", "FieldValueInvalid", "no")])
    assert status_tree(error)["details"] == {
        "group": "meta.k8s.io",
        "kind": "ListOptions",
        "causes": [{"reason": "FieldValueInvalid", "message": "no", "field": "limit"}],
    }


def test_a_future_revision_is_a_timeout_with_retry_after() -> None:
    response = status_response(FutureRevision(9, 5))
    assert isinstance(response.body, bytes)
    tree = json.loads(response.body)
    assert (tree["code"], tree["reason"]) == (504, "Timeout")
    assert tree["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert tree["details"]["retryAfterSeconds"] == 1
    assert ("Retry-After", "1") in response.headers


def test_too_many_requests_have_retry_after() -> None:
    response = status_response(TooManyRequests("slow down", retry_after=3))
    assert response.status == 429
    assert ("Retry-After", "3") in response.headers


def test_unauthorized_has_a_www_authenticate_header() -> None:
    assert any(name == "WWW-Authenticate" for name, _ in status_response(Unauthorized("who?")).headers)


def test_an_expired_continue_token_error_has_a_new_token() -> None:
    assert status_tree(ExpiredContinueToken("old", resume="abc"))["metadata"] == {"continue": "abc"}


def test_malformed_input_is_a_bad_request() -> None:
    assert isinstance(as_api_error(BadObject("no JSON")), BadRequest)


def test_any_other_error_has_no_status() -> None:
    assert as_api_error(KeyError("x")) is None


def test_an_unknown_path_gets_404_in_plain_text() -> None:
    response = page_not_found()
    assert (response.status, response.body) == (404, b"404 page not found\n")
