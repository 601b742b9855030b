import contextlib
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.client.lists import read_page
from levelset.errors import BadObject
from tests.client.world import CONFIG_MAP, WEBSITE


def page(items: bytes, meta: bytes = b'{"resourceVersion":"7"}') -> bytes:
    return b'{"kind":"WebsiteList","apiVersion":"v1","metadata":%b,"items":%b}' % (meta, items)


def test_a_page_has_its_version_its_token_and_what_remains() -> None:
    meta = b'{"resourceVersion":"7","continue":"abc","remainingItemCount":3}'
    found = read_page(page(b'[{"metadata":{"name":"a"}}]', meta), WEBSITE)
    assert (found.resource_version, found.continue_, found.remaining) == ("7", "abc", 3)
    assert [kept.head.name for kept in found.items] == ["a"]


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
def test_every_item_names_its_kind_once(item: bytes) -> None:
    found = read_page(page(b"[%b,%b]" % (item, item)), CONFIG_MAP).items
    for kept in found:
        tree = kept.tree()
        assert (tree["kind"], tree["apiVersion"], tree["metadata"]["name"]) == ("ConfigMap", "v1", "a")
        assert kept.raw.count(b'"kind"') == 1


def test_items_do_not_hold_on_to_the_answer() -> None:
    body = page(b'[{"kind":"A","apiVersion":"v1","metadata":{"name":"a","labels":{"x":"y"}}}]')
    before = sys.getrefcount(body)
    (kept,) = read_page(body, WEBSITE).items
    assert kept.head.labels == {"x": "y"}
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
def test_what_is_no_list_is_a_bad_object_that_names_the_kind(body: bytes) -> None:
    with pytest.raises(BadObject, match="example.dev/v1 Website"):
        read_page(body, WEBSITE)


@given(st.binary(max_size=60))
def test_no_bytes_whatever_raise_anything_else(data: bytes) -> None:
    for body in (data, page(data), page(b"[%b]" % data), msgspec.json.encode({"items": [data]})):
        with contextlib.suppress(BadObject):
            read_page(body, WEBSITE)
