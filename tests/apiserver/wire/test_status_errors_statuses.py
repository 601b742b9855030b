import json

from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.wire.status_errors import (
    ExpiredToken,
    as_api_error,
    invalid_options,
    not_found,
    page_not_found,
    status_response,
    status_tree,
    success,
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


def test_causes_are_among_the_details() -> None:
    error = invalid_options("ListOptions", [Cause("limit", "FieldValueInvalid", "no")])
    assert status_tree(error)["details"] == {
        "group": "meta.k8s.io",
        "kind": "ListOptions",
        "causes": [{"reason": "FieldValueInvalid", "message": "no", "field": "limit"}],
    }


def test_a_revision_of_the_future_is_a_timeout_to_be_tried_again_after_a_second() -> None:
    response = status_response(FutureRevision(9, 5))
    assert isinstance(response.body, bytes)
    tree = json.loads(response.body)
    assert (tree["code"], tree["reason"]) == (504, "Timeout")
    assert tree["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert tree["details"]["retryAfterSeconds"] == 1
    assert ("Retry-After", "1") in response.headers


def test_too_many_requests_say_when_to_come_back() -> None:
    response = status_response(TooManyRequests("slow down", retry_after=3))
    assert response.status == 429
    assert ("Retry-After", "3") in response.headers


def test_an_unknown_caller_is_told_how_to_say_who_it_is() -> None:
    assert any(name == "WWW-Authenticate" for name, _ in status_response(Unauthorized("who?")).headers)


def test_an_expired_token_carries_one_to_go_on_with() -> None:
    assert status_tree(ExpiredToken("old", resume="abc"))["metadata"] == {"continue": "abc"}


def test_input_that_cannot_be_read_is_the_fault_of_the_client() -> None:
    assert isinstance(as_api_error(BadObject("no JSON")), BadRequest)


def test_any_other_error_is_not_for_the_client() -> None:
    assert as_api_error(KeyError("x")) is None


def test_a_deleted_object_is_named_with_its_uid() -> None:
    tree = success(WIDGETS, "a", "123")
    assert (tree["status"], tree["details"]["uid"], tree["details"]["kind"]) == ("Success", "123", "widgets")


def test_a_path_that_is_none_is_answered_in_plain_text() -> None:
    response = page_not_found()
    assert (response.status, response.body) == (404, b"404 page not found\n")
