from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.client.responses import read_error, read_status, retry_after_of, seconds_of, warnings_of
from levelset.client.transport.interface import Call, Response
from levelset.errors import (
    AlreadyExists,
    ApiError,
    ApplyConflict,
    BadRequest,
    Cause,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    ServerFailed,
    TooManyRequests,
    Unauthorized,
)
from levelset.http import Headers
from levelset.objects import encode_tree
from tests.client.fixtures import fake_response

CALL = Call(method="GET", path="/x", about="get Website/default/blog")
CLASSES = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: ApiError,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
    500: ServerFailed,
    502: ServerFailed,
    504: ServerFailed,
}


@pytest.mark.parametrize(("code", "expected"), CLASSES.items())
def test_each_status_code_has_its_exception_even_without_a_status_object(code: int, expected: type[ApiError]) -> None:
    for body in (b"", b"404 page not found\n", b"<html>\nsorry", b"[1]", b"null", b"\xff\xfe", b'{"kind":"Pod"}'):
        error = read_error(CALL, fake_response(code, body))
        assert (type(error), error.code, error.request) == (expected, code, CALL.words)
        assert str(code) in error.message or error.message


def test_the_text_of_a_proxy_is_the_message() -> None:
    error = read_error(CALL, fake_response(502, b"bad gateway\nmore"))
    assert str(error) == "get Website/default/blog: the server responded 502: bad gateway"


def test_reasons_refine_the_class() -> None:
    assert type(read_status({"reason": "AlreadyExists"}, code=409)) is AlreadyExists
    assert type(read_status({"reason": "Gone", "code": 410})) is Expired
    assert type(read_status({"reason": "Expired"})) is Expired
    assert type(read_status({"reason": "NotFound"})) is NotFound
    assert type(read_status({"code": 403})) is Forbidden
    assert type(read_status({})) is ServerFailed


def test_causes_and_details_are_preserved() -> None:
    cause = {"field": "spec.replicas", "reason": "FieldValueInvalid", "message": "must be positive"}
    tree = {"kind": "Status", "message": "no", "reason": "Invalid", "details": {"name": "a", "causes": [cause, 7]}}
    error = read_error(CALL, fake_response(422, encode_tree(tree)))
    assert error.causes == (Cause("spec.replicas", "FieldValueInvalid", "must be positive"),)
    assert (error.details["name"], error.reason, error.message) == ("a", "Invalid", "no")


def test_an_apply_conflict_lists_managers_and_fields() -> None:
    causes = [{"reason": "FieldManagerConflict", "field": ".a", "message": 'conflict with "kubectl" using v1'}]
    error = read_status({"reason": "Conflict", "code": 409, "message": "m", "details": {"causes": causes}})
    assert isinstance(error, ApplyConflict)
    assert [(one.manager, one.field) for one in error.conflicts] == [("kubectl", ".a")]
    assert (error.code, error.reason) == (409, "Conflict")


def test_retry_after_comes_from_the_header_or_the_details() -> None:
    busy = read_error(CALL, fake_response(429, b"", retry_after="7"))
    assert isinstance(busy, TooManyRequests)
    assert (busy.retry_after, retry_after_of(busy)) == (7.0, 7.0)
    reported = read_status({"code": 503, "details": {"retryAfterSeconds": 3}})
    assert retry_after_of(reported) == 3.0
    assert retry_after_of(read_status({"code": 503})) is None
    assert retry_after_of(ValueError()) is None


@pytest.mark.parametrize("text", ["", "-1", "soon", "Wed, 21 Oct 2015 07:28:00 GMT", "9" * 30, "²"])
def test_a_retry_after_that_is_not_a_number_is_ignored(text: str) -> None:
    assert seconds_of(Headers({"retry-after": text})) is None


def test_quoted_warnings_are_unquoted() -> None:
    headers = Headers([("warning", r'299 - "say \"hi\", twice"'), ("warning", '199 - "old"'), ("warning", "odd")])
    assert warnings_of(headers) == ['say "hi", twice']
    assert warnings_of(Headers({"warning": '299 - "a", 299 - "b"'})) == ["a", "b"]


trees: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 600) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["kind", "code", "reason", "message", "details", "causes", "metadata", "continue", "field"]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)


@given(trees, st.sampled_from([400, 404, 409, 410, 429, 500]))
def test_arbitrary_bodies_give_an_api_error(tree: Any, code: int) -> None:
    error = read_error(CALL, Response(status=code, body=encode_tree(tree)))
    assert isinstance(error, ApiError)
    assert error.code == code
    assert str(error)
    assert isinstance(read_status(tree), ApiError)


def test_a_path_that_is_not_served_suggests_a_missing_crd() -> None:
    call = Call(method="GET", path="/apis/x/v1/sites", about="list Site")
    error = read_error(call, Response(status=404, body=b"404 page not found\n"))
    assert isinstance(error, NotFound)
    assert str(error).startswith("list Site: the server responded 404: 404 page not found; ")
    assert "is the CRD installed?" in str(error)
