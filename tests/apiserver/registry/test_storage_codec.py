import json
from dataclasses import replace
from typing import Any

import pytest

from levelset.apiserver.registry.storage_codec import (
    bytes_with_version,
    join_list,
    listed_bytes,
    served_bytes,
    served_tree,
    store_bytes,
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
    assert store_bytes(V2, widget()) == expected


@pytest.mark.parametrize("opened", [{}, []])
def test_an_object_is_stored_only_if_it_is_not_too_deep_to_be_read_by_anybody(opened: Any) -> None:
    deep: Any = opened
    for _ in range(240):
        deep = {"a": deep} if opened == {} else [deep]
    assert store_bytes(V1, {**widget(), "spec": deep})
    for _ in range(20):
        deep = [deep]
    with pytest.raises(BadRequest, match="nested too deeply"):
        store_bytes(V1, {**widget(), "spec": deep})


def test_a_wide_object_is_not_a_deep_one() -> None:
    assert store_bytes(V1, {**widget(), "spec": [{} for _ in range(1000)]})


def test_storing_leaves_the_tree_alone() -> None:
    tree = widget()
    store_bytes(V2, tree)
    assert tree == widget()


def test_storing_in_a_version_that_knows_less_leaves_the_tree_alone_too() -> None:
    spec = {"type": "object", "properties": {"m": {"type": "integer"}}}
    schema = compile_schema({"type": "object", "properties": {"spec": spec}})

    def compiled() -> Compiled | None:
        return schema

    tree = widget()
    assert json.loads(store_bytes(replace(V2, storage_schema=compiled), tree))["spec"] == {}
    assert tree == widget()


def test_a_stored_object_is_read_with_the_revision_of_its_write() -> None:
    stored = item(store_bytes(V1, widget()))
    assert json.loads(bytes_with_version(stored))["metadata"] == {"resourceVersion": "7", "name": "a"}


def test_a_stored_object_is_read_in_the_version_that_is_asked_for() -> None:
    stored = item(store_bytes(V1, widget()))
    assert json.loads(served_bytes(V2, stored)) == served_tree(V2, stored)
    assert served_tree(V2, stored)["apiVersion"] == "example.com/v2"


def test_an_object_with_empty_metadata_is_still_json() -> None:
    stored = item(b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{}}')
    assert json.loads(served_bytes(V1, stored))["metadata"] == {"resourceVersion": "7"}
    assert json.loads(listed_bytes(V1, [stored])[0])["metadata"] == {"resourceVersion": "7"}


def test_an_object_older_than_its_schema_is_pruned_and_defaulted() -> None:
    spec = {"type": "object", "properties": {"m": {"type": "integer", "default": 5}}}
    schema = compile_schema({"type": "object", "properties": {"spec": spec}})

    def compiled() -> Compiled | None:
        return schema

    newer = replace(V1, since=8, schema=compiled)
    stored = item(store_bytes(V1, widget()))
    assert json.loads(served_bytes(newer, stored))["spec"] == {"m": 5}
    assert json.loads(listed_bytes(newer, [stored])[0])["spec"] == {"m": 5}
    assert json.loads(served_bytes(replace(newer, since=7), stored))["spec"] == {"n": 1}


def test_items_of_built_in_lists_have_no_kind_but_those_of_custom_resources_do() -> None:
    builtin = listed_bytes(CONFIGMAPS, [item(store_bytes(CONFIGMAPS, widget()))])
    custom = listed_bytes(V2, [item(store_bytes(V2, widget()))])
    assert list(json.loads(builtin[0])) == ["metadata", "spec"]
    assert list(json.loads(custom[0])) == ["apiVersion", "kind", "metadata", "spec"]


def test_a_list_is_put_together_from_bytes() -> None:
    made = json.loads(join_list(V2, [b'{"a":1}', b"{}"], metadata={"resourceVersion": "7"}))
    assert made == {
        "kind": "WidgetList",
        "apiVersion": "example.com/v2",
        "metadata": {"resourceVersion": "7"},
        "items": [{"a": 1}, {}],
    }
