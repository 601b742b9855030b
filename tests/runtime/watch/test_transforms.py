"""Changes to the JSON of objects before they are kept."""

import json
from typing import Any

import pytest

from levelset.client.object_types import Kind
from levelset.errors import ConfigError
from levelset.objects.model import replace
from levelset.objects.ref import GroupVersionKind
from levelset.objects.unstructured import Unstructured
from levelset.runtime.watch.transforms import composed, guarded, transforming, without_fields
from tests.runtime.watch.world import Settings

RAW = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","managedFields":[{}]},"data":{"x":"1"},"odd":[2]}'


def test_fields_are_left_out_wherever_they_are() -> None:
    tree = json.loads(without_fields("metadata.managedFields", "data.x", "odd", "spec.absent")(RAW))
    assert tree == {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {}}


def test_a_path_goes_through_lists() -> None:
    raw = b'{"spec":{"containers":[{"name":"a","env":[1]},{"env":[2]},3]}}'
    assert json.loads(without_fields("spec.containers.env")(raw)) == {"spec": {"containers": [{"name": "a"}, {}, 3]}}


def test_an_object_without_the_fields_is_not_touched() -> None:
    raw = b'{ "metadata" : {} }'
    assert without_fields("data")(raw) is raw


@pytest.mark.parametrize("path", ["metadata", "metadata.name", "metadata.uid", "metadata.resourceVersion", "kind"])
def test_what_a_cache_needs_cannot_be_left_out(path: str) -> None:
    with pytest.raises(ConfigError, match=path):
        without_fields(path)


def test_a_typed_function_keeps_what_its_class_does_not_know() -> None:
    def emptied(settings: Settings) -> Settings:
        return replace(settings, data={})

    tree = json.loads(transforming(Settings, emptied)(RAW))
    assert (tree.get("data", {}), tree["odd"], tree["metadata"]["name"]) == ({}, [2], "a")


def test_a_function_on_unstructured_objects_changes_their_tree() -> None:
    kind: Kind[Unstructured] = GroupVersionKind("", "v1", "ConfigMap")
    changed = transforming(kind, lambda obj: Unstructured({**obj.tree, "data": {"y": "2"}}))(RAW)
    assert json.loads(changed)["data"] == {"y": "2"}


def test_transforms_are_done_in_their_order() -> None:
    both = composed([lambda raw: raw + b"1", lambda raw: raw + b"2"])
    assert both is not None
    assert both(b"0") == b"012"
    assert composed([]) is None


def test_a_transform_twice_is_the_same_as_once() -> None:
    transform = without_fields("data", "metadata.managedFields")
    assert transform(transform(RAW)) == transform(RAW)


def test_a_guarded_transform_gives_the_object_as_it_is_and_tells_the_error() -> None:
    told: list[Exception] = []

    def failing(raw: bytes) -> bytes:
        raise KeyError("x")

    assert guarded(failing, told.append)(RAW) is RAW
    assert isinstance(told[0].__cause__, KeyError)


@pytest.mark.parametrize("made", [None, "{}", b"", b"{}", b"[]", RAW.replace(b'"a"', b'"b"')], ids=repr)
def test_what_a_guarded_transform_gives_must_be_the_same_object(made: Any) -> None:
    told: list[Exception] = []
    assert guarded(lambda _: made, told.append)(RAW) is RAW
    assert "the transform failed, so an object is kept as it came" in str(told[0])
