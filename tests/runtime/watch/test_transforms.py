"""Transforms of the JSON of objects before they are cached."""

import json
from typing import Any

import pytest

from levelset.client.object_types import Kind
from levelset.errors import ConfigError
from levelset.objects.model import replace
from levelset.objects.ref import GroupVersionKind
from levelset.objects.unstructured import Unstructured
from levelset.runtime.watch.transforms import compose_transforms, guard_transform, typed_transform, without_fields
from tests.runtime.watch.watch_bench import Settings

RAW = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","managedFields":[{}]},"data":{"x":"1"},"odd":[2]}'


def test_fields_are_dropped_at_any_depth() -> None:
    tree = json.loads(without_fields("metadata.managedFields", "data.x", "odd", "spec.absent")(RAW))
    assert tree == {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {}}


def test_a_path_goes_through_lists() -> None:
    raw = b'{"spec":{"containers":[{"name":"a","env":[1]},{"env":[2]},3]}}'
    assert json.loads(without_fields("spec.containers.env")(raw)) == {"spec": {"containers": [{"name": "a"}, {}, 3]}}


def test_an_object_without_the_fields_is_not_touched() -> None:
    raw = b'{ "metadata" : {} }'
    assert without_fields("data")(raw) is raw


@pytest.mark.parametrize("path", ["metadata", "metadata.name", "metadata.uid", "metadata.resourceVersion", "kind"])
def test_fields_that_a_cache_needs_cannot_be_dropped(path: str) -> None:
    with pytest.raises(ConfigError, match=path):
        without_fields(path)


def test_a_typed_transform_keeps_unknown_fields() -> None:
    def emptied(settings: Settings) -> Settings:
        return replace(settings, data={})

    tree = json.loads(typed_transform(Settings, emptied)(RAW))
    assert (tree.get("data", {}), tree["odd"], tree["metadata"]["name"]) == ({}, [2], "a")


def test_a_function_on_unstructured_objects_changes_their_tree() -> None:
    kind: Kind[Unstructured] = GroupVersionKind("", "v1", "ConfigMap")
    changed = typed_transform(kind, lambda obj: Unstructured({**obj.tree, "data": {"y": "2"}}))(RAW)
    assert json.loads(changed)["data"] == {"y": "2"}


def test_transforms_are_applied_in_order() -> None:
    both = compose_transforms([lambda raw: raw + b"1", lambda raw: raw + b"2"])
    assert both is not None
    assert both(b"0") == b"012"
    assert compose_transforms([]) is None


def test_a_transform_twice_is_the_same_as_once() -> None:
    transform = without_fields("data", "metadata.managedFields")
    assert transform(transform(RAW)) == transform(RAW)


def test_a_guarded_transform_that_fails_returns_the_object_unchanged_and_reports_the_error() -> None:
    seen: list[Exception] = []

    def failing(raw: bytes) -> bytes:
        raise KeyError("x")

    assert guard_transform(failing, seen.append)(RAW) is RAW
    assert isinstance(seen[0].__cause__, KeyError)


@pytest.mark.parametrize("made", [None, "{}", b"", b"{}", b"[]", RAW.replace(b'"a"', b'"b"')], ids=repr)
def test_a_guarded_transform_must_return_the_same_object(made: Any) -> None:
    seen: list[Exception] = []
    assert guard_transform(lambda _: made, seen.append)(RAW) is RAW
    assert "the transform failed, so the object is cached unchanged" in str(seen[0])
