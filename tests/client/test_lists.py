"""Cached objects, list pages and Items."""

import contextlib
import json
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.client.lists import object_decoder, read_page
from levelset.errors import BadObject
from tests.client.fixtures import CONFIG_MAP, WEBSITE


def page(items: bytes, meta: bytes = b'{"resourceVersion":"7"}') -> bytes:
    return b'{"kind":"WebsiteList","apiVersion":"v1","metadata":%b,"items":%b}' % (meta, items)


def test_a_page_has_its_version_its_token_and_the_remaining_count() -> None:
    meta = b'{"resourceVersion":"7","continue":"abc","remainingItemCount":3}'
    found = read_page(page(b'[{"metadata":{"name":"a"}}]', meta), WEBSITE)
    assert (found.resource_version, found.continue_, found.remaining) == ("7", "abc", 3)
    assert [cached.head.name for cached in found.items] == ["a"]


@pytest.mark.parametrize("items", [b"[]", b"null"])
def test_a_list_without_items_is_empty(items: bytes) -> None:
    assert read_page(page(items, b'{"continue":""}'), WEBSITE) == read_page(
        b'{"kind":"WebsiteList","metadata":null}', WEBSITE
    )


@pytest.mark.parametrize(
    "item",
    [
        b'{"metadata":{"name":"a"},"data":{}}',
        b'{"data":{},"metadata":{"name":"a"}}',
        b' { "metadata" : {"name":"a"} }',
        b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}',
        b'{"metadata":{"name":"a"},"kind":"ConfigMap","apiVersion":"v1"}',
        b'{"data":{},"metadata":{"name":"a"},"kind":"ConfigMap","apiVersion":"v1"}',
    ],
)
def test_every_item_has_its_kind_once(item: bytes) -> None:
    found = read_page(page(b"[%b,%b]" % (item, item)), CONFIG_MAP).items
    for cached in found:
        tree = cached.tree()
        assert (tree["kind"], tree["apiVersion"], tree["metadata"]["name"]) == ("ConfigMap", "v1", "a")
        assert cached.raw.count(b'"kind"') == 1


def test_items_do_not_keep_the_response_alive() -> None:
    body = page(b'[{"kind":"A","apiVersion":"v1","metadata":{"name":"a","labels":{"x":"y"}}}]')
    before = sys.getrefcount(body)
    (cached,) = read_page(body, WEBSITE).items
    assert cached.head.labels == {"x": "y"}
    assert sys.getrefcount(body) == before


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b'{"kind":"Status"}',
        b'{"items":7}',
        page(b"[7]"),
        page(b"[{}]"),
        page(b'[{"metadata":{"name":7}}]'),
        b'{"items":[' + b"[" * 5000,
        page(b'[{"metadata":{"name":"\xff"}}]'),
    ],
)
def test_a_response_that_is_not_a_list_is_a_bad_object_that_names_the_kind(body: bytes) -> None:
    with pytest.raises(BadObject, match="example.dev/v1 Website"):
        read_page(body, WEBSITE)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_raise_only_bad_object(data: bytes) -> None:
    for body in (data, page(data), page(b"[%b]" % data), msgspec.json.encode({"items": [data]})):
        with contextlib.suppress(BadObject):
            read_page(body, WEBSITE)


FIELDS = '[{"manager":"m","fieldsV1":{"f:a":{"k:{\\"port\\":80}":{}}}}]'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"metadata":{"name":"a","managedFields":%s},"b":1}', {"metadata": {"name": "a"}, "b": 1}),
        ('{"metadata":{"managedFields":%s,"name":"a"},"b":1}', {"metadata": {"name": "a"}, "b": 1}),
        ('{"metadata":{"managedFields":%s}}', {"metadata": {}}),
        ('{"metadata": {"name":"a" , "managedFields" : %s }}', {"metadata": {"name": "a"}}),
        ('{"metadata":{"labels":{"{":"}}"},"managedFields":%s}}', {"metadata": {"labels": {"{": "}}"}}}),
        (
            '{"spec":{"x":1,"managedFields":%s},"metadata":{"name":"a","managedFields":%s}}',
            {"spec": {"x": 1, "managedFields": json.loads(FIELDS)}, "metadata": {"name": "a"}},
        ),
        (
            '{"metadata":{"name":"a"},"spec":{"x":1,"managedFields":%s}}',
            {"metadata": {"name": "a"}, "spec": {"x": 1, "managedFields": json.loads(FIELDS)}},
        ),
        ('{"metadata":{"name":"managedFields"}}', {"metadata": {"name": "managedFields"}}),
    ],
)
def test_only_the_managed_fields_of_the_object_itself_are_cut(text: str, expected: Any) -> None:
    raw = text.replace("%s", FIELDS).encode()
    assert json.loads(object_decoder(managed_fields=False)(raw).raw) == expected
    assert object_decoder()(raw).raw is raw


