import json
from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace

from levelset.apiserver.registry.storage_codec import (
    check_depth,
    encode_for_storage,
    list_document,
    list_item_bytes,
    served_bytes,
    served_tree,
    stored_bytes_with_version,
)
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.schema import Compiled, compile_schema
from levelset.errors import BadRequest
from levelset.storage import Item

V1 = ServedResource("example.com", "v1", "Widget", "widgets", "widget", "WidgetList", True, "v1", custom=True)
V2 = replace(V1, version="v2")
CONFIGMAPS = ServedResource("", "v1", "ConfigMap", "configmaps", "configmap", "ConfigMapList", True, "v1")


def item(value: bytes, revision: int = 7) -> Item:
    return Item("/k", value, revision, 1, 1)


def widget(**members: object) -> Object:
    return {
        "spec": {"n": 1},
        "metadata": {"resourceVersion": "3", "name": "a", **members},
        "apiVersion": "example.com/v2",
    }


def test_an_object_is_stored_in_its_storage_version_without_resource_version() -> None:
    expected = b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"n":1}}'
    assert encode_for_storage(V2, widget()) == expected


@pytest.mark.parametrize("order", permutations(["apiVersion", "kind", "metadata", "spec"]), ids="-".join)
@pytest.mark.parametrize("more", [{}, {"resourceVersion": "3"}], ids=["new", "updated"])
def test_a_stored_object_begins_with_version_kind_and_metadata_whatever_its_order_was(order: Any, more: Any) -> None:
    whole = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {**more, "name": "a"}, "spec": {"n": 1}}
    expected = b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"n":1}}'
    assert encode_for_storage(V1, {name: whole[name] for name in order}) == expected


@pytest.mark.parametrize("opened", [{}, []])
def test_a_too_deeply_nested_object_is_not_stored(opened: Any) -> None:
    deep: Any = opened
    for _ in range(240):
        deep = {"a": deep} if opened == {} else [deep]
    tree = {**widget(), "spec": deep}
    check_depth(tree, encode_for_storage(V1, tree))
    for _ in range(20):
        deep = [deep]
    tree = {**widget(), "spec": deep}
    with pytest.raises(BadRequest, match="nested too deeply"):
        check_depth(tree, encode_for_storage(V1, tree))


def test_a_wide_object_is_not_too_deep() -> None:
    tree = {**widget(), "spec": [{} for _ in range(1000)]}
    check_depth(tree, encode_for_storage(V1, tree))


def test_encoding_for_storage_does_not_modify_the_tree() -> None:
    tree = widget()
    encode_for_storage(V2, tree)
    assert tree == widget()


def test_encoding_in_a_smaller_version_does_not_modify_the_tree() -> None:
    spec = {"type": "object", "properties": {"m": {"type": "integer"}}}
    schema = compile_schema({"type": "object", "properties": {"spec": spec}})

    def compiled() -> Compiled | None:
        return schema

    tree = widget()
    assert json.loads(encode_for_storage(replace(V2, storage_schema=compiled), tree))["spec"] == {}
    assert tree == widget()


def test_a_stored_object_is_read_with_the_revision_of_its_write() -> None:
    stored = item(encode_for_storage(V1, widget()))
    assert json.loads(stored_bytes_with_version(stored))["metadata"] == {"resourceVersion": "7", "name": "a"}


def test_a_stored_object_is_read_in_the_requested_version() -> None:
    stored = item(encode_for_storage(V1, widget()))
    assert json.loads(served_bytes(V2, stored)) == served_tree(V2, stored)
    assert served_tree(V2, stored)["apiVersion"] == "example.com/v2"


def test_an_object_with_empty_metadata_is_still_json() -> None:
    stored = item(b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{}}')
    assert json.loads(served_bytes(V1, stored))["metadata"] == {"resourceVersion": "7"}
    assert json.loads(list_item_bytes(V1, [stored])[0])["metadata"] == {"resourceVersion": "7"}


def test_an_object_older_than_its_schema_is_pruned_and_defaulted() -> None:
    spec = {"type": "object", "properties": {"m": {"type": "integer", "default": 5}}}
    schema = compile_schema({"type": "object", "properties": {"spec": spec}})

    def compiled() -> Compiled | None:
        return schema

    newer = replace(V1, since=8, schema=compiled)
    stored = item(encode_for_storage(V1, widget()))
    assert json.loads(served_bytes(newer, stored))["spec"] == {"m": 5}
    assert json.loads(list_item_bytes(newer, [stored])[0])["spec"] == {"m": 5}
    assert json.loads(served_bytes(replace(newer, since=7), stored))["spec"] == {"n": 1}


def test_items_of_built_in_lists_have_no_kind_but_those_of_custom_resources_do() -> None:
    builtin = list_item_bytes(CONFIGMAPS, [item(encode_for_storage(CONFIGMAPS, widget()))])
    custom = list_item_bytes(V2, [item(encode_for_storage(V2, widget()))])
    assert list(json.loads(builtin[0])) == ["metadata", "spec"]
    assert list(json.loads(custom[0])) == ["apiVersion", "kind", "metadata", "spec"]


def test_a_list_is_assembled_from_encoded_items() -> None:
    made = json.loads(list_document(V2, [b'{"a":1}', b"{}"], metadata={"resourceVersion": "7"}))
    assert made == {
        "kind": "WidgetList",
        "apiVersion": "example.com/v2",
        "metadata": {"resourceVersion": "7"},
        "items": [{"a": 1}, {}],
    }
