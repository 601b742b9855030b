import pytest

from levelset.apiserver.wire.negotiation import (
    JSON,
    YAML,
    Purpose,
    ResponseFormat,
    check_stream,
    negotiate,
    read_object,
)
from levelset.errors import ApiError, BadRequest
from levelset.http import Headers, Request

META = "g=meta.k8s.io;v=v1"


def body(data: bytes, media: str | None = JSON) -> Request:
    headers = Headers({} if media is None else {"Content-Type": media})
    return Request("POST", "/", headers=headers, body=data)


@pytest.mark.parametrize("accept", [None, "*/*", JSON, "application/vnd.kubernetes.protobuf,application/json"])
def test_the_default_format_is_json(accept: str | None) -> None:
    assert negotiate(accept, "object") == ResponseFormat()


def test_yaml_is_returned_if_it_is_accepted() -> None:
    assert negotiate(YAML, "list") == ResponseFormat(YAML)


def test_an_unsupported_media_type_is_skipped() -> None:
    assert negotiate(f"{JSON};as=Fancy;{META},{JSON}", "list") == ResponseFormat()
    assert negotiate(f"{JSON};as=Table;g=meta.k8s.io;v=v9,{JSON}", "list") == ResponseFormat()


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_table_is_available_in_both_versions(version: str) -> None:
    assert negotiate(f"{JSON};as=Table;g=meta.k8s.io;v={version}", "list") == ResponseFormat(JSON, "Table", version)


def test_a_higher_quality_wins_over_the_order() -> None:
    assert negotiate(f"{JSON};q=0.5,{YAML};q=0.9", "object").media == YAML
    assert negotiate(f"{YAML};q=0,{JSON};q=0.1", "object").media == JSON


def test_a_quality_of_zero_is_accepted_as_by_upstream() -> None:
    assert negotiate(f"{YAML};q=0", "object").media == YAML


def test_an_empty_header_is_like_none() -> None:
    assert negotiate("", "object") == ResponseFormat()


@pytest.mark.parametrize(
    ("accept", "purpose"),
    [
        ("text/html", "object"),
        ("application/*", "list"),
        ("application/vnd.kubernetes.protobuf", "list"),
        ("application/cbor", "list"),
        (f"{JSON};as=Fancy;{META}", "list"),
        (f"{JSON};as=Table;{META}", "part"),
        (";;=,,;q=x", "object"),
    ],
)
def test_no_acceptable_media_type_is_an_error(accept: str, purpose: Purpose) -> None:
    with pytest.raises(ApiError) as caught:
        negotiate(accept, purpose)
    assert (caught.value.code, caught.value.reason) == (406, "NotAcceptable")


def test_a_watch_can_accept_a_stream_explicitly() -> None:
    assert negotiate(f"{JSON};stream=watch", "list") == ResponseFormat()


def test_there_is_no_stream_of_yaml() -> None:
    check_stream(negotiate(JSON, "list"))
    with pytest.raises(ApiError, match=f"{JSON};stream=watch"):
        check_stream(negotiate(YAML, "list"))


def test_the_refusal_of_protobuf_names_what_is_sent() -> None:
    with pytest.raises(ApiError) as caught:
        negotiate("application/vnd.kubernetes.protobuf", "object")
    assert caught.value.message == f"only the following media types are accepted: {JSON}, {YAML}"


def test_a_missing_content_type_means_json() -> None:
    assert read_object(body(b'{"kind":"A"}', None)).tree == {"kind": "A"}


def test_a_body_can_be_yaml() -> None:
    assert read_object(body(b"kind: A\nlist: [1, two]\n", f"{YAML}; charset=utf-8")).tree == {
        "kind": "A",
        "list": [1, "two"],
    }


@pytest.mark.parametrize("media", ["text/plain", "application/cbor", "application/protobuf"])
def test_another_content_type_is_not_supported(media: str) -> None:
    with pytest.raises(ApiError) as caught:
        read_object(body(b"{}", media))
    assert (caught.value.code, caught.value.reason) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize("data", [b"", b"{nonsense", b"[]", b'"text"', b"\xff", b"[" * 100_000])
def test_a_body_that_is_not_an_object_is_a_bad_request(data: bytes) -> None:
    with pytest.raises(BadRequest):
        read_object(body(data))


def test_a_null_is_an_empty_object_of_a_built_in_kind_as_in_go() -> None:
    assert read_object(body(b"null")).tree == {}
    with pytest.raises(BadRequest):
        read_object(body(b"null"), custom=True)


@pytest.mark.parametrize("data", [b"", b"a: b: c", b"- 1", b"a: 1\n---\nb: 2\n"])
def test_a_yaml_body_that_is_not_an_object_is_a_bad_request(data: bytes) -> None:
    with pytest.raises(BadRequest):
        read_object(body(data, YAML))


def test_duplicate_fields_are_reported_and_the_last_one_wins() -> None:
    read = read_object(body(b'{"a":1,"spec":{"x":[{"y":1,"y":2}]},"a":2,"a":3}'))
    assert read.tree == {"a": 3, "spec": {"x": [{"y": 2}]}}
    assert read.duplicates == ("spec.x[0].y", "a")


def test_duplicates_are_reported_in_the_order_of_the_text_and_in_overwritten_values() -> None:
    read = read_object(
        body(b'{"spec": {"z": 1, "z": 2, "a": [{"b": 1, "b": 1}]}, "spec": {}, "kind": "A", "kind": "A"}')
    )
    assert (read.tree["spec"], read.duplicates) == ({}, ("spec.z", "spec.a[0].b", "spec", "kind"))


def test_white_space_causes_no_false_duplicates() -> None:
    assert read_object(body(b'{ "a": 1.50, "b": {"a": "\\u00e9"} }')).duplicates == ()
    assert read_object(body(b'{ "a" : 1, "b": {"a":\t"x: y"} }')).duplicates == ()


def test_white_space_hides_no_duplicates() -> None:
    assert read_object(body(b'{ "a" : 1, "b": {"a":\t"x: y"},\n"a": 1 }')).duplicates == ("a",)
    assert read_object(body(b'{"a": 1, "a": 1}')).duplicates == ("a",)
    assert read_object(body(b'{"a b": 1, "ab": 1, "a b": 1}')).duplicates == ("[a b]",)


def test_names_that_differ_in_their_spaces_are_no_duplicates() -> None:
    assert read_object(body(b'{"a b": 1, "ab": 1, " ab": "x y"}')).duplicates == ()


def test_escaped_colons_hide_no_duplicates() -> None:
    assert read_object(body(b'{"a": "\\u003a", "b": 1, "b": 2}')).duplicates == ("b",)
    assert read_object(body(b'{"a\\u003a": 1, "a:": 2}')).duplicates == ("[a:]",)