names: Any = st.sampled_from(["managedFields", "metadata", "name", "a{", "}b", '"', "c:"])
trees: Any = st.recursive(
    st.none() | st.integers(0, 9) | st.sampled_from(["x", "{", "}]}", '"managedFields":[]', "managedFields"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=20,
)
members = st.dictionaries(names.filter(lambda name: name != "name"), trees, max_size=4)


@given(members, members, st.booleans(), st.booleans())
def test_cutting_managed_fields_equals_removing_the_member(
    before: dict[str, Any], metadata: dict[str, Any], is_last: bool, has_blanks: bool
) -> None:
    before.pop("metadata", None)
    tree = {**before, "metadata": metadata} if is_last else {"metadata": metadata, **before}
    raw = json.dumps(tree, separators=None if has_blanks else (",", ":")).encode()
    expected = {**tree, "metadata": {name: one for name, one in metadata.items() if name != "managedFields"}}
    assert json.loads(object_decoder(managed_fields=False)(raw).raw) == expected


@pytest.mark.parametrize("raw", [b'"managedFields":', b'{"managedFields":[]}', b'{"metadata":7,"managedFields":[]}'])
def test_bytes_without_metadata_are_a_bad_object(raw: bytes) -> None:
    with pytest.raises(BadObject):
        object_decoder(managed_fields=False)(raw)


def test_a_transform_sees_the_object_without_managed_fields() -> None:
    seen: list[bytes] = []

    def remember(raw: bytes) -> bytes:
        seen.append(raw)
        return b'{"metadata":{"name":"b"}}'

    raw = b'{"metadata":{"name":"a","managedFields":[]}}'
    cached = object_decoder(managed_fields=False, transform=remember)(raw)
    assert (seen, cached.head.name) == ([b'{"metadata":{"name":"a"}}'], "b")


USUAL = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","managedFields":%s},"spec":{"x":[1]}}'
managed: Any = trees | st.just(json.loads(FIELDS)) | st.just(json.loads(FIELDS) * 2)


@given(members, members, managed, st.booleans(), st.booleans())
def test_an_object_without_its_managed_fields_is_otherwise_the_same(
    before: dict[str, Any], metadata: dict[str, Any], fields: Any, has_fields: bool, is_last: bool
) -> None:
    before.pop("metadata", None)
    metadata = {"name": "a", **metadata}
    tree = {**before, "metadata": metadata} if is_last else {"metadata": metadata, **before}
    whole = {**tree, "metadata": {**metadata, **({"managedFields": fields} if has_fields else {})}}
    cached = object_decoder(managed_fields=False)(json.dumps(whole, separators=(",", ":")).encode())
    tree["metadata"] = {name: one for name, one in metadata.items() if name != "managedFields"}
    assert (cached.tree(), cached.name) == (tree, "a")


@pytest.mark.parametrize("fields", [FIELDS, "[]"])
def test_managed_fields_in_their_usual_place_are_cut_out_of_the_bytes(fields: str) -> None:
    cut = object_decoder(managed_fields=False)(USUAL.replace("%s", fields).encode())
    assert cut.raw == USUAL.replace(',"managedFields":%s', "").encode()


@pytest.mark.parametrize(
    "text",
    [
        '{"metadata":{"name":"a"},"spec":{"x":1,"managedFields":%s}}',
        '{"a\\"metadata":{"x":1,"managedFields":%s},"metadata":{"name":"a"}}',
        '{"metadata":{"name":"a","x":{"y":1,"managedFields":%s}}}',
        '{"metadata":{"annotations":{"a":"}"},"b":{"c":1,"managedFields":%s}},"spec":{}}',
        '{"spec":{"metadata":{"x":1,"managedFields":%s}},"metadata":{"name":"a"}}',
    ],
)
def test_lookalikes_of_managed_fields_are_not_cut(text: str) -> None:
    raw = text.replace("%s", FIELDS).encode()
    assert object_decoder(managed_fields=False)(raw).raw is raw
